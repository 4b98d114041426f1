"""How many digits torch and kullback keep: `python -m benchmarks.accuracy [--picture FILE]` prints README's table.

The truth of every case is computed with mpmath at 50 digits from the floats as stored. `--picture` draws the relative
error against the distance between p and q, the plot of docs/numerics.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import mpmath
import torch
from torch import Tensor
from torch.distributions import Beta, Dirichlet, Gamma, Normal, Poisson, kl_divergence
from torch.nn.functional import kl_div

import kullback as kb


class Case(NamedTuple):
    """One kind of pair: how torch and kullback compute it, and its exact value, at a distance between p and q."""

    name: str
    both: Callable[[float], tuple[float, float]]
    exact: Callable[[float], float]


def _exact_rows(a: Tensor, b: Tensor) -> float:
    with mpmath.workdps(50):
        p, q = ([mpmath.exp(mpmath.mpf(x)) for x in row.tolist()] for row in (a, b))
        sum_p, sum_q = mpmath.fsum(p), mpmath.fsum(q)
        return float(mpmath.fsum(x / sum_p * mpmath.log((x / sum_p) / (y / sum_q)) for x, y in zip(p, q, strict=True)))


def _logits(distance: float) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    a = 2 * torch.randn(1000, generator=generator)
    return a, a + distance * torch.randn(1000, generator=generator)


def _rows(distance: float) -> tuple[float, float]:
    a, b = _logits(distance)
    torchs = kl_div(b.log_softmax(-1), a.log_softmax(-1), log_target=True, reduction="sum")
    return torchs.item(), kb.kl(kb.Logits(a), kb.Logits(b)).item()


def _pair(make: Callable[[Tensor], tuple[object, object]]) -> Callable[[float], tuple[float, float]]:
    def both(distance: float) -> tuple[float, float]:
        p, q = make(torch.tensor(distance))
        return kl_divergence(p, q).item(), kb.kl(p, q).item()  # type: ignore[arg-type]

    return both


def _mp(*tensors: Tensor) -> list[mpmath.mpf]:
    return [mpmath.mpf(x.item()) for x in tensors]


def _normals(d: Tensor) -> tuple[Normal, Normal]:
    return Normal(torch.tensor(1.0), torch.tensor(1.0)), Normal(1.0 + d, 1.0 + d)


def _exact_normals(distance: float) -> float:
    p, q = _normals(torch.tensor(distance))
    with mpmath.workdps(50):
        m, s, n, t = _mp(p.loc, p.scale, q.loc, q.scale)
        return float(mpmath.log(t / s) + (s**2 + (m - n) ** 2) / (2 * t**2) - mpmath.mpf(1) / 2)


def _gammas(d: Tensor) -> tuple[Gamma, Gamma]:
    return Gamma(torch.tensor(100.0), torch.tensor(1.0)), Gamma(100.0 * (1 + d), torch.tensor(1.0))


def _exact_gammas(distance: float) -> float:
    p, q = _gammas(torch.tensor(distance))
    with mpmath.workdps(50):
        a, c = _mp(p.concentration, q.concentration)
        return float((a - c) * mpmath.digamma(a) - mpmath.loggamma(a) + mpmath.loggamma(c))


def _betas(d: Tensor) -> tuple[Beta, Beta]:
    return Beta(torch.tensor(1e4), torch.tensor(1e4)), Beta(1e4 * (1 + d), torch.tensor(1e4))


def _exact_betas(distance: float) -> float:
    p, q = _betas(torch.tensor(distance))
    return _exact_dirichlet([p.concentration1, p.concentration0], [q.concentration1, q.concentration0])


def _dirichlets(d: Tensor) -> tuple[Dirichlet, Dirichlet]:
    return Dirichlet(torch.full((50,), 1000.0)), Dirichlet(1000.0 * (1 + d / 2 * torch.linspace(-1, 1, 50)))


def _exact_dirichlets(distance: float) -> float:
    p, q = _dirichlets(torch.tensor(distance))
    return _exact_dirichlet(list(p.concentration), list(q.concentration))


def _exact_dirichlet(p: list[Tensor], q: list[Tensor]) -> float:
    with mpmath.workdps(50):
        a, b = _mp(*p), _mp(*q)
        total = mpmath.fsum(a)
        value = mpmath.loggamma(total) - mpmath.loggamma(mpmath.fsum(b))
        for x, y in zip(a, b, strict=True):
            value += mpmath.loggamma(y) - mpmath.loggamma(x) + (x - y) * (mpmath.digamma(x) - mpmath.digamma(total))
        return float(value)


def _poissons(d: Tensor) -> tuple[Poisson, Poisson]:
    return Poisson(torch.tensor(1e5)), Poisson(1e5 * (1 + d))


def _exact_poissons(distance: float) -> float:
    p, q = _poissons(torch.tensor(distance))
    with mpmath.workdps(50):
        a, b = _mp(p.rate, q.rate)
        return float(a * mpmath.log(a / b) - a + b)


CASES = (
    Case("rows of 1,000 logits", _rows, lambda d: _exact_rows(*_logits(d))),
    Case("Normal", _pair(_normals), _exact_normals),
    Case("Gamma, shape 100", _pair(_gammas), _exact_gammas),
    Case("Beta, shapes 1e4", _pair(_betas), _exact_betas),
    Case("Dirichlet, 50 shapes of 1,000", _pair(_dirichlets), _exact_dirichlets),
    Case("Poisson, rate 1e5", _pair(_poissons), _exact_poissons),
)
DISTANCES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def errors(case: Case, distance: float) -> tuple[float, float, bool]:
    """Relative errors of torch and of kullback, and whether torch's value is negative."""
    truth = case.exact(distance)
    torchs, ours = case.both(distance)
    return abs(torchs / truth - 1), abs(ours / truth - 1), torchs < 0


def table() -> str:
    """Relative errors as Markdown, a row for each case; a minus sign marks a negative divergence."""
    head = "".join(f" {d:g} |" for d in DISTANCES)
    lines = [f"| float32, p and q differ by |{head}", "|---|" + "---:|" * len(DISTANCES)]
    for case in CASES:
        found = [errors(case, distance) for distance in DISTANCES]
        lines.append(
            f"| {case.name}: torch |" + "".join(f" {_short(e)}{' (negative)' if n else ''} |" for e, _, n in found)
        )
        lines.append("| kullback |" + "".join(f" {_short(e)} |" for _, e, _ in found))
    return "\n".join(lines)


def _short(error: float) -> str:
    return (
        "0"
        if error == 0
        else f"{error:.0e}".replace("e-0", "e-").replace("e+0", "e+")
        if error < 1
        else f"{error:.0f}×"
    )


def draw(path: str) -> None:
    """Relative error against distance, a panel for each case."""
    import matplotlib.pyplot as plt

    distances = [10 ** (-exponent / 4) for exponent in range(21)]
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.2), layout="constrained", sharex=True, sharey=True)
    for ax, case in zip(axes.flat, CASES, strict=True):
        found = [errors(case, distance) for distance in distances]
        floor = 1e-9  # where the error is 0
        ax.loglog(distances, [max(e, floor) for e, _, _ in found], color="#d55e00", marker=".", label="torch")
        negative = [(d, max(e, floor)) for d, (e, _, n) in zip(distances, found, strict=True) if n]
        if negative:
            ax.scatter(
                *zip(*negative, strict=True), color="#d55e00", marker="v", s=40, zorder=3, label="torch, negative"
            )
        ax.loglog(distances, [max(e, floor) for _, e, _ in found], color="#0072b2", marker=".", label="kullback")
        ax.axhline(1.0, color="#999999", linewidth=0.8)
        ax.set_title(case.name, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].invert_xaxis()
    figure.legend(*axes[0, 0].get_legend_handles_labels(), frameon=False, loc="outside upper center", ncols=3)
    figure.supxlabel("relative difference of p and q", fontsize=10)
    figure.supylabel("relative error of KL, float32", fontsize=10)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main() -> None:
    """Print the table; draw the picture if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture")
    arguments = parser.parse_args()
    print(table())
    ours = max(errors(case, d)[1] for case in CASES for d in DISTANCES)
    theirs = [errors(case, d) for case in CASES for d in DISTANCES]
    lost = sum(error >= 0.5 for error, _, _ in theirs)
    print(
        f"\n{len(theirs)} cases: torch has no digit in {lost} and is negative in {sum(n for *_, n in theirs)}; ", end=""
    )
    print(f"kullback's largest error is {ours:.0e}.")
    if arguments.picture:
        draw(arguments.picture)


if __name__ == "__main__":
    main()
