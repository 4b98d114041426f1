"""Jeffreys' divergence."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.kernels.f_rows import jeffreys_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def jeffreys(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """Jeffreys' divergence KL(p || q) + KL(q || p) = Σ (p - q)(log p - log q), in nats, one value per row.

    Symmetric; infinite in rows whose supports differ. Other names: symmetric KL, J-divergence, and in credit scoring
    and drift monitoring the population stability index (PSI). Some authors halve it.

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
        >>> from kullback import Logits, jeffreys
        >>> jeffreys(Logits(torch.tensor([0.0, 1.0])), Logits(torch.tensor([0.0, 0.0])))
        tensor(0.2311)
    """
    options = Options(mask, weight, reduction, base, validate)
    return dispatch(p, q, options, Divergence("jeffreys", jeffreys_rows, divergences.jeffreys))
