"""How wrong the estimators are: bias, spread, coverage and time against known truths; and a picture for the docs.

    python -m benchmarks.estimators --repeats 200 --draws 1000          # each method and the peers
    python -m benchmarks.estimators --coverage --repeats 200            # `method="auto"`, counts included
    python -m benchmarks.estimators --picture docs/estimators-error.svg # error against n and dimension

The formula of Wang, Kulkarni and Verdú with SciPy's KD-tree takes part, and `infomeasure` where it is installed
(`uv run --with infomeasure …`).
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Independent, MixtureSameFamily, MultivariateNormal, StudentT

import kullback as kb
from kullback import Counts, Estimate, Samples, estimate_kl

Method = Callable[[Tensor, Tensor], "Estimate | float"]


def shifted(d: int) -> tuple[Distribution, Distribution]:
    loc = torch.zeros(d, dtype=torch.float64)
    loc[0] = 1
    eye = torch.eye(d, dtype=torch.float64)
    return MultivariateNormal(torch.zeros_like(loc), eye), MultivariateNormal(loc, eye)


def wider(d: int) -> tuple[Distribution, Distribution]:
    zero, eye = torch.zeros(d, dtype=torch.float64), torch.eye(d, dtype=torch.float64)
    return MultivariateNormal(zero, eye), MultivariateNormal(zero, eye * (1 + 0.6 / math.sqrt(d)) ** 2)


def narrower(d: int) -> tuple[Distribution, Distribution]:
    zero, eye = torch.zeros(d, dtype=torch.float64), torch.eye(d, dtype=torch.float64)
    return MultivariateNormal(zero, eye), MultivariateNormal(zero, eye * (1 + 0.3 / math.sqrt(d)) ** -2)


def heavy(d: int) -> tuple[Distribution, Distribution]:
    three, loc = torch.full((d,), 3.0, dtype=torch.float64), torch.full((d,), 1 / math.sqrt(d), dtype=torch.float64)
    return Independent(StudentT(three), 1), Independent(StudentT(three, loc), 1)


def mixtures(d: int) -> tuple[Distribution, Distribution]:
    loc = 0.8 * torch.randn(7, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    eye = torch.eye(d, dtype=torch.float64)
    first = MixtureSameFamily(Categorical(torch.ones(3)), MultivariateNormal(loc[:3], eye))
    return first, MixtureSameFamily(Categorical(torch.ones(4)), MultivariateNormal(loc[3:], eye))


CASES = {
    **{f"shifted normals, d = {d}": (shifted, d) for d in (1, 2, 5, 10)},
    **{f"wider normal, d = {d}": (wider, d) for d in (1, 2, 5, 10)},
    **{f"narrower normal, d = {d}": (narrower, d) for d in (2, 5)},
    "Student t of 3, d = 1": (heavy, 1),
    "Student t of 3, d = 2": (heavy, 2),
    "mixtures, d = 5": (mixtures, 5),
}


def zipf(exponent: float) -> Tensor:
    weights = torch.arange(1, 1001, dtype=torch.float64) ** -exponent
    return weights / weights.sum()


def perturbed(p: Tensor) -> Tensor:
    weights = p * (0.42 * torch.randn(len(p), generator=torch.Generator().manual_seed(5), dtype=torch.float64)).exp()
    return weights / weights.sum()


def dirichlet(seed: int) -> Tensor:
    weights = -torch.rand(1000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).log()
    return weights / weights.sum()


TEN = torch.linspace(0, 2, 10, dtype=torch.float64).softmax(0), torch.linspace(1, 0, 10, dtype=torch.float64).softmax(0)
# name: p, q, counts of p, counts of q
COUNTS = {
    "ten categories": (*TEN, 500, 600),
    "ten categories, p = q": (TEN[0], TEN[0], 300, 300),
    "1,000 categories, Dirichlet(1)": (dirichlet(0), dirichlet(1), 2000, 2500),
    "1,000 categories, Dirichlet(1), few": (dirichlet(0), dirichlet(1), 1000, 1000),
    "1,000 categories, uniform and a line": (
        dirichlet(0) * 0 + 1e-3,
        torch.linspace(2e-4, 1.8e-3, 1000).double(),
        3000,
        4000,
    ),
    "Zipf's law, each probability off by 40 %": (zipf(1.0), perturbed(zipf(1.0)), 10000, 10000),
    "Zipf's law, each off by 40 %, few": (zipf(1.0), perturbed(zipf(1.0)), 1000, 1000),
    "Zipf's laws of exponents 1 and 1.25": (zipf(1.0), zipf(1.25), 10000, 10000),
    "Zipf's laws of exponents 1.25 and 1": (zipf(1.25), zipf(1.0), 10000, 10000),
    "Zipf's law, p = q": (zipf(1.0), zipf(1.0), 10000, 10000),
}
METHODS: dict[str, Method] = {
    "nearest neighbours": lambda x, y: estimate_kl(Samples(x), Samples(y), method="nearest-neighbours"),
    "k = 5": lambda x, y: estimate_kl(Samples(x), Samples(y), k=5),
    "density ratio": lambda x, y: estimate_kl(Samples(x), Samples(y), method="ratio"),
}


def others() -> dict[str, Method]:
    """Estimators of other packages that are installed here."""
    import numpy as np
    from scipy.spatial import cKDTree

    def by_scipy(x: Tensor, y: Tensor) -> float:
        own = cKDTree(x.numpy()).query(x.numpy(), [2])[0]
        other = cKDTree(y.numpy()).query(x.numpy(), [1])[0]
        return float(x.shape[1] * np.log(other / own).mean() + math.log(len(y) / (len(x) - 1)))

    found: dict[str, Method] = {"SciPy's KD-tree, k = 1": by_scipy}
    try:
        import infomeasure
    except ImportError:
        return found
    found["infomeasure"] = lambda x, y: float(infomeasure.kld(x.numpy(), y.numpy(), approach="metric"))
    return found


def truth(p: Distribution, q: Distribution) -> float:
    known = kb.kl_method(p, q) is not None
    return float(kb.kl(p, q) if known else estimate_kl(p, q, num_draws=1 << 17).value)


def errors(p: Distribution, q: Distribution, method: Method, sizes: tuple[int, int], repeats: int) -> Tensor:
    """Rows of error, whether the interval covers the truth, seconds."""
    target, rows = truth(p, q), []
    for seed in range(repeats):
        torch.manual_seed(seed)
        x, y = p.sample((sizes[0],)), q.sample((sizes[1],))
        start = time.process_time()
        found = method(x, y)
        covers = found.low <= target <= found.high if isinstance(found, Estimate) else math.nan
        rows.append((float(found) - target, float(covers), time.process_time() - start))
    return torch.tensor(rows, dtype=torch.float64)


def table(draws: int, repeats: int) -> None:
    print("| case | method | bias | spread | coverage | seconds |\n|---|---|---|---|---|---|")
    for name, (pair, d) in CASES.items():
        for label, method in {**METHODS, **others()}.items():
            rows = errors(*pair(d), method, (draws, 6 * draws // 5), repeats)
            numbers = f"{rows[:, 0].mean():+.3f} | {rows[:, 0].std():.3f} | {rows[:, 1].mean():.3f}"
            print(f"| {name} | {label} | {numbers} | {rows[:, 2].median():.2f} |", flush=True)


def coverage(draws: int, repeats: int) -> None:
    """How often the intervals of `method="auto"` hold the truth."""
    print("| case | method | truth | bias | spread | coverage | warns | seconds |\n|---|---|---|---|---|---|---|---|")
    cases: dict[str, tuple[float, Callable[[], Estimate]]] = {}
    for name, (pair, d) in CASES.items():
        p, q = pair(d)
        cases[name] = (
            truth(p, q),
            lambda p=p, q=q: estimate_kl(Samples(p.sample((draws,))), Samples(q.sample((6 * draws // 5,)))),
        )
    for name, (p, q, n, m) in COUNTS.items():
        cases[name] = (
            float((p * (p / q).log()).sum()),
            lambda p=p, q=q, n=n, m=m: estimate_kl(counts(p, n), counts(q, m)),
        )
    for name, (target, draw) in cases.items():
        rows = []
        for seed in range(repeats):
            torch.manual_seed(seed)
            start = time.process_time()
            found = draw()
            covers = found.low <= target <= found.high
            rows.append((float(found) - target, covers, bool(found.warnings), time.process_time() - start))
        error, covered, warned, seconds = torch.tensor(rows, dtype=torch.float64).unbind(1)
        numbers = f"{target:.3f} | {error.mean():+.3f} | {error.std():.3f} | {100 * covered.mean():.1f} %"
        print(
            f"| {name} | {found.method} | {numbers} | {100 * warned.mean():.0f} % | {seconds.median():.2f} |",
            flush=True,
        )


def counts(p: Tensor, n: int) -> Counts:
    return Counts(torch.multinomial(p, n, replacement=True).bincount(minlength=len(p)))


def picture(path: str, repeats: int) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    sizes = (100, 300, 1000)
    figure, axes = plt.subplots(1, 4, figsize=(11, 3), sharey=True, layout="constrained")
    for axis, d in zip(axes, (1, 2, 5, 10), strict=True):
        for (label, method), mark in zip(METHODS.items(), "os^", strict=True):
            found = [errors(*shifted(d), method, (n, n), repeats)[:, 0].square().mean().sqrt() for n in sizes]
            axis.loglog(sizes, found, marker=mark, label=label)
        axis.set(title=f"{d} dimension{'s' if d > 1 else ''}", xlabel="draws of each side")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("typical error, nats (truth 0.5)")
    axes[0].legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--picture", metavar="FILE")
    parser.add_argument("--coverage", action="store_true")
    arguments = parser.parse_args()
    if arguments.picture:
        picture(arguments.picture, arguments.repeats)
    elif arguments.coverage:
        coverage(arguments.draws, arguments.repeats)
    else:
        table(arguments.draws, arguments.repeats)


if __name__ == "__main__":
    main()
