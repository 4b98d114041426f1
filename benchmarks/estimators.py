"""How wrong the estimators are: bias, spread, coverage and time against known truths; and a picture for the docs.

    python -m benchmarks.estimators --repeats 200 --draws 1000          # the table
    python -m benchmarks.estimators --picture docs/estimators-error.svg # error against n and dimension

`infomeasure` takes part in the table where it is installed.
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
from kullback import Estimate, Samples, estimate_kl

Method = Callable[[Tensor, Tensor], "Estimate | float"]


def shifted(d: int) -> tuple[Distribution, Distribution]:
    loc = torch.zeros(d, dtype=torch.float64)
    loc[0] = 1
    eye = torch.eye(d, dtype=torch.float64)
    return MultivariateNormal(torch.zeros_like(loc), eye), MultivariateNormal(loc, eye)


def wider(d: int) -> tuple[Distribution, Distribution]:
    zero, eye = torch.zeros(d, dtype=torch.float64), torch.eye(d, dtype=torch.float64)
    return MultivariateNormal(zero, eye), MultivariateNormal(zero, eye * (1 + 0.6 / math.sqrt(d)) ** 2)


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
    "Student t of 3, d = 1": (heavy, 1),
    "Student t of 3, d = 2": (heavy, 2),
    "mixtures, d = 5": (mixtures, 5),
}
METHODS: dict[str, Method] = {
    "nearest neighbours": lambda x, y: estimate_kl(Samples(x), Samples(y), method="nearest-neighbours"),
    "k = 5": lambda x, y: estimate_kl(Samples(x), Samples(y), k=5),
    "density ratio": lambda x, y: estimate_kl(Samples(x), Samples(y), method="ratio"),
}


def others() -> dict[str, Method]:
    """Estimators of other packages that are installed here."""
    try:
        import infomeasure
    except ImportError:
        return {}
    return {"infomeasure": lambda x, y: float(infomeasure.kld(x.numpy(), y.numpy(), approach="metric"))}


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
    arguments = parser.parse_args()
    if arguments.picture:
        picture(arguments.picture, arguments.repeats)
    else:
        table(arguments.draws, arguments.repeats)


if __name__ == "__main__":
    main()
