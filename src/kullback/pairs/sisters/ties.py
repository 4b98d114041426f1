"""Whether p/q is unbounded at an end where the leading orders of two tails are the same: the next ones decide.

At an end let t be |x|, or 1/x at 0. The tails that matter fall like

    −log f = c·tᵏ + b·t + l·log t + O(1)

and p/q grows beyond every bound if k and c agree and p has the smaller b, or the same b and the smaller l.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.named import named
from kullback.pairs.parameters import read
from kullback.pairs.support import equal, less


class Orders(NamedTuple):
    """k, c, b and l of one end."""

    power: Tensor | float
    rate: Tensor | float
    linear: Tensor | float = 0.0
    log: Tensor | float = 0.0


Ends = tuple[Orders | None, Orders | None]  # the lower end and the upper one


def unbounded_by_a_tie(p: Distribution, q: Distribution) -> Tensor | bool:
    """One per batch element, decided on parameters; False for laws whose ties leave p/q bounded."""
    p, q = named(p), named(q)
    if type(p) is type(q) is d.LogNormal:  # exp of both
        p, q = (d.Normal(law.loc, law.scale, validate_args=False) for law in (p, q))
    if type(p) is type(q) is d.Gumbel:  # downwards −log f is e^((μ − x)/β), with no other term that could decide
        (loc_p, scale_p), (loc_q, scale_q) = read(p, "loc", "scale"), read(q, "loc", "scale")
        return (scale_p == scale_q) & (loc_p < loc_q)
    ends_p, ends_q = (_ENDS[type(law)](law) if type(law) in _ENDS else (None, None) for law in (p, q))
    found: Tensor | bool = False
    for own, other in zip(ends_p, ends_q, strict=True):
        if own is not None and other is not None:
            found = found | _grows(own, other)
    return found


def _grows(p: Orders, q: Orders) -> Tensor | bool:
    tie = equal(p.power, q.power) & equal(p.rate, q.rate)
    return tie & (less(p.linear, q.linear) | (equal(p.linear, q.linear) & less(p.log, q.log)))


def _normal(law: Distribution) -> Ends:
    loc, scale = read(law, "loc", "scale")
    rate, linear = 0.5 / scale / scale, loc / scale / scale
    return Orders(2.0, rate, linear), Orders(2.0, rate, -linear)


def _half_normal(law: Distribution) -> Ends:
    (scale,) = read(law, "scale")
    return None, Orders(2.0, 0.5 / scale / scale)


def _gamma(law: Distribution) -> Ends:
    concentration, rate = read(law, "concentration", "rate")
    return None, Orders(1.0, rate, log=1 - concentration)


def _inverse_gamma(law: Distribution) -> Ends:
    concentration, rate = read(law, "concentration", "rate")
    return Orders(1.0, rate, log=-1 - concentration), None


def _weibull(law: Distribution) -> Ends:
    scale, power = read(law, "scale", "concentration")
    return None, Orders(power, scale**-power, log=1 - power)


def _laplace(law: Distribution) -> Ends:
    both = Orders(1.0, 1 / read(law, "scale")[0])
    return both, both


_ENDS: dict[type[Distribution], Callable[[Distribution], Ends]] = {
    d.Chi2: _gamma,
    d.Exponential: lambda law: (None, Orders(1.0, read(law, "rate")[0])),
    d.Gamma: _gamma,
    d.Gumbel: lambda law: (None, Orders(1.0, 1 / read(law, "scale")[0])),
    d.HalfNormal: _half_normal,
    d.InverseGamma: _inverse_gamma,
    d.Laplace: _laplace,
    d.Normal: _normal,
    d.Weibull: _weibull,
}
