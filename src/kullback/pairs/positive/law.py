"""A law on the half-line as seen in y = log x: where it lies, how wide it is, how far its moments exceed a LogNormal's.

With m = E y and a nominal variance τ², the moments are E x^c = e^(c·m + A), where the excess is

    A(c) = log E x^c − c·E log x = ½c²τ²·(1 + r(c)) ≥ 0,

r = 0 for a LogNormal. The entropy of y is ½log(2πe·τ²) − N. For a law that is narrow and bell-shaped, r, N and the
relative rest of the variance are small numbers, known to full relative accuracy; nothing cancels between τ² and them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.gauss_legendre import gauss_legendre
from kullback.kernels.recorder import active_recorder
from kullback.pairs.ratios import log_ratio
from kullback.special import binet, expm1mx, lgamma_bregman, log1mexp, log1pmx

# Within this distance, relative to a, the excess of log Γ is an integral of ψ'; fourteen nodes leave (3 − √8)²⁸ = 4e-22
# of it times what the double pole adds.
_NEAR, _COUNT = 0.5, 14


class Excess(NamedTuple):
    """A(c) = ½c²τ²·(1 + r).

    Attributes:
        r: Relative to that of a LogNormal of the nominal variance; any number where A is infinite.
        ratio: 1 + r, which r does not determine where it is nearly −1.
        finite: Whether the moment exists; True if it always does.
    """

    r: Tensor
    ratio: Tensor
    finite: Tensor | bool = True

    def log(self) -> Tensor:
        """Of 1 + r."""
        near = self.r.abs() < 0.5
        return torch.where(near, torch.log1p(torch.where(near, self.r, 0.0)), torch.log(self.ratio))

    def where_finite(self, finite: Tensor) -> Excess:
        """As if 0 elsewhere."""
        return Excess(torch.where(finite, self.r, 0.0), torch.where(finite, self.ratio, 1.0), finite)


def excess_of(ratio: Tensor, finite: Tensor | bool = True) -> Excess:
    """From 1 + r."""
    return Excess(ratio - 1, ratio, finite)


class LogLaw(NamedTuple):
    """One batch of laws.

    Attributes:
        mean: E log x.
        deviation: τ.
        precision: 1/τ².
        rest: Var(log x)/τ² − 1.
        negentropy: N.
        excess: Of a power c.
        log_moment: log E x^c for wide laws, where E log x is large and the excess nearly cancels it; None if it never
            does.
        blur: Roundings that the excess and the variance carry beyond those of any other number, relative to themselves.
    """

    mean: Tensor
    deviation: Tensor
    precision: Tensor
    rest: Tensor
    negentropy: Tensor
    excess: Callable[[Tensor], Excess]
    log_moment: Callable[[Tensor], Tensor] | None = None
    blur: Tensor | float = 0.0


_RULE = gauss_legendre(_COUNT)


def lgamma_excess(a: Tensor, step: Tensor) -> Excess:
    """The r of log Γ(a + s) − log Γ(a) − s·ψ(a) = s²/2a·(1 + r), the excess of a Gamma(a, 1); finite for s > −a.

    For |s| ≤ a/2 it is s²∫(1−t)ψ'(a+ts)dt, ψ'(x) = 1/x + 1/(2x²) + R''(x) with Binet's remainder R. The step enters as
    it is, so a step that a + s would round away is seen; of the first part 1/a is taken out exactly.
    """
    a, step = torch.broadcast_tensors(a, step)  # type: ignore[no-untyped-call]
    finite = step > -a
    w = step / a
    near = w.abs() <= _NEAR
    close = _near_excess(a, torch.where(near, w, 0.0))
    far = finite & ~near
    start, stop = torch.where(far, a, 1.0), torch.where(far, a + step, 2.0)
    direct = 2 * lgamma_bregman(start, stop) / torch.where(far, w * step, 1.0)
    return Excess(torch.where(near, close, direct - 1), torch.where(near, 1 + close, direct), finite)


def _near_excess(a: Tensor, w: Tensor) -> Tensor:
    """R = 2a∫(1−t)(ψ'(a + taw) − 1/a)dt."""
    if active_recorder() is not None:
        # One node after another, which makes an elementwise formula of it.
        terms = [weight * _integrand(a, w, time) for time, weight in zip(*_RULE, strict=True)]
        return sum(terms[1:], terms[0])
    times, weights = (torch.tensor(part, dtype=a.dtype, device=a.device) for part in _RULE)
    return (weights * _integrand(a.unsqueeze(-1), w.unsqueeze(-1), times)).sum(-1)


def _integrand(a: Tensor, w: Tensor, time: Tensor | float) -> Tensor:
    moved = w * time
    x = 1 + moved
    return (2 * a * binet(a * x, 2) + 1 / (a * x * x) - 2 * moved / x) * (1 - time)


def lgamma_rise(a: Tensor, step: Tensor) -> Tensor:
    """Log Γ(a + s) − log Γ(a) − s·log a by Stirling's formula with Binet's remainder; 0 where s ≤ −a.

    For small w = s/a the s in (a + s − ½)·log(1 + w) − s cancels, and (s − ½)·w + (a + s − ½)·(log(1 + w) − w) is left.
    """
    stop = torch.where(step > -a, a + step, a)
    near = (step / a).abs() <= _NEAR
    w = torch.where(near, step, 0.0) / a
    close = (step - 0.5) * w + (stop - 0.5) * log1pmx(w)
    apart = (stop - 0.5) * log_ratio(stop, a) - (stop - a)
    return torch.where(near, close, apart) + (binet(stop) - binet(a))


def log_expm1_ratio(x: Tensor) -> Tensor:
    """log((eˣ − 1)/x) ≥ 0 for x ≥ 0, relatively accurate."""
    small = x < 1
    near = torch.where(small, x, 1.0)
    # At x = 0 the ratio below is 0/0; there the logarithm is x/2.
    tiny = near < 1e-150
    share = torch.where(tiny, near / 2, expm1mx(near) / torch.where(tiny, 1.0, near))
    wide = torch.where(small, 1.0, x)
    return torch.where(small, torch.log1p(share), wide + log1mexp(-wide) - torch.log(wide))
