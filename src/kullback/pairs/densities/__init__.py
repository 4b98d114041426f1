"""What an integral needs to know of a univariate law: one description per family."""

from kullback.pairs.densities.describe import describable, describe, in_family
from kullback.pairs.densities.law import Law

__all__ = ["Law", "describable", "describe", "in_family"]
