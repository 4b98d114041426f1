"""All that the description of a family is made of, in one import; the files in `families` and `counts` call it."""

from kullback.densities.coordinate import Integers, Log, Logit, Sinh, mark_above, mark_between, softplus
from kullback.densities.density import Density, above_zero, in_unit_interval, on_integers, on_line
from kullback.densities.outcomes import bounded_log, log_odds, log_outcomes
from kullback.densities.parameters import gives_logits, read
from kullback.densities.point import HUGE, Point, centred, stable_exp
from kullback.densities.registry import family
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
    "gives_logits",
    "in_unit_interval",
    "log_factorial_rest",
    "log_normal",
    "log_odds",
    "log_outcomes",
    "log_sinhc",
    "mark_above",
    "mark_between",
    "on_integers",
    "on_line",
    "power",
    "read",
    "softplus",
    "stable_exp",
]
