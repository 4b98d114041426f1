"""Integrals of functions on the line, batched and differentiable; nothing here knows what a distribution is."""

from kullback.integrate.grading import Panels, graded_panels, ladder, split_panels, worth_keeping
from kullback.integrate.panel_rule import Integral, Nodes, integrate, place_nodes

__all__ = [
    "Integral",
    "Nodes",
    "Panels",
    "graded_panels",
    "integrate",
    "ladder",
    "place_nodes",
    "split_panels",
    "worth_keeping",
]
