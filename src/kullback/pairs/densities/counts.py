"""Laws of counts: log-probabilities at whole numbers, and between them where a sum is taken by an integral.

Large log Γ cancel in the usual formulas. With Stirling's series log Γ(x) = (x−½)·log x − x + ½·log 2π + R(x) what is
left are deviances x·log(x/m) − x + m ≥ 0 and the small R (Loader, "Fast and accurate computation of binomial
probabilities", 2000). A count of 1e12 is compared with a mean that is a product of parameters; their difference, of the
size of a deviation, is formed from exact products.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from kullback._core.shapes import joint_shape
from kullback._core.special._double_double import two_product
from kullback.pairs.densities.reading import Given
from kullback.pairs.densities.stirling import deviance, stirling_rest
from kullback.pairs.outcomes import Chance, chance
from kullback.pairs.parameters import gives_logits, read
from kullback.pairs.visible import at_most

_LOG_TAU = math.log(2 * math.pi)
# Up to here the difference of a count and a rounded mean has ten digits more than it needs.
_PLAIN = 1e5


# Beyond this every float64 is a whole number.
_WHOLE = 2.0**52
# Products with a smaller chance, of log-odds beyond ±640, are not known to all digits, or are 0.
_LEAST = 1e-278


class LogPmf(Protocol):
    """Logarithm of a probability."""

    def __call__(self, k: Tensor, lost: Tensor | None = None) -> Tensor:
        """At the count k + lost."""


class CountLaw(NamedTuple):
    """A law on the whole numbers from 0.

    Attributes:
        log_pmf: Logarithm of the probability of a count, -inf where there is none; between whole numbers also of a
            count and what it lost by rounding, where that is given.
        upper: The largest count with a probability.
        marks: Means and deviations of where the mass lies.
        size: How many counts there are at most, where the class alone says so.
    """

    log_pmf: LogPmf
    upper: Tensor
    marks: list[tuple[Tensor, Tensor]]
    size: int | None = None


def _shaped(given: Given, trial: Chance) -> Chance:
    return trial._replace(given=given.shaped(trial.given))


def _longest(only_zero: Tensor, like: Tensor) -> Tensor:
    """The largest count: 0 or none."""
    return torch.where(only_zero, 0.0, torch.full_like(like, math.inf))


def _excess(a: Tensor, b: Tensor, c: Tensor, d: Tensor, rest: Tensor | float = 0.0) -> Tensor:
    """a·b − c·d + rest to the last digit, with the derivatives of the plain expression."""
    with torch.no_grad():
        (first, first_low), (second, second_low) = two_product(a, b), two_product(c, d)
        exact = (first - second) + (first_low - second_low) + rest
        exact = torch.where(exact.isfinite(), exact, first - second)
    plain = a * b - c * d
    return plain + (exact - plain.detach())


def _cost(x: Tensor, whole: Tensor, share: Tensor, log_share: Tensor, gap: Tensor | None) -> Tensor:
    """The deviance of x from whole·share, by logarithms where the share has none but its logarithm."""
    least = share < _LEAST
    known = deviance(x, whole * torch.where(least, _LEAST, share), gap)
    if at_most(_LEAST - share, 0.0):
        return known
    rare = x * (torch.log(x / whole) - torch.where(least, log_share, 0.0)) - x
    return torch.where(least, rare, known)


def describe_poisson(given: Given) -> CountLaw:
    """λᵏ·e^−λ/k!."""
    (rate,) = given.read("rate")
    never = rate == 0
    inner = torch.where(never, 1.0, rate)

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        some = torch.where(k > 0, k, 1.0)
        gap = None if lost is None else (some - inner) + lost
        body = -deviance(some, inner, gap) - (_LOG_TAU + torch.log(some)) / 2 - stirling_rest(some)
        value = torch.where(k > 0, body, -inner)
        return torch.where(never, torch.where(k == 0, 0.0, -math.inf), value)

    return CountLaw(log_pmf, _longest(never, rate), [(rate, torch.sqrt(rate + 1))])


def describe_geometric(given: Given) -> CountLaw:
    """p·(1 − p)ᵏ."""
    trial = _shaped(given, chance(given.distribution))
    _, always = trial.certain()
    inner = trial.inner()
    log_success, log_failure = inner.log_success(), inner.flip().log_success()

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        value = log_success + k * log_failure
        if lost is not None:
            value = value + lost * log_failure
        return torch.where(always, torch.where(k == 0, 0.0, -math.inf), value)

    mean = torch.exp(log_failure - log_success)
    return CountLaw(log_pmf, _longest(always, mean), [(mean, mean + 1)])


def describe_negative_binomial(given: Given) -> CountLaw:
    """Γ(k+r)/(k!·Γ(r))·pᵏ·(1 − p)^r; with n = k + r, −n·KL(k/n ‖ p) − ½·log(2πnk/r) + R(n) − R(k) − R(r)."""
    (count,) = given.read("total_count")
    trial = _shaped(given, chance(given.distribution))
    never = (count == 0) | trial.certain()[0]
    r = torch.where(count == 0, 1.0, count)
    inner = trial.inner()
    success, failure = inner.success(), inner.flip().success()
    log_success, log_failure, rest = inner.log_success(), inner.flip().log_success(), stirling_rest(r)
    mean = r * success / failure
    plain = at_most(mean + r, _PLAIN)
    centre = start = torch.zeros_like(mean)
    if not plain:
        # k − n·p = (1 − p)·(k − c) + c·(1 − p) − r·p around a count c near the mean; 1 − p with its rounding.
        centre = torch.where(mean < _WHOLE, mean.detach().round(), 0.0)
        lost = 0.0 if inner.logits else (1 - failure.detach()) - success.detach()
        start = _excess(centre, failure, r, success, centre * lost)

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        some = torch.where(k > 0, k, 1.0)
        n = some + r
        shift = some - centre if lost is None else (some - centre) + lost
        gap = None if plain else failure * shift + start
        less = None if gap is None else -gap
        cost = _cost(some, n, success, log_success, gap) + _cost(r, n, failure, log_failure, less)
        ends = (_LOG_TAU + torch.log(n) + torch.log(some) - torch.log(r)) / 2
        body = -cost - ends + stirling_rest(n) - stirling_rest(some) - rest
        value = torch.where(k > 0, body, r * log_failure)
        return torch.where(never, torch.where(k == 0, 0.0, -math.inf), value)

    spread = torch.sqrt(mean / failure + 1)
    return CountLaw(log_pmf, _longest(never, mean), [(mean, spread)])


def describe_binomial(given: Given) -> CountLaw:
    """C(n, k)·pᵏ·(1 − p)^(n−k) = −n·KL(k/n ‖ p) + ½·log(n/(2πk(n−k))) + R(n) − R(k) − R(n−k)."""
    (n,) = given.read("total_count")
    trial = _shaped(given, chance(given.distribution))
    never, always = trial.certain()
    inner = trial.inner()
    success, failure = inner.success(), inner.flip().success()
    log_success, log_failure = inner.log_success(), inner.flip().log_success()
    rest = stirling_rest(n.clamp_min(1.0))
    plain = at_most(n, _PLAIN)
    centre = start = torch.zeros_like(success)
    if not plain:
        centre = (n * success).detach().round()
        start = _excess(centre, torch.ones_like(centre), n, success)

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:
        middle = (k > 0) & (k < n)
        hits, misses = torch.where(middle, k, 1.0), torch.where(middle, n - k, 1.0)
        whole = torch.where(middle, n, 2.0)
        shift = hits - centre if lost is None else (hits - centre) + lost
        gap = None if plain else torch.where(middle, shift + start, 1 - 2 * success)
        less = None if gap is None else -gap
        cost = _cost(hits, whole, success, log_success, gap) + _cost(misses, whole, failure, log_failure, less)
        ends = (torch.log(whole) - torch.log(hits) - torch.log(misses) - _LOG_TAU) / 2
        body = ends - cost + rest - stirling_rest(hits) - stirling_rest(misses)
        value = torch.where(middle, body, torch.where(k == 0, n * log_failure, n * log_success))
        sure = (never & (k == 0)) | (always & (k == n))
        value = torch.where(never | always, torch.where(sure, 0.0, -math.inf), value)
        return torch.where(k <= n, value, -math.inf)

    upper = torch.where(never, 0.0, n)
    return CountLaw(log_pmf, upper, [(n * success, torch.sqrt(n * success * failure + 1))])


def describe_bernoulli(given: Given) -> CountLaw:
    """1 with probability p, else 0."""
    trial = _shaped(given, chance(given.distribution))
    never, always = trial.certain()
    inner = trial.inner()
    log_one = torch.where(always, 0.0, torch.where(never, -math.inf, inner.log_success()))
    log_zero = torch.where(never, 0.0, torch.where(always, -math.inf, inner.flip().log_success()))

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:  # noqa: ARG001
        return torch.where(k == 0, log_zero, torch.where(k == 1, log_one, -math.inf))

    return CountLaw(log_pmf, torch.where(never, 0.0, torch.ones_like(log_one)), [], size=2)


def describe_categorical(given: Given) -> CountLaw:
    """A table of probabilities of 0, …, K−1."""
    # By their ratios to the largest, whose own probability is next to 1 when the others are next to nothing.
    if gives_logits(given.distribution):
        (logits,) = read(given.distribution, "logits")
        largest = _first_largest(logits)
        relative = logits - torch.where(largest, logits, 0.0).sum(-1, keepdim=True)
        ratios = torch.exp(relative)
    else:
        (probs,) = read(given.distribution, "probs")
        largest, some = _first_largest(probs), probs > 0
        ratios = probs / torch.where(largest, probs, 0.0).sum(-1, keepdim=True)
        relative = torch.where(some, torch.log(torch.where(some, ratios, 1.0)), -math.inf)
    rest = torch.where(largest, 0.0, ratios).sum(-1, keepdim=True)
    table = torch.where(largest, 0.0, relative) - torch.log1p(rest)
    columns = [given.shaped(column) for column in table.unbind(-1)]
    size = len(columns)
    stacked = torch.cat(columns, dim=-1)

    def log_pmf(k: Tensor, lost: Tensor | None = None) -> Tensor:  # noqa: ARG001
        index = k.clamp(0, size - 1).long()
        shape = joint_shape(stacked.shape[:-1], index.shape[:-1])
        found = stacked.expand(*shape, size).gather(-1, index.expand(*shape, index.shape[-1]))
        return torch.where(k < size, found, -math.inf)

    index = torch.arange(size, dtype=stacked.dtype, device=stacked.device)
    upper = torch.where(stacked > -math.inf, index, 0.0).amax(-1, keepdim=True)
    return CountLaw(log_pmf, upper, [], size=size)


def _first_largest(rows: Tensor) -> Tensor:
    """Where the largest number of a row is, one place for each."""
    place = rows.detach().argmax(-1, keepdim=True)
    return torch.arange(rows.shape[-1], device=rows.device) == place
