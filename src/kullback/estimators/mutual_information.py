"""`estimate_mutual_information`: KL of the joint distribution against the product of its margins, from paired draws.

Two methods:

- `"nearest-neighbours"`: ψ(k) + ψ(n) − mean[ψ(a_i + 1) + ψ(b_i + 1)], where a_i and b_i count the x and y strictly
  closer than the k-th neighbour of the pair (Kraskov, Stögbauer and Grassberger 2004, the first of their two
  estimators). Where that distance is 0, equal pairs are counted (Gao et al. 2017).
- `"ratio"`: the density ratio of the pairs (x_i, y_i) against (x_i, y_j), j another row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.estimators.estimate import Estimate, normal_quantile
from kullback.estimators.inputs import matrix, note_ceiling, seeded
from kullback.estimators.nearest_neighbours import subsampling_error
from kullback.estimators.neighbours import search
from kullback.estimators.ratio import ratio_between_samples
from kullback.tensors.views import Samples

_METHODS = ("auto", "nearest-neighbours", "ratio")
_MAX_NEIGHBOUR_DIMENSION = 3
_LEAST_DRAWS = 8


def estimate_mutual_information(
    x: Samples | Tensor,
    y: Samples | Tensor,
    *,
    method: str = "auto",
    confidence: float = 0.95,
    generator: torch.Generator | None = None,
    k: int = 3,
) -> Estimate:
    """Estimate I(X; Y) = KL(p(x, y) ‖ p(x)·p(y)) in nats from n pairs of draws.

    Args:
        x: (n,) or (n, d).
        y: (n,) or (n, e); row i belongs to row i of x.
        method: "nearest-neighbours", "ratio", or "auto": neighbours up to three coordinates together, the ratio above.
        confidence: Nominal coverage of the interval.
        generator: Seeds the subsamples, folds and pairings; without one the seed is fixed.
        k: Neighbours, for that method.

    Example:
        >>> import torch
        >>> from kullback import estimate_mutual_information
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.randn(1000, generator=generator)
        >>> y = 0.6 * x + 0.8 * torch.randn(1000, generator=generator)  # the truth is -log(0.8) = 0.223
        >>> estimate = estimate_mutual_information(x, y)
        >>> bool(estimate.low < 0.223 < estimate.high)
        True
    """
    first, second = _rows(x, "x"), _rows(y, "y")
    if len(first) != len(second):
        raise ShapeError(
            explain_problem(
                "x and y are paired: row i of one belongs to row i of the other.",
                got=f"{len(first)} and {len(second)} rows",
                expected="the same number of rows",
            )
        )
    if method not in _METHODS or not 0 < confidence < 1 or type(k) is not int or not 1 <= k < len(first):
        raise InputValueError(
            explain_problem(
                "An argument is out of range.",
                got=f"method={method!r}, confidence={confidence!r}, k={k!r}",
                expected=f"method {', '.join(_METHODS)}; confidence between 0 and 1; "
                f"k from 1 to {len(first) - 1}, less than the {len(first)} draws",
            )
        )
    first, second = (part[:, (part != part[0]).any(0)] for part in (first, second))
    dimension = first.shape[1] + second.shape[1]
    n = len(first)
    if 0 in (first.shape[1], second.shape[1]):
        said = ["One side is constant: it carries no information."]
        return Estimate(0.0, 0.0, 0.0, 0.0, "constant", (n,), confidence, {"dimension": dimension}, said)
    chosen = method
    if method == "auto":
        chosen = "nearest-neighbours" if dimension <= _MAX_NEIGHBOUR_DIMENSION else "ratio"
    if chosen == "ratio":
        found = _by_ratio(first, second, confidence, generator)
    else:
        found = _by_neighbours(first, second, confidence, generator, k)
    reason = f"{dimension} coordinates together" if method == "auto" else "asked for by method="
    found.diagnostics["reason"] = reason
    return found


def _rows(given: Any, name: str) -> Tensor:
    if not isinstance(given, Samples | Tensor):
        raise InputTypeError(
            explain_problem(
                f"{name} is not a tensor of draws.",
                got=type(given).__name__,
                instead="torch.as_tensor(x), or Samples(x)",
            )
        )
    return matrix(given if isinstance(given, Samples) else Samples(given), name)


def _by_neighbours(x: Tensor, y: Tensor, confidence: float, generator: torch.Generator | None, k: int) -> Estimate:
    x, y = (_unit_columns(part) for part in (x, y))

    def statistic(a: Tensor, b: Tensor) -> Tensor:
        return _neighbour_terms(a, b, k)

    value = float(statistic(x, y).mean())
    stderr = subsampling_error(statistic, x, y, seeded(generator), paired=True)
    diagnostics: dict[str, object] = {"dimension": x.shape[1] + y.shape[1], "k": k}
    warnings: list[str] = []
    if len(x) < 50:
        warnings.append(f"{len(x)} pairs are too few for an interval with its nominal coverage.")
    if x.shape[1] + y.shape[1] > _MAX_NEIGHBOUR_DIMENSION:
        warnings.append(
            f"In {x.shape[1] + y.shape[1]} coordinates neighbours are biased; the interval does not include that."
        )
    note_ceiling(value, len(x), diagnostics, warnings)
    reach = normal_quantile(confidence) * stderr
    name = f"nearest neighbours, k = {k}"
    return Estimate(value, stderr, value - reach, value + reach, name, (len(x),), confidence, diagnostics, warnings)


def _neighbour_terms(x: Tensor, y: Tensor, k: int) -> Tensor:
    n = len(x)
    pairs = torch.cat([x, y], 1)
    among = search(pairs, norm=torch.inf)
    radius = among.kth(pairs, min(k, n - 1) + 1)
    # The pair itself is among the counted, which is the + 1 of the formula.
    near_x, near_y = (search(part, norm=torch.inf).count(part, radius).double() for part in (x, y))
    together = torch.where(radius > 0, float(min(k, n - 1)), among.count(pairs, radius).double())
    offset = torch.digamma(torch.tensor(float(n), dtype=torch.float64))
    return torch.digamma(together) + offset - torch.digamma(near_x) - torch.digamma(near_y)


def _by_ratio(x: Tensor, y: Tensor, confidence: float, generator: torch.Generator | None) -> Estimate:
    random = seeded(generator)
    n = len(x)
    if n < _LEAST_DRAWS:
        raise ShapeError(
            explain_problem("Too few pairs for a density ratio.", got=f"{n} pairs", expected=f"{_LEAST_DRAWS} or more")
        )
    # A cyclic shift of a random order pairs no row with itself.
    order = torch.from_numpy(random.permutation(n))
    other = torch.empty_like(order)
    other[order] = order.roll(1)
    joint, product = torch.cat([x, y], 1), torch.cat([x, y[other]], 1)
    found = ratio_between_samples(Samples(joint), Samples(product), confidence=confidence, generator=generator)
    return Estimate(
        found.value,
        found.stderr,
        found.low,
        found.high,
        found.method,
        (n,),
        confidence,
        found.diagnostics,
        found.warnings,
    )


def _unit_columns(z: Tensor) -> Tensor:
    """Columns of standard deviation 1: mutual information does not depend on units, distances do."""
    spread = z.std(0)
    return (z - z.mean(0)) / torch.where(spread > 0, spread, 1.0)
