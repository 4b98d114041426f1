"""Time every ordered pair of univariate families, slowest first: `python -m benchmarks.every_pair --elements 1 1000`.

Parameters are drawn at random around typical values. The time is the least of a few calls; `--cpu` counts the seconds
of this process instead of those of the clock, which says more on a machine that others use.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
import torch.distributions as td
from torch import Tensor
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli

Draw = Callable[[float, float], Tensor]
Make = Callable[[Draw], td.Distribution]

CONTINUOUS: dict[str, Make] = {
    "Beta": lambda u: td.Beta(u(0.7, 5), u(0.7, 5)),
    "Cauchy": lambda u: td.Cauchy(u(-1, 1), u(0.4, 2)),
    "Chi2": lambda u: td.Chi2(u(0.8, 8)),
    "ContinuousBernoulli": lambda u: td.ContinuousBernoulli(u(0.05, 0.95)),
    "Exponential": lambda u: td.Exponential(u(0.4, 3)),
    "FisherSnedecor": lambda u: td.FisherSnedecor(u(1, 9), u(4.5, 12)),
    "Gamma": lambda u: td.Gamma(u(0.7, 6), u(0.4, 3)),
    "GeneralizedPareto": lambda u: td.GeneralizedPareto(0 * u(0, 1), u(0.4, 2), u(0.05, 0.4)),
    "Gumbel": lambda u: td.Gumbel(u(-1, 1), u(0.5, 2)),
    "HalfCauchy": lambda u: td.HalfCauchy(u(0.4, 2)),
    "HalfNormal": lambda u: td.HalfNormal(u(0.4, 2)),
    "InverseGamma": lambda u: td.InverseGamma(u(2.2, 6), u(0.5, 3)),
    "Kumaraswamy": lambda u: td.Kumaraswamy(u(0.7, 5), u(0.7, 5)),
    "Laplace": lambda u: td.Laplace(u(-1, 1), u(0.4, 2)),
    "LogNormal": lambda u: td.LogNormal(u(-1, 1), u(0.3, 1)),
    "LogitRelaxedBernoulli": lambda u: LogitRelaxedBernoulli(u(0.5, 2), logits=u(-1, 1)),
    "Mixture": lambda u: td.MixtureSameFamily(
        td.Categorical(logits=torch.stack([u(-1, 1), u(-1, 1)], -1)),
        td.Normal(torch.stack([u(-3, 0), u(0, 3)], -1), torch.stack([u(0.4, 2), u(0.4, 2)], -1)),
    ),
    "Normal": lambda u: td.Normal(u(-1, 1), u(0.4, 2)),
    "Pareto": lambda u: td.Pareto(u(0.3, 2), u(2.5, 6)),
    "RelaxedBernoulli": lambda u: td.RelaxedBernoulli(u(0.5, 2), logits=u(-1, 1)),
    "StudentT": lambda u: td.StudentT(u(2.2, 9), u(-1, 1), u(0.4, 2)),
    "Transformed": lambda u: td.TransformedDistribution(
        td.Normal(u(-1, 1), u(0.3, 1)), [td.AffineTransform(0.1, 0.5), td.TanhTransform()]
    ),
    "Uniform": lambda u: td.Uniform(u(0.05, 0.3), u(0.6, 0.95)),
    "VonMises": lambda u: td.VonMises(u(-1, 1), u(0.4, 5)),
    "Weibull": lambda u: td.Weibull(u(0.5, 2), u(0.8, 3)),
}
COUNTS: dict[str, Make] = {
    "Bernoulli": lambda u: td.Bernoulli(probs=u(0.1, 0.9)),
    "Binomial": lambda u: td.Binomial(u(5, 60).floor(), probs=u(0.1, 0.9)),
    "Categorical": lambda u: td.Categorical(logits=torch.stack([u(-1, 1) for _ in range(5)], -1)),
    "CountMixture": lambda u: td.MixtureSameFamily(
        td.Categorical(logits=torch.stack([u(-1, 1), u(-1, 1)], -1)), td.Poisson(torch.stack([u(1, 9), u(5, 40)], -1))
    ),
    "Geometric": lambda u: td.Geometric(probs=u(0.05, 0.9)),
    "NegativeBinomial": lambda u: td.NegativeBinomial(u(0.5, 20), probs=u(0.1, 0.9)),
    "Poisson": lambda u: td.Poisson(u(0.5, 60)),
}


def drawing(elements: int, seed: int) -> Draw:
    """Uniform numbers between two bounds, one for each element."""
    generator = torch.Generator().manual_seed(seed)
    shape = () if elements == 1 else (elements,)

    def draw(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=generator)

    return draw


def least_time(call: Callable[[], object], repeats: int, clock: Callable[[], float]) -> float:
    """Seconds of the quickest of a few calls."""
    call()
    found = []
    for _ in range(repeats):
        start = clock()
        call()
        found.append(clock() - start)
    return min(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time and print."""
    import kullback

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, nargs="+", default=[1, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--slowest", type=int, default=15)
    parser.add_argument("--p", nargs="*")
    parser.add_argument("--q", nargs="*")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu else time.perf_counter
    for elements in options.elements:
        times = []
        for families in (CONTINUOUS, COUNTS):
            for name_p in options.p or families:
                for name_q in options.q or families:
                    if name_p not in families or name_q not in families:
                        continue
                    p, q = families[name_p](drawing(elements, 1)), families[name_q](drawing(elements, 2))
                    method = kullback.kl_method(p, q)
                    if method in ("integral", "series"):
                        call = lambda p=p, q=q: kullback.kl_divergence(p, q)  # noqa: E731
                        repeats = options.repeats if elements > 1 else 4 * options.repeats
                        times.append((least_time(call, repeats, clock), name_p, name_q, method))
        times.sort(reverse=True)
        seconds = [time for time, *_ in times]
        limit = 2e-3 if elements == 1 else 50e-3
        print(f"\n{elements} elements, {len(times)} pairs: median {1e3 * seconds[len(times) // 2]:.2f} ms,", end=" ")
        print(f"{sum(s > limit for s in seconds)} above {1e3 * limit:.0f} ms")
        for seconds_taken, *rest in times[: options.slowest]:
            print(f"{1e3 * seconds_taken:9.2f} ms  {' '.join(rest)}")


if __name__ == "__main__":
    main()
