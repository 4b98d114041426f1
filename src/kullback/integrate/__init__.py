"""Integrals of functions on the line, batched and differentiable; nothing here knows what a distribution is."""

from kullback.integrate.gauss_legendre import Integral, Nodes, integrate, place_nodes
from kullback.integrate.grading import Panels, Span, falling, graded_panels, ladder, split_panels, tightened

__all__ = [
    "Integral",
    "Nodes",
    "Panels",
    "Span",
    "falling",
    "graded_panels",
    "integrate",
    "ladder",
    "place_nodes",
    "split_panels",
    "tightened",
]
