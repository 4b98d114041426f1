"""∫ p^α q^(1−α) of two univariate laws, by its distance from 1 where it is close to that, else by its logarithm.

With a = α − 1 and r = log p − log q,

    S = ∫ p^α q^(1−α) = ∫ p·e^(ar),    S − 1 = a·X,    X = ∫ p·[φ(−r) + φ(ar)/a],    φ(x) = eˣ − 1 − x,

the bracket being non-negative and of second order, and its limit at a = 0 that of KL. Both are an expectation under p
and one under q, each in the law's own coordinate, p = p·σ(kr) + q·eʳ·σ(−kr) with k > α: where p is singular, q's part
vanishes. Weights and powers are multiplied as logarithms.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import softplus

from kullback._core.numbers import as_tensor
from kullback.pairs.densities.expectation import Pieces, Sample, evaluate, first_nodes, integral_over
from kullback.pairs.densities.log_ratio import closable, plain, ratio_of
from kullback.pairs.densities.meeting import at_some, disjoint, log_weight, seen_from, share_nothing
from kullback.pairs.densities.programs import Constant, Setting
from kullback.pairs.dispatch import infinite_everywhere
from kullback.pairs.sisters.expected import Asked, Known, completed, expected
from kullback.pairs.sisters.power_tails import diverges, diverges_anywhere
from kullback.pairs.sisters.term import FARTHEST, power_term
from kullback.pairs.sisters.ties import unbounded_by_a_tie
from kullback.pairs.visible import hidden, surely

# Where 1 − S is so close to 1, or S so close to the end of the number range, the logarithm of S is integrated.
_LITTLE, _HUGE = 1e-3, 1e250
# Where the divergence is below this, log-ratios of one family need all their digits.
CLOSE = 1e-5
_BEYOND = 700.0


def renyi_by_integral(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """log(S)/(α−1) for 0 < α < ∞ other than 1; orders below ½ from the exchanged pair, which keeps a ≥ −½."""
    if alpha < 0.5:
        # 1 − α would be rounded, and the order less 1, which is −α, with it.
        return alpha / (1 - alpha) * _power(q, p, -alpha)
    return _power(p, q, alpha - 1)


def _power(p: Distribution, q: Distribution, a: float) -> Tensor:
    """log(S)/a."""
    known = None if hidden() else _by_programs(p, q, a)
    if known is None:
        return _by_operations(p, q, a)
    return completed(known, functools.partial(_by_operations, a=a), p, q)


def _by_programs(p: Distribution, q: Distribution, a: float) -> Known | None:
    """log1p(aX)/a by recorded programs, lost where X is not what knows most; None where there are none."""
    over_p, over_q = (Power(a, sign, () if a in USUAL else (Constant(a),)).asked() for sign in (1.0, -1.0))
    known = expected(p, q, over_p, over_q, CLOSE)
    if known is None:
        return None
    excess, lost, extreme = known
    lost = lost | (~extreme & is_far(a * excess.detach()))
    value = torch.log1p(a * torch.where(lost | extreme, 0.0, excess)) / a
    return Known(torch.where(extreme, math.inf, value.clamp_min(0.0)), lost, extreme)


def _by_operations(p: Distribution, q: Distribution, a: float) -> Tensor:
    pieces = seen_from(p, q)
    infinite = as_tensor(diverges(pieces, 1 + a) if a > 0 else disjoint(pieces))
    if surely(infinite):
        return infinite_everywhere(p, q)
    if hidden() or infinite.ndim == 0 or not bool(infinite.any()):
        return torch.where(infinite, math.inf, _finite(p, q, a, None).clamp_min(0.0))
    # An integral that diverges would be refined in vain.
    index = (~infinite).flatten().nonzero().squeeze(-1)
    value = _finite(p, q, a, index).clamp_min(0.0)
    return at_some(index, torch.full(infinite.shape, math.inf, dtype=value.dtype, device=value.device), value)


def _finite(p: Distribution, q: Distribution, a: float, index: Tensor | None) -> Tensor:
    """log1p(aX)/a, or log(S)/a where that knows more."""
    if hidden():
        excess = _excess(p, q, a, index, closely=closable(p, q))
        far = is_far(a * excess.detach())
        inner = torch.where(far, 0.0, excess)
        return torch.where(far, _log_power(p, q, a, index), torch.log1p(a * inner)) / a
    excess = _excess(p, q, a, index)
    far = is_far(a * excess.detach())
    value = torch.log1p(a * torch.where(far, 0.0, excess)) / a
    if closable(p, q):
        value = _again(value, excess.detach() < CLOSE, index, lambda i: _near(p, q, a, i))
    return _again(value, far, index, lambda i: _log_power(p, q, a, i) / a)


def is_far(grown: Tensor) -> Tensor:
    """Where 1 + this knows less than the logarithm of S."""
    return ~((grown > _LITTLE - 1) & (grown < _HUGE))


def _near(p: Distribution, q: Distribution, a: float, index: Tensor | None) -> Tensor:
    return torch.log1p(a * _excess(p, q, a, index, closely=True)) / a


def _again(value: Tensor, where: Tensor, index: Tensor | None, f: Callable[[Tensor | None], Tensor]) -> Tensor:
    """The values with those of some elements computed another way; an index counts through the whole batch."""
    if surely(~where):
        return value
    if surely(where) or where.ndim == 0:
        return f(index)
    some = where.flatten().nonzero().squeeze(-1)
    return at_some(some, value, f(some if index is None else index[some]))


def _excess(p: Distribution, q: Distribution, a: float, index: Tensor | None, *, closely: bool = False) -> Tensor:
    """X."""
    over_p = Power(a, 1.0).over(seen_from(p, q, closely=closely, index=index))
    return over_p + Power(a, -1.0).over(seen_from(q, p, closely=closely, index=index))


@dataclasses.dataclass(frozen=True)
class Power:
    """The part of X that one law carries.

    Attributes:
        a: α − 1.
        sign: That of r as this law sees it: −1 for q.
        numbers: a, unless it is one that is often asked for.
    """

    a: float
    sign: float
    numbers: tuple[Constant, ...] = ()

    def __call__(self, sample: Sample) -> Tensor:
        """The integrand times the weight of a node."""
        return power_term(sample.log_weight, self.sign * ratio_of(sample), self.a, _share(self.a, self.sign))

    def over(self, pieces: Pieces) -> Tensor:
        """The integral by torch's operations."""
        size = _size(self.a, self.sign)
        return integral_over(pieces, self, follow_q=True, log_size=size, apart=True).value

    def asked(self) -> Asked:
        """The integral as programs take it; whether it diverges is seen from p."""
        infinite = self._diverges if self.a > 0 else share_nothing
        extreme = infinite if self.sign > 0 else _nowhere
        return Asked(self, _size(self.a, self.sign), Setting(extreme, beyond=True), self._again)

    def _diverges(self, pieces: Pieces) -> Tensor | bool:
        return diverges_anywhere(pieces, 1 + self.a)

    def _again(self, p: Distribution, q: Distribution) -> Tensor:
        return self.over(seen_from(p, q, closely=closable(p, q)))


# Orders ½, 2 and 3/2.
USUAL = (-0.5, 1.0, 0.5)


def _nowhere(pieces: Pieces) -> bool:
    del pieces
    return False


def _share(a: float, sign: float) -> Callable[[Tensor], Tensor]:
    """Log σ(kr) for p's part, r + log σ(−kr) for q's."""
    k = max(a, 0.0) + 2
    return (lambda r: -softplus(-k * r)) if sign > 0 else (lambda r: r - softplus(k * r))


def _size(a: float, sign: float) -> Callable[[Sample], Tensor]:
    """The logarithm of the larger of the weight and its part of S."""
    share = _share(a, sign)

    def log_size(sample: Sample) -> Tensor:
        r = (sign * plain(sample)).clamp(-FARTHEST, FARTHEST)
        return sample.log_weight + (a * r + share(r)).clamp_min(0.0)

    return log_size


def _log_power(p: Distribution, q: Distribution, a: float, index: Tensor | None) -> Tensor:
    """The logarithm of S."""
    over_p, over_q = seen_from(p, q, index=index), seen_from(q, p, index=index)
    return torch.logaddexp(_log_part(over_p, a, 1.0), _log_part(over_q, a, -1.0))


def _log_part(pieces: Pieces, a: float, sign: float) -> Tensor:
    """The part of log S that one law carries, scaled by its largest value."""
    share = _share(a, sign)

    def log_integrand(sample: Sample) -> Tensor:
        r = (sign * plain(sample)).clamp(-FARTHEST, FARTHEST)
        return sample.log_weight + a * r + share(r)

    with torch.no_grad():
        y = first_nodes(pieces, log_integrand)
        top = log_integrand(evaluate(pieces, y, torch.zeros_like(y))).amax(-1, keepdim=True)
        if pieces.log_share is not None:
            top = top.amax(-2, keepdim=True)
        top = torch.where(top > -FARTHEST, top, 0.0)

    def scaled(sample: Sample) -> Tensor:
        return torch.exp((log_integrand(sample) - top).clamp(-_BEYOND, _BEYOND))

    found = integral_over(pieces, scaled, follow_q=True, log_size=log_integrand).value
    top = top.squeeze(-1) if pieces.log_share is None else top.squeeze(-1).squeeze(-1)
    some = found > 0
    return top + torch.where(some, torch.log(torch.where(some, found, 1.0)), -FARTHEST)


def max_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The largest log-ratio on p's support: the best node, then ever finer neighbourhoods of it."""
    pieces = seen_from(p, q)
    with torch.no_grad():
        y = first_nodes(pieces, log_weight)
        r = _flat_ratio(pieces, y)
        best = r.argmax(-1, keepdim=True)
        y = y.expand(r.shape)
        at = y.gather(-1, best)
        step = torch.maximum(
            y.gather(-1, (best + 1).clamp_max(y.shape[-1] - 1)) - at, at - y.gather(-1, (best - 1).clamp_min(0))
        )
        for _ in range(_ROUNDS):
            around = at + step * torch.linspace(-1, 1, _AROUND, dtype=y.dtype, device=y.device)
            at = around.gather(-1, _flat_ratio(pieces, around).argmax(-1, keepdim=True))
            step = step / (_AROUND // 4)
    value = plain(evaluate(pieces, at, torch.zeros_like(at))).squeeze(-1)
    value = value if pieces.log_share is None else value.amax(-1)
    infinite = as_tensor(diverges(pieces, math.inf)) | unbounded_by_a_tie(p, q)
    return torch.where(infinite, math.inf, value.clamp_min(0.0))


def _flat_ratio(pieces: Pieces, y: Tensor) -> Tensor:
    """The log-ratio less what its rounding may be: of a constant one the largest would be the worst known."""
    sample = evaluate(pieces, y, torch.zeros_like(y))
    rounding = _ROUNDING * (sample.log_p.abs() + sample.log_q.total().abs())
    return (plain(sample) - rounding).nan_to_num(-FARTHEST)


def missing_mass(p: Distribution, q: Distribution) -> Tensor:
    """−log of the mass that q puts on p's support, from the mass outside while that is the smaller part."""
    pieces = seen_from(q, p)

    def outside(sample: Sample) -> Tensor:
        return torch.exp(sample.log_weight) * (plain(sample) > _NOWHERE)

    def inside(sample: Sample) -> Tensor:
        return torch.exp(sample.log_weight) * (plain(sample) <= _NOWHERE)

    lost = integral_over(pieces, outside, follow_q=True, log_size=log_weight).value
    kept = integral_over(pieces, inside, follow_q=True, log_size=log_weight).value
    little = lost.detach() < 0.5
    some = kept > 0
    value = torch.where(little, -torch.log1p(-torch.where(little, lost, 0.0)), -torch.log(torch.where(some, kept, 1.0)))
    return torch.where(as_tensor(disjoint(pieces)), math.inf, value.clamp_min(0.0))


_NOWHERE = 1e50
_ROUNDING = 8 * torch.finfo(torch.float64).eps
_ROUNDS, _AROUND = 8, 33
