"""KL(p ‖ q) of two distributions by draws of p; `estimate_kl` calls it where no deterministic route exists.

    quasi-Monte Carlo   scrambled Sobol points through the quantile functions of p; the t-interval over independent
                        scramblings is honest, because each of them is an unbiased estimate
    Monte Carlo         where p only has a sampler: −log r + λ(r − 1) with r = q/p, whose second term has mean 0; λ is
                        fitted on the other half of the draws

A mixture is stratified: Σ_a π_a E_{f_a}[log p − log q], every component with draws of its own. Gradients are those of
the draws (reparameterised), or of the score where the draws have none.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from kullback._core.errors import InputValueError, NoRouteError, explain_problem
from kullback._core.progress import follow
from kullback.estimators.estimate import Estimate, normal_quantile, t_quantile
from kullback.estimators.inputs import inside_support
from kullback.estimators.pareto import effective_size, pareto_k
from kullback.estimators.transport import transport, uniforms_needed
from kullback.pairs import kl_with_error
from kullback.pairs.checks import check_pair
from kullback.pairs.univariate import contained

_SCRAMBLINGS = 16
_DEFAULT_DRAWS = 1 << 14
_MAX_SOBOL_DIMENSION = 21201
_MAX_SHAPE_FOR_CONTROL = 0.5  # Pareto k̂ above which the ratios have no variance


class _Stratum(NamedTuple):
    """Log-densities at draws of one component.

    Attributes:
        log_p: (N, *batch).
        log_q: The same of q.
        share: The component's weight in p.
    """

    log_p: Tensor
    log_q: Tensor
    share: Tensor

    def difference(self) -> Tensor:
        return self.log_p - self.log_q


def estimate_by_draws(
    p: Distribution,
    q: Distribution,
    *,
    confidence: float,
    generator: torch.Generator | None,
    method: str | None = None,
    num_draws: int = _DEFAULT_DRAWS,
) -> Estimate:
    """The estimate of every batch element.

    Args:
        p: Needs a sampler and `log_prob`.
        q: Needs `log_prob`.
        confidence: Of the interval.
        generator: Decides the draws; None stands for one fixed choice.
        method: "quasi-monte-carlo", "monte-carlo", or None for the first of them that p allows.
        num_draws: How many draws of p, per component if it is a mixture.
    """
    shape = check_pair(p, q)
    if isinstance(num_draws, bool) or not isinstance(num_draws, int) or num_draws < 64:
        raise InputValueError(
            explain_problem("num_draws counts draws of p.", got=f"num_draws={num_draws!r}", expected="64 or more")
        )
    if type(p).sample is Distribution.sample and type(p).rsample is Distribution.rsample:
        name = type(p).__name__
        raise NoRouteError(
            explain_problem(
                f"{name} cannot be drawn from, and KL(p || q) is an expectation over p.",
                got=f"p = {name}, without sample() or rsample()",
                expected="a class with one of them; with log_prob and support, kl(p, q) integrates instead",
                instead=f"def sample(self, sample_shape=torch.Size()): ... in the class {name}",
            )
        )
    needed = None if method == "monte-carlo" else uniforms_needed(_source(p))
    if needed is not None and needed > _MAX_SOBOL_DIMENSION:
        needed = None
    if method == "quasi-monte-carlo" and needed is None:
        raise NoRouteError(
            explain_problem(
                f"{type(p).__name__} has no map from uniform numbers to draws.", instead='method="monte-carlo"'
            )
        )
    seed = 0 if generator is None else int(torch.randint(2**31, (1,), generator=generator, device=generator.device))
    num_runs = 2 if needed is None else _SCRAMBLINGS
    count = max(num_draws // num_runs, 4)
    count = count if needed is None else 1 << (count.bit_length() - 1)  # Sobol points are balanced in powers of 2
    runs = [_draw(p, q, needed, count, seed + number) for number in follow(range(num_runs), "drawing")]
    diagnostics = _diagnostics(runs)
    if needed is None:
        value, stderr = _with_control(p, q, runs, diagnostics)
        reach, name = normal_quantile(confidence) * stderr, "Monte Carlo"
    else:
        values = torch.stack([_total(run) for run in runs])
        value, stderr = values.mean(0), values.detach().std(0) / math.sqrt(num_runs)
        reach, name = t_quantile(confidence, num_runs - 1) * stderr, f"quasi-Monte Carlo, {num_runs} scramblings"
    if len(runs[0]) > 1:
        name += ", stratified over components"
    value = value.expand(shape)
    infinite = value.detach() == math.inf
    ends = ((0.0, stderr), (math.inf, value.detach() - reach), (math.inf, value.detach() + reach))
    stderr, low, high = (torch.where(infinite, end, finite) for end, finite in ends)
    low, high = _bounds_beside(p, q, low, high, diagnostics)
    total = num_runs * count * len(runs[0])
    warnings = _warnings(diagnostics, infinite, total)
    return Estimate(value, stderr, low, high, name, (total,), confidence, diagnostics, warnings)


def _source(p: Distribution) -> Distribution:
    return p.component_distribution if isinstance(p, MixtureSameFamily) else p


def _draw(p: Distribution, q: Distribution, needed: int | None, count: int, seed: int) -> list[_Stratum]:
    """One independent set of draws of every component, and both log-densities at them."""
    source = _source(p)
    with torch.random.fork_rng(devices=[]):  # the user's random numbers stay where they are
        torch.manual_seed(seed)
        if needed is None:
            x = source.rsample((count,)) if source.has_rsample else source.sample((count,))
        else:
            dtype = source.sample().dtype
    if needed is not None:
        engine = torch.quasirandom.SobolEngine(needed, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
        points = engine.draw(count, dtype=torch.float64)
        edge = torch.finfo(dtype).eps / 2
        x = transport(source, points.clamp(edge, 1 - edge).to(dtype))
    if not isinstance(p, MixtureSameFamily):
        return [_Stratum(*_log_densities(p, q, x, score=not source.has_rsample), torch.ones(()))]
    parts = zip(x.unbind(1 + len(p.batch_shape)), p.mixture_distribution.probs.unbind(-1), strict=True)
    return [_Stratum(*_log_densities(p, q, part, score=not source.has_rsample), share) for part, share in parts]


def _log_densities(p: Distribution, q: Distribution, x: Tensor, *, score: bool) -> tuple[Tensor, Tensor]:
    log_p, log_q = _log_density(p, x), _log_density(q, x)
    if not score or not log_p.requires_grad:
        return log_p, log_q
    # The draws do not follow the parameters: ∂E_p[f] = E_p[(f − mean f)·∂log p], attached to a term that is 0.
    difference = (log_p - log_q).detach()
    return log_p.detach() + (log_p - log_p.detach()) * (difference - difference.mean(0)), log_q


def _log_density(distribution: Distribution, x: Tensor) -> Tensor:
    """Log-density in float64; −inf outside the support, where torch raises."""
    inside = inside_support(distribution, x)
    if not bool(inside.all()):
        event = len(distribution.event_shape)
        inside = inside.expand(x.shape[: x.dim() - event])
        if not bool(inside.any()):
            return torch.full(inside.shape, -math.inf, dtype=torch.float64)
        x = torch.where(inside.reshape(*inside.shape, *[1] * event), x, x.detach()[inside][0])
    found = torch.where(inside, distribution.log_prob(x).double(), -math.inf)
    if bool(found.isnan().any()):
        where = x.detach()[tuple(found.isnan().nonzero()[0].tolist())]
        raise InputValueError(
            explain_problem(
                f"log_prob of {type(distribution).__name__} is NaN at a draw of p.",
                got=f"x = {where.flatten()[:4].tolist()}",
                expected="numbers, or -inf outside the support",
                instead="parameters in float64 if a transform such as tanh reaches its limit in float32",
            )
        )
    return found


def _total(run: list[_Stratum]) -> Tensor:
    return sum((part.share * part.difference().mean(0) for part in run), torch.zeros(()))


def _with_control(
    p: Distribution, q: Distribution, runs: list[list[_Stratum]], diagnostics: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Two halves; each takes the weight of the control variate from the other."""
    # E_p[q/p] is 1 only where p covers q, and its mean says so only where the ratios have a variance.
    usable = diagnostics["pareto_k"] < _MAX_SHAPE_FOR_CONTROL and bool(torch.as_tensor(contained(q, p)).all())
    weights = [_control_weight(run) if usable else torch.zeros(()) for run in runs]
    values, variances = [], []
    for run, weight in zip(runs, reversed(weights), strict=True):
        ratio = sum((part.share.detach() * _ratio(part).mean(0) for part in run), torch.zeros(()))
        values.append(_total(run) + weight * (ratio - 1))
        spread = [part.share.detach() ** 2 * _variance(part, weight) / len(part.log_p) for part in run]
        variances.append(sum(spread, torch.zeros(())))
    diagnostics["control_variate"] = float(torch.stack(weights).mean())
    return torch.stack(values).mean(0), (torch.stack(variances).mean(0) / len(runs)).sqrt()


def _ratio(part: _Stratum) -> Tensor:
    return torch.exp(-part.difference().detach())


def _variance(part: _Stratum, weight: Tensor) -> Tensor:
    return (part.difference().detach() + weight * _ratio(part)).nan_to_num(nan=math.inf).var(0)


def _control_weight(run: list[_Stratum]) -> Tensor:
    """−Cov(log p/q, r)/Var r, over the strata."""
    covariance, variance = torch.zeros(()), torch.zeros(())
    for part in run:
        ratio, difference = _ratio(part), part.difference().detach()
        centered = ratio - ratio.mean(0)
        covariance = covariance + part.share.detach() ** 2 * (centered * difference).mean(0)
        variance = variance + part.share.detach() ** 2 * centered.square().mean(0)
    return (-covariance / variance).nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _diagnostics(runs: list[list[_Stratum]]) -> dict[str, Any]:
    parts = [part for run in runs for part in run]
    log_ratios = torch.cat([-part.difference().detach().flatten() for part in parts])
    log_weighted = torch.cat([(-part.difference() + part.share.log()).detach().flatten() for part in parts])
    batch = max(log_ratios.numel() // max(sum(len(part.log_p) for part in parts), 1), 1)
    mean = float(log_weighted.exp().sum()) / (batch * sum(len(run[0].log_p) for run in runs))
    return {
        "mean_ratio": mean,
        "pareto_k": pareto_k(log_ratios),
        "effective_sample_size": effective_size(log_weighted),
    }


def _bounds_beside(
    p: Distribution, q: Distribution, low: Tensor, high: Tensor, diagnostics: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Cut the interval at the deterministic bounds of Gaussian mixtures, and report them."""
    try:
        result = kl_with_error(p, q)
    except NoRouteError:
        return low, high
    if result.method != "bounds" or result.error is None:
        return low, high
    bounds = (result.value - result.error).detach(), (result.value + result.error).detach()
    diagnostics["bounds"] = bounds
    return low.clamp(*bounds), high.clamp(*bounds)


def _warnings(diagnostics: dict[str, Any], infinite: Tensor, num_draws: int) -> list[str]:
    found = []
    if bool(infinite.any()):
        found.append("Draws of p fall where q has no density: the divergence is infinite.")
    k, mean = diagnostics["pareto_k"], diagnostics["mean_ratio"]
    if k < 0.5 and abs(mean - 1) > 0.1 and not bool(infinite.any()):
        found.append(
            f"The mean of q/p under p is {mean:.3g} instead of 1: q has probability where p has none, "
            "or the sampler of p does not match its log_prob."
        )
    if diagnostics["effective_sample_size"] < 0.01 * num_draws:
        found.append("q puts little weight where p draws: far tails decide, and rare draws may be missing.")
    return found
