"""`estimate_kl`: looks at what it was given, picks the estimator and says why."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.shapes import described, written_shape
from kullback.estimators.chunks import is_chunked, over_chunks
from kullback.estimators.counts import Table, counts_against_density, counts_kl, counts_of_draws, table_of
from kullback.estimators.estimate import Estimate
from kullback.estimators.inputs import matrix, two_sides
from kullback.estimators.monte_carlo import estimate_by_draws
from kullback.estimators.nearest_neighbours import neighbours_against_density, neighbours_between_samples
from kullback.estimators.ratio import ratio_between_samples
from kullback.pairs import kl_method, kl_with_error
from kullback.tensors.views import Counts, Samples, View

# Not any iterable of chunks: a type checker takes a Tensor for one.
Comparable: TypeAlias = (
    Samples | Counts | Distribution | Sequence[Samples] | Sequence[Counts] | Iterator[Samples] | Iterator[Counts]
)
_FOR_SAMPLES = ("nearest-neighbours", "ratio")
_LEAST_PER_CATEGORY = 20  # counts, on average, from which the bias of the z-estimator is far below its error
_FOR_ONE_SAMPLE = ("nearest-neighbours",)
_MAX_NEIGHBOUR_DIMENSION = 2  # above, their bias exceeds the interval
_FOR_COUNTS = ("dirichlet", "zhang-grabchak", "plug-in")
_FOR_DISTRIBUTIONS = ("exact", "quasi-monte-carlo", "monte-carlo")


def estimate_kl(
    p: Comparable,
    q: Comparable,
    *,
    method: str = "auto",
    confidence: float = 0.95,
    generator: torch.Generator | None = None,
    **options: Any,
) -> Estimate:
    """Estimate KL(p ‖ q) = E_p[log p/q], with a standard error and an interval.

    | p | q | methods |
    |---|---|---|
    | `Samples` of real numbers | `Samples` | `"nearest-neighbours"` in 1 and 2 dimensions, `"ratio"` above |
    | `Samples` of real numbers | a Distribution | `"nearest-neighbours"` |
    | `Counts`, or `Samples` of integers | a discrete Distribution | `"zhang-grabchak"` |
    | `Counts`, or `Samples` of integers | the same | `"dirichlet"`, `"zhang-grabchak"`, `"plug-in"` |
    | a Distribution | a Distribution | `"exact"`, `"quasi-monte-carlo"`, `"monte-carlo"` |

    `method="auto"` takes what the dimension of the draws or the number of counts per category asks for;
    `diagnostics["reason"]` says why.

    Args:
        p: What the expectation is over. A list or generator of `Samples` or `Counts` stands for chunks of data that
            does not fit in memory: counts are added up, estimates of pairs of chunks averaged.
        q: What it is compared with.
        method: A name from the table, or "auto".
        confidence: Nominal coverage of the interval, between 0 and 1.
        generator: Seeds whatever is random. Without one the seed is fixed: the same call gives the same answer.
        **options: Of the method: `k` (nearest neighbours; a fixed number instead of an adaptive one), `prior`
            (dirichlet; a number of counts per category instead of one that the data choose), `num_draws` (Monte Carlo).

    Raises:
        InputTypeError: (a TypeError) bare tensors, or two sides that cannot be compared.
        InputValueError: (a ValueError) NaN in the draws, too few of them, an unknown method.

    Example:
        >>> import torch
        >>> from kullback import Samples, estimate_kl
        >>> generator = torch.Generator().manual_seed(0)
        >>> x = torch.randn(1000, generator=generator)
        >>> y = torch.randn(800, generator=generator) + 1
        >>> estimate = estimate_kl(Samples(x), Samples(y))  # the truth is 0.5
        >>> bool(estimate.low < 0.5 < estimate.high)
        True
    """
    if isinstance(confidence, bool) or not isinstance(confidence, float | int) or not 0 < confidence < 1:
        raise InputValueError(
            explain_problem("confidence is a share.", got=f"confidence={confidence!r}", expected="between 0 and 1")
        )
    name = str(method).lower().replace(" ", "-").replace("_", "-").replace("neighbors", "neighbours")
    common: dict[str, Any] = {"confidence": float(confidence), "generator": generator}
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return _of_distributions(p, q, name, common, options)
    if isinstance(p, Counts) and isinstance(q, Counts):
        _check(name, _FOR_COUNTS, options, ("prior",))
        return _of_counts(table_of(p, q), name, common, options)
    if isinstance(p, Samples) and isinstance(q, Samples):
        return _of_samples(p, q, name, common, options)
    if isinstance(p, Samples | Counts) and isinstance(q, Distribution) and (isinstance(p, Counts) or _is_discrete(q)):
        _check(name, ("zhang-grabchak",), options, ())
        found = counts_against_density(p, q, confidence=float(confidence))
        return _because(found, name, "counts against known probabilities")
    if isinstance(p, Samples) and isinstance(q, Distribution):
        _check(name, _FOR_ONE_SAMPLE, options, ("k",))
        found = neighbours_against_density(p, q, **common, **options)
        return _because(found, name, "draws against a known density")
    if is_chunked(p) and is_chunked(q):

        def of_pair(first: Any, second: Any) -> Estimate:
            return estimate_kl(first, second, method=method, **common, **options)

        return over_chunks(p, q, of_pair, float(confidence))  # type: ignore[arg-type]
    raise InputTypeError(_explain_types(p, q))


def _is_discrete(q: Distribution) -> bool:
    try:
        return bool(getattr(q.support, "is_discrete", False))
    except NotImplementedError:
        return False


def _of_counts(table: Table, name: str, common: dict[str, Any], options: dict[str, Any]) -> Estimate:
    plain = min(float(table.x.sum()), float(table.y.sum())) >= _LEAST_PER_CATEGORY * len(table.x)
    plain = plain and not bool(((table.x > 0) & (table.y == 0)).any()) and not options
    plain = plain and table.smoothing_x == table.smoothing_y == 0
    chosen = ("zhang-grabchak" if plain else "dirichlet") if name == "auto" else name
    found = counts_kl(table, method=chosen, **common, **options)
    reason = "many counts per category" if plain else "few counts per category, unseen ones, or a prior"
    return _because(found, name, reason)


def _of_samples(p: Samples, q: Samples, name: str, common: dict[str, Any], options: dict[str, Any]) -> Estimate:
    whole = not (p.tensor.is_floating_point() or q.tensor.is_floating_point())
    if name in _FOR_COUNTS or (name == "auto" and whole):
        _check(name, _FOR_COUNTS, options, ("prior",))
        matrix(p, "p"), matrix(q, "q")
        return _of_counts(counts_of_draws(p.tensor, q.tensor), name, common, options)
    dimension = two_sides(p, q).x.shape[1]
    few = dimension <= _MAX_NEIGHBOUR_DIMENSION
    if name == "ratio" or (name == "auto" and not options and not few):
        _check(name, _FOR_SAMPLES, options, ())
        found = ratio_between_samples(p, q, **common)
        return _because(found, name, f"draws of {dimension} real numbers, where neighbours are biased")
    _check(name, _FOR_SAMPLES, options, ("k",))
    found = neighbours_between_samples(p, q, **common, **options)
    return _because(found, name, "draws in few dimensions" if few else "k= is an option of nearest neighbours")


def _of_distributions(
    p: Distribution, q: Distribution, name: str, common: dict[str, Any], options: dict[str, Any]
) -> Estimate:
    _check(name, _FOR_DISTRIBUTIONS, options, ("num_draws",))
    route = kl_method(p, q)
    if name == "exact" or (name == "auto" and route is not None):
        result = kl_with_error(p, q)
        error = torch.zeros_like(result.value) if result.error is None else result.error.detach()
        ends = result.value.detach() - error, result.value.detach() + error
        found = Estimate(result.value, error, *ends, f"exact: {result.method}", (0,), common["confidence"])
        return _because(found, name, f"a deterministic route exists ({route})")
    found = estimate_by_draws(p, q, method=None if name == "auto" else name, **common, **options)
    return _because(found, name, "no deterministic route gives the value")


def _because(estimate: Estimate, name: str, reason: str) -> Estimate:
    text = reason if name == "auto" else "asked for by method="
    return dataclasses.replace(estimate, diagnostics={"reason": text, **estimate.diagnostics})


def _check(name: str, known: tuple[str, ...], options: dict[str, Any], allowed: tuple[str, ...]) -> None:
    if name != "auto" and name not in known:
        raise InputValueError(
            explain_problem(
                "No such method for what was given.",
                got=f"method={name!r}",
                expected=", ".join(repr(each) for each in ("auto", *known)),
            )
        )
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise InputTypeError(
            explain_problem(
                f"estimate_kl() has no option {unknown[0]!r} here.",
                got=", ".join(f"{key}={options[key]!r}" for key in unknown),
                expected=", ".join(allowed),
            )
        )


def _explain_types(p: object, q: object) -> str:
    bare = next(((name, given) for name, given in (("p", p), ("q", q)) if isinstance(given, torch.Tensor)), None)
    if bare is not None:
        return explain_problem(
            f"{bare[0]} is a bare tensor; estimate_kl() cannot tell draws from counts.",
            got=f"a tensor {written_shape(bare[1])}",
            expected="Samples, Counts or a Distribution",
            instead="estimate_kl(Samples(x), Samples(y)) for draws, Counts for counts per category",
        )
    are_views = isinstance(p, View) and isinstance(q, View)
    return explain_problem(
        "estimate_kl() has no estimator for this pair.",
        got=f"p is {described(p)}, q is {described(q)}",
        expected="two Samples, two Counts, two Distributions, or Samples or Counts and then a Distribution",
        instead="kl(p, q): the divergence of Logits, LogProbs and Probs is exact"
        if are_views
        else "Samples(torch.as_tensor(x)) for draws, Counts(torch.as_tensor(x)) for counts per category",
    )
