"""What an integral needs to know of a univariate distribution: one description for each family.

The names here are what `register_density` needs: a `Density`, its coordinate, marks and tails.
"""

from kullback.densities.coordinate import Integers, Log, Logit, Sinh, mark_above, mark_between
from kullback.densities.density import Density, above_zero, in_unit_interval, on_integers, on_line
from kullback.densities.point import Point, centred
from kullback.densities.reading import read
from kullback.densities.registry import Reading, register_density
from kullback.densities.tails import double_exponential, exponential, log_normal, power

__all__ = [
    "Density",
    "Integers",
    "Log",
    "Logit",
    "Point",
    "Reading",
    "Sinh",
    "above_zero",
    "centred",
    "double_exponential",
    "exponential",
    "in_unit_interval",
    "log_normal",
    "mark_above",
    "mark_between",
    "on_integers",
    "on_line",
    "power",
    "read",
    "register_density",
]
