"""Laws on the half-line x > 0, compared by what their logarithms do."""

from kullback.pairs.positive import routes

__all__ = ["routes"]
