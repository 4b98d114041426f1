"""What an integral needs to know of a univariate distribution: a description for each family; `divergences` reads it.

The names here are all that the description of a family is made of, one of yours by `register_density`, too.
"""

from kullback.densities.coordinate import Integers, Log, Logit, Sinh, mark_above, mark_between
from kullback.densities.density import (
    Density,
    above_zero,
    in_unit_interval,
    of_log,
    of_logit,
    of_z,
    on_integers,
    on_line,
)
from kullback.densities.parameters import bounded_log, log_classes, log_odds, log_outcomes, read
from kullback.densities.point import HUGE, Point, centred, softplus, stable_exp
from kullback.densities.registry import Reading, family, register_density
from kullback.densities.stirling import LOG_2PI, beta_core, binet, deviance, log_factorial_rest, log_sinhc
from kullback.densities.tails import Tail, double_exponential, exponential, log_normal, power

__all__ = [
    "HUGE",
    "LOG_2PI",
    "Density",
    "Integers",
    "Log",
    "Logit",
    "Point",
    "Reading",
    "Sinh",
    "Tail",
    "above_zero",
    "beta_core",
    "binet",
    "bounded_log",
    "centred",
    "deviance",
    "double_exponential",
    "exponential",
    "family",
    "in_unit_interval",
    "log_classes",
    "log_factorial_rest",
    "log_normal",
    "log_odds",
    "log_outcomes",
    "log_sinhc",
    "mark_above",
    "mark_between",
    "of_log",
    "of_logit",
    "of_z",
    "on_integers",
    "on_line",
    "power",
    "read",
    "register_density",
    "softplus",
    "stable_exp",
]
