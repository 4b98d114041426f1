"""Fits distributions by minimising KL: `project`, and what it takes and returns."""

from kullback.fit.families import Family
from kullback.fit.project import project
from kullback.fit.projection import Optimum, Projection, Ranking

__all__ = ["Family", "Optimum", "Projection", "Ranking", "project"]
