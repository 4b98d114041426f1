"""Data that does not fit in memory: `estimate_kl` over pairs of chunks, merged by what the method allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any

from kullback._core.errors import InputTypeError, ShapeError, explain_problem
from kullback._core.progress import follow
from kullback.estimators.estimate import Estimate, normal_quantile
from kullback.tensors.views import Counts, Samples


def is_chunked(given: object) -> bool:
    """Whether an argument is a list, a generator or another iterable of Samples or Counts."""
    from torch import Tensor

    return isinstance(given, Iterable) and not isinstance(given, Tensor | str)


def over_chunks(
    p: Iterable[Any], q: Iterable[Any], estimate: Callable[[Any, Any], Estimate], confidence: float
) -> Estimate:
    """Counts are added up, which changes nothing. Estimates from pairs of chunks of Samples are averaged.

    The chunks are independent, so the error shrinks with all draws; the bias stays that of one chunk.
    """
    total: tuple[Counts, Counts] | None = None
    found: list[Estimate] = []
    for first, second in follow(zip_longest(p, q), "chunks"):
        if isinstance(first, Counts) and isinstance(second, Counts) and not found:
            total = (first, second) if total is None else (_added(total[0], first), _added(total[1], second))
        elif isinstance(first, Samples) and isinstance(second, Samples) and total is None:
            found.append(estimate(first, second))
        else:
            raise InputTypeError(
                explain_problem(
                    "Chunks come in pairs of one kind.",
                    got=f"{type(first).__name__} and {type(second).__name__} at place {len(found)}",
                    expected="as many chunks on both sides, all Samples or all Counts",
                    instead="Samples(torch.as_tensor(x)) for a list or an array of draws",
                )
            )
    if total is not None:
        return estimate(*total)
    if not found:
        raise ShapeError(explain_problem("There are no chunks.", got="nothing", expected="at least one pair of chunks"))
    weight = [min(each.n) / sum(min(other.n) for other in found) for each in found]
    value = sum(w * each.value for w, each in zip(weight, found, strict=True))
    stderr = math.sqrt(sum((w * each.stderr) ** 2 for w, each in zip(weight, found, strict=True)))
    reach = normal_quantile(confidence) * stderr
    sizes = tuple(sum(each.n[side] for each in found) for side in (0, 1))
    said = list(dict.fromkeys(warning for each in found for warning in each.warnings))
    if len(found) > 1:
        smallest = min(min(each.n) for each in found)
        said.append(f"Averaged over {len(found)} chunks: the bias is that of {smallest} draws, not of all.")
    diagnostics = {**found[0].diagnostics, "num_chunks": len(found)}
    name = f"{found[0].method}, {len(found)} chunks"
    return Estimate(value, stderr, value - reach, value + reach, name, sizes, confidence, diagnostics, said)


def _added(a: Counts, b: Counts) -> Counts:
    if a.tensor.shape != b.tensor.shape:
        raise ShapeError(
            explain_problem(
                "Chunks count different numbers of categories.",
                got=f"{tuple(a.tensor.shape)} and {tuple(b.tensor.shape)}",
                expected="the same categories in every chunk",
            )
        )
    return Counts(a.tensor + b.tensor, a.dim, a.smoothing)
