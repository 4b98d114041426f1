"""`project` against Adam, L-BFGS and SciPy's `fit`: steps and time to the optimum.

`python -m benchmarks.fit` prints three tables. `--table optimizers` or `--table scipy` prints a part, `--quick` takes
fewer rounds. Times are processor times of one thread, contenders taking turns; ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import (
    Beta,
    Categorical,
    Distribution,
    FisherSnedecor,
    Gamma,
    Kumaraswamy,
    LogNormal,
    MixtureSameFamily,
    MultivariateNormal,
    NegativeBinomial,
    Normal,
    Weibull,
)

from benchmarks.timing import interleave, ratio, spread
from kullback import Samples, kl, project

NEAR = 1e-8  # nats above the optimum
MAX_STEPS = 5000


class Projected(NamedTuple):
    """A projection that needs steps: the target, the family, and the same family as a function of ℝᵏ."""

    target: Distribution
    family: str
    direction: str
    member: Callable[[Tensor], Distribution]
    start: list[float]


def number(value: float) -> Tensor:
    """A float64 scalar."""
    return torch.tensor(value, dtype=torch.float64)


def skewed() -> Distribution:
    """A mixture of two normal distributions with a long right tail."""
    locs, scales = torch.tensor([[0.0, 2.5], [0.7, 2.0]], dtype=torch.float64)
    return MixtureSameFamily(Categorical(torch.tensor([0.7, 0.3], dtype=torch.float64)), Normal(locs, scales))


def correlated() -> Distribution:
    """A normal distribution over five dimensions."""
    factor = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return MultivariateNormal(torch.arange(5, dtype=torch.float64), factor @ factor.mT + torch.eye(5))


PROJECTED: Mapping[str, Projected] = {
    "Weibull to Gamma(2, 1), reverse": Projected(
        Gamma(number(2.0), number(1.0)), "Weibull", "reverse", lambda u: Weibull(u[0].exp(), u[1].exp()), [0.0, 0.0]
    ),
    "Normal to a skewed mixture, reverse": Projected(
        skewed(), "Normal", "reverse", lambda u: Normal(u[0], u[1].exp()), [0.75, 0.5]
    ),
    "Kumaraswamy to Beta(2, 5), forward": Projected(
        Beta(number(2.0), number(5.0)), "Kumaraswamy", "forward", lambda u: Kumaraswamy(u[0].exp(), u[1].exp()), [0, 0]
    ),
    "FisherSnedecor to LogNormal(0.2, 1), forward": Projected(
        LogNormal(number(0.2), number(1.0)), "FisherSnedecor", "forward", lambda u: FisherSnedecor(*u.exp()), [1.4, 1.4]
    ),
    "LogNormal to Gamma(0.5, 3), reverse": Projected(
        Gamma(number(0.5), number(3.0)), "LogNormal", "reverse", lambda u: LogNormal(u[0], u[1].exp()), [0.0, 0.0]
    ),
}


def steps_of_adam(case: Projected, optimum: float) -> int:
    """Steps with learning rate 0.05 until the KL is near the optimum."""
    u = torch.tensor(case.start, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([u], lr=0.05)
    for step in range(MAX_STEPS):
        optimizer.zero_grad()
        value = divergence(case, u)
        if value.item() <= optimum + NEAR:
            return step
        value.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return MAX_STEPS


def steps_of_lbfgs(case: Projected, optimum: float) -> int:
    """Evaluations of value and gradient by torch's L-BFGS with its line search."""
    u = torch.tensor(case.start, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([u], max_iter=1, line_search_fn="strong_wolfe", tolerance_change=0, tolerance_grad=0)
    evaluations = 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        value = divergence(case, u)
        value.backward()  # type: ignore[no-untyped-call]
        return value

    while evaluations < MAX_STEPS:
        optimizer.step(closure)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            if divergence(case, u).item() <= optimum + NEAR:
                return evaluations
    return MAX_STEPS


def divergence(case: Projected, u: Tensor) -> Tensor:
    """The KL divergence that all contenders minimise."""
    q = case.member(u)
    return kl(case.target, q) if case.direction == "forward" else kl(q, case.target)


def optimizers(rounds: int) -> None:
    """The table of steps and time to 1e-8."""
    print("| projection | project: steps | ms | Adam: steps | time ÷ project | L-BFGS: evaluations | time ÷ project |")
    print("|---|---|---|---|---|---|---|")
    for name, case in PROJECTED.items():
        options: dict[str, Any] = {"direction": case.direction, "restarts": 1, "quiet": True}
        found = project(case.target, case.family, **options)
        optimum = found.kl.item()
        times = interleave(
            {
                "project": partial(project, case.target, case.family, **options),
                "Adam": partial(steps_of_adam, case, optimum),
                "L-BFGS": partial(steps_of_lbfgs, case, optimum),
            },
            repeats=rounds,
            clock=time.process_time,
        )
        adam, lbfgs = (ratio(times[other], times["project"]).median for other in ("Adam", "L-BFGS"))
        print(
            f"| {name} | {found.iterations} | {1e3 * spread(times['project']).median:.1f} "
            f"| {steps_of_adam(case, optimum)} | {adam:.1f} | {steps_of_lbfgs(case, optimum)} | {lbfgs:.1f} |",
            flush=True,
        )


class Fitted(NamedTuple):
    """A family, SciPy's name for it, what SciPy may not fit, and whether SciPy has a formula for the rest."""

    member: Distribution
    scipy: str
    options: dict[str, Any]
    search: bool


POSITIVE = {"floc": 0}
STANDARD = {"floc": 0, "fscale": 1}
distributions = torch.distributions
FITTED: Mapping[str, Fitted] = {
    "Weibull": Fitted(distributions.Weibull(2.0, 1.5), "weibull_min", POSITIVE, True),
    "StudentT": Fitted(distributions.StudentT(4.0, 1.0, 2.0), "t", {}, True),
    "Cauchy": Fitted(distributions.Cauchy(1.0, 2.0), "cauchy", {}, True),
    "InverseGamma": Fitted(distributions.InverseGamma(number(3.0), number(2.0)), "invgamma", POSITIVE, True),
    "Chi2": Fitted(distributions.Chi2(3.0), "chi2", STANDARD, True),
    "FisherSnedecor": Fitted(distributions.FisherSnedecor(5.0, 8.0), "f", STANDARD, True),
    "HalfNormal": Fitted(distributions.HalfNormal(3.0), "halfnorm", POSITIVE, True),
    "NegativeBinomial": Fitted(
        NegativeBinomial(number(3.0), number(0.4)), "nbinom", {"n": (0.1, 100), "p": (1e-3, 0.999)}, True
    ),
    "Poisson": Fitted(distributions.Poisson(4.0), "poisson", {"mu": (0, 100)}, True),
    "Geometric": Fitted(distributions.Geometric(0.3), "geom", {"p": (1e-3, 1), "loc": (-1, -1)}, True),
    "Gumbel": Fitted(distributions.Gumbel(1.0, 2.0), "gumbel_r", {}, False),
    "VonMises": Fitted(distributions.VonMises(number(0.5), number(3.0)), "vonmises", {"fscale": 1}, False),
    "Gamma": Fitted(distributions.Gamma(2.0, 3.0), "gamma", POSITIVE, False),
    "Beta": Fitted(distributions.Beta(2.0, 5.0), "beta", STANDARD, False),
    "LogNormal": Fitted(distributions.LogNormal(0.5, 0.7), "lognorm", POSITIVE, False),
    "Normal": Fitted(distributions.Normal(0.5, 0.7), "norm", {}, False),
}


def scipy_fit(case: Fitted, x: Any) -> float:
    """The log-likelihood that SciPy's `fit` reaches."""
    stats = importlib.import_module("scipy.stats")
    family = getattr(stats, case.scipy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(family, stats.rv_discrete):  # only the function with bounds fits these
            return float(-stats.fit(family, x, case.options).nllf())
        return float(family.logpdf(x, *family.fit(x, **case.options)).sum())


def scipy_thunk(case: Fitted, x: Any) -> Callable[[], object]:
    """SciPy's fit alone, without the likelihood."""
    stats = importlib.import_module("scipy.stats")
    family = getattr(stats, case.scipy)
    if isinstance(family, stats.rv_discrete):
        return lambda: stats.fit(family, x, case.options)
    return lambda: family.fit(x, **case.options)


def against_scipy(size: int, sets: int, rounds: int) -> None:
    """The table of maximum likelihood: one data set, and many at once."""
    print(f"{size} numbers in a data set; {sets} data sets at once")
    print(
        "| family | SciPy | project, ms | SciPy ÷ project | at once, ms | SciPy ÷ project | log-likelihood − SciPy's |"
    )
    print("|---|---|---|---|---|---|---|")
    torch.manual_seed(0)
    for name, case in FITTED.items():
        many = case.member.sample(torch.Size([size, sets])).double()
        one = many[:, 0].contiguous()
        array = one.numpy()
        found = project(Samples(one), name)
        assert found.log_likelihood is not None
        gain = found.log_likelihood.item() - scipy_fit(case, array)
        times = interleave(
            {
                "project": partial(project, Samples(one), name),
                "at once": partial(project, Samples(many), name),
                "scipy": scipy_thunk(case, array),
            },
            repeats=rounds,
            clock=time.process_time,
        )
        alone = ratio(times["scipy"], times["project"]).median
        batched = sets * ratio(times["scipy"], times["at once"]).median
        print(
            f"| {name} | {'search' if case.search else 'formula or one equation'} "
            f"| {1e3 * spread(times['project']).median:.2f} | {alone:.1f} "
            f"| {1e3 * spread(times['at once']).median:.1f} | {batched:.0f} | {gain:+.1e} |",
            flush=True,
        )


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", choices=["optimizers", "scipy"])
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rounds = 3 if options.quick else 9
    warnings.simplefilter("ignore")
    if options.table != "scipy":
        optimizers(rounds)
    if options.table != "optimizers":
        for size in (100, 1000):
            print()
            against_scipy(size, options.sets, rounds)


if __name__ == "__main__":
    main()
