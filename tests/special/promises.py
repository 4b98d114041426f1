"""The accuracy each public special function promises, in ulp of float64: value, first derivatives, second derivatives.

A floor says where a figure is absolute: the error is counted in ulps of max(|truth|, floor), because terms of the
floor's size cancel at a zero of the value or the derivative.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kullback import special


def _zero(*args):
    return 0.0, 0.0, 0.0


@dataclass
class Promise:
    name: str
    group: str
    function: Callable
    ulps: tuple
    floors: Callable = _zero
    constants: int = field(default=0)  # leading arguments that have no derivative


def _order(k):
    return lambda x: special.binet(x, order=k)


def _scalar(function, *args):
    return function(*[torch.tensor(a, dtype=torch.float64) for a in args]).item()


def _tetragamma_terms(x):
    """ψ″ has zeros at negative numbers, where a power of 1/sin πx meets ψ″(1 - x): the size of the two."""
    if x > 0:
        return 0.0
    pole = 2 * math.pi**3 * abs(math.cos(math.pi * x) / math.sin(math.pi * x) ** 3)
    return pole + abs(torch.special.polygamma(2, torch.tensor(1 - x, dtype=torch.float64)).item())


PROMISES = [
    Promise("expm1mx", "exp_log", special.expm1mx, (3, 2, 1)),
    Promise("log1pmx", "exp_log", special.log1pmx, (3, 2, 4)),
    Promise("log1mexp", "exp_log", special.log1mexp, (2, 3, 3)),
    Promise("logdiffexp", "exp_log", special.logdiffexp, (2, 3, 3), lambda a, b: (abs(a), 0.0, 0.0)),
    Promise("rel_entr", "exp_log", special.rel_entr, (3, 2, 2), lambda p, q: (0.0, 1.0, 0.0)),
    Promise("kl_div", "exp_log", special.kl_div, (3, 2, 2)),
    Promise("digamma", "gamma", special.digamma, (4, 3, 3)),
    Promise(
        "digamma_negative",
        "gamma",
        special.digamma,
        (4, 4, 4),
        lambda x: (1 + math.pi * abs(1 / math.tan(math.pi * x)), 0.0, _tetragamma_terms(x)),
    ),
    Promise("trigamma", "gamma", special.trigamma, (4, 4, 4), lambda x: (0.0, _tetragamma_terms(x), 0.0)),
    Promise("binet_0", "gamma", _order(0), (4, 4, 4)),
    Promise("binet_1", "gamma", _order(1), (4, 4, 4)),
    Promise("binet_2", "gamma", _order(2), (4, 4, 4)),
    Promise("binet_3", "gamma", _order(3), (4, 4, 4)),
    Promise(
        "lgamma_bregman",
        "gamma",
        special.lgamma_bregman,
        (4, 3, 4),
        lambda a, b: (0.0, 0.0, _scalar(special.trigamma, a)),
    ),
    Promise(
        "multivariate_lgamma_bregman_3",
        "gamma",
        lambda a, b: special.multivariate_lgamma_bregman(a, b, 3),
        (3, 3, 4),
        lambda a, b: (0.0, 0.0, _scalar(special.trigamma, a - 1)),
    ),
    Promise(
        "binet_bregman",
        "gamma",
        special.binet_bregman,
        (4, 4, 4),
        lambda a, b: (0.0, 0.0, _scalar(_order(2), a)),
    ),
    Promise("log_ndtr", "normal", special.log_ndtr, (4, 4, 4)),
    Promise("log_ndtr_diff", "normal", special.log_ndtr_diff, (4, 4, 4)),
    Promise("log_iv", "bessel", special.log_iv, (4, 4, 4), lambda nu, x: (nu, 0.0, nu / x / x), 1),
    Promise(
        "log_ive",
        "bessel",
        special.log_ive,
        (4, 4, 4),
        lambda nu, x: (nu, 1.0 if x < nu * nu / 2 + 50 else 1 / x, nu / x / x),
        1,
    ),
    Promise("bessel_ratio", "bessel", special.bessel_ratio, (4, 4, 4), _zero, 1),
]
