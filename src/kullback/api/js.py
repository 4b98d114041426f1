"""The Jensen-Shannon divergence and its square root."""

from __future__ import annotations

import math

from torch import Tensor

from kullback._core.reduction import Reduction, check_base
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.kernels.f_rows import js_distance_rows, js_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def js(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The Jensen-Shannon divergence ½ KL(p || m) + ½ KL(q || m) with m = (p + q)/2, in nats, one value per row.

    Symmetric, between 0 and log 2, finite for any supports. Four things are called JSD: this one (torchmetrics, and
    TRL and Liger at beta = ½); the same in bits (dit), here `base=2`; its square root
    (`scipy.spatial.distance.jensenshannon`, evidently), here `js_distance`; and twice it, without the halves
    (`tfp.vi.jensen_shannon`). For weights other than one half see `scaled_js`.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values, as for `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: Bare tensors, samples, integers, a view against a distribution.
        InputValueError: Values that cannot be what the view says.
        ShapeError: Class counts, batch shapes or a mask that do not fit.
        NoRouteError: Two distributions for which there is no closed form, integral or series.

    Example:
        >>> import torch
        >>> from kullback import Probs, js
        >>> p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
        >>> js(Probs(p), Probs(q))
        tensor(0.2158)
        >>> js(Probs(p), Probs(1 - p), base=2)
        tensor(1.)
    """
    options = Options(mask, weight, reduction, base, validate)
    return dispatch(p, q, options, Divergence("js", js_rows, divergences.js))


def js_distance(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The Jensen-Shannon distance √js(p, q), a metric, one value per row.

    This is what `scipy.spatial.distance.jensenshannon` returns; the divergence is `js`. The base divides the
    divergence before the root is taken, so that base 2 gives distances between 0 and 1. At p = q the distance has a
    kink; its gradient there is defined to be 0.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
        base: Unit of the divergence under the root: None for nats, 2 for bits.
        validate: Whether to look at the values, as for `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: Bare tensors, samples, integers, a view against a distribution.
        InputValueError: Values that cannot be what the view says.
        ShapeError: Class counts, batch shapes or a mask that do not fit.
        NoRouteError: Two distributions for which there is no closed form, integral or series.

    Example:
        >>> import torch
        >>> from kullback import Probs, js_distance
        >>> p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
        >>> js_distance(Probs(p), Probs(q))
        tensor(0.4645)
        >>> js_distance(Probs(p), Probs(1 - p), base=2)
        tensor(1.)
    """
    check_base(base)
    unit = 1.0 if base is None else math.log(base)
    options = Options(mask, weight, reduction, None, validate)
    return dispatch(p, q, options, Divergence("js_distance", js_distance_rows, divergences.js_distance), unit)
