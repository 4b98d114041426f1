"""Every pair of torch's families that is answered, with file and function; the examples it asks about. Public."""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs import registry
from kullback.pairs.dispatch import kl_method
from kullback.pairs.registry import where_defined
from kullback.pairs.univariate import INFINITE


class Pair(NamedTuple):
    """One ordered pair of families and how KL(p ‖ q) is computed.

    Attributes:
        p: Class name of p.
        q: Class name of q.
        method: "closed form", "integral", "series", "infinite", "user" or "torch".
        source: The formula or its origin, in a few words.
        function: Full name of the function that computes it, module first; empty if none is needed.
    """

    p: str
    q: str
    method: str
    source: str
    function: str = ""


def coverage() -> list[Pair]:
    """Every ordered pair of families that `kl_divergence` answers, with the source of each formula.

    Pairs registered with `register_kl`, here or with torch, are included under the classes they were registered for.

    Example:
        >>> pairs = {(pair.p, pair.q): pair.method for pair in coverage()}
        >>> pairs["Normal", "Normal"], pairs["Normal", "Exponential"]
        ('closed form', 'infinite')
        >>> [pair.function for pair in coverage() if (pair.p, pair.q) == ("Normal", "Laplace")]
        ['kullback.pairs.closed.normal.kl_normal_laplace']
    """
    known = examples()
    answered = [_describe(p, q) for p in known.values() for q in known.values() if p.event_shape == q.event_shape]
    own = {(type(p), type(q)) for p in known.values() for q in known.values()}
    registered = {(r.p, r.q): r for r in [*registry.torch_rules(), *registry.rules()] if (r.p, r.q) not in own}
    others = [
        Pair(r.p.__name__, r.q.__name__, r.method, r.source, where_defined(r.formula)) for r in registered.values()
    ]
    return sorted([*(pair for pair in answered if pair is not None), *others])


def _describe(p: Distribution, q: Distribution) -> Pair | None:
    method, route = kl_method(p, q), registry.find_route(p, q)
    if method is None or route is None:
        return None
    source, function = route.rule.source, where_defined(route.rule.formula)
    if method == "infinite":
        source, function = INFINITE, ""
    return Pair(type(p).__name__, type(q).__name__, method, source, function)


@functools.cache
def examples() -> dict[type[Distribution], Distribution]:
    """One instance of each family, by class; they stay, so that where tensors are made meanwhile must not matter."""
    with torch.device("cpu"):
        return _examples()


def _examples() -> dict[type[Distribution], Distribution]:
    t = functools.partial(torch.tensor, dtype=torch.float32)  # the examples do not depend on torch's default dtype
    three, zeros = t([0.2, 0.5, 0.3]), t([0.0, 0.0, 0.0])
    instances: list[Distribution] = [
        *(kind(t(0.3)) for kind in (d.Bernoulli, d.ContinuousBernoulli)),
        *(kind(t(1.0)) for kind in (d.HalfCauchy, d.HalfNormal)),
        *(kind(t(0.0), t(1.0)) for kind in (d.Cauchy, d.Laplace, d.Normal, d.Uniform)),
        *(kind(t(2.0), t(3.0)) for kind in (d.Beta, d.Kumaraswamy)),
        *(kind(three) for kind in (d.Categorical, d.OneHotCategorical, d.OneHotCategoricalStraightThrough)),
        d.Binomial(5, t(0.3)),
        d.Chi2(t(3.0)),
        d.Dirichlet(t([2.0, 3.0, 1.5])),
        d.Exponential(t(1.5)),
        d.FisherSnedecor(t(5.0), t(7.0)),
        d.Gamma(t(2.0), t(1.5)),
        d.Geometric(t(0.4)),
        d.Gumbel(t(0.5), t(1.2)),
        d.InverseGamma(t(3.0), t(2.0)),
        d.LKJCholesky(3, t(1.5)),
        d.LogNormal(t(0.0), t(0.5)),
        d.LogisticNormal(t([0.0, 0.5]), t([1.0, 1.0])),
        d.LowRankMultivariateNormal(zeros, torch.ones_like(zeros).unsqueeze(-1), torch.ones_like(zeros)),
        d.Multinomial(4, three),
        d.MultivariateNormal(zeros, torch.eye(3, dtype=torch.float32)),
        d.NegativeBinomial(t(3.0), t(0.4)),
        d.Pareto(t(1.0), t(3.0)),
        d.Poisson(t(2.0)),
        d.RelaxedBernoulli(t(0.5), t(0.3)),
        d.RelaxedOneHotCategorical(t(0.5), three),
        d.StudentT(t(4.0), t(0.0), t(1.0)),
        d.VonMises(t(0.0), t(2.0)),
        d.Weibull(t(1.0), t(1.5)),
        d.Wishart(t(4.0), torch.eye(3, dtype=torch.float32)),
    ]
    if hasattr(d, "GeneralizedPareto"):  # newer than the oldest torch supported
        instances.append(d.GeneralizedPareto(t(0.0), t(1.0), t(0.2)))  # type: ignore[no-untyped-call]
    return {type(instance): instance for instance in sorted(instances, key=lambda i: type(i).__name__)}
