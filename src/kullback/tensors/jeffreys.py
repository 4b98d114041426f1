"""Jeffreys' divergence."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.kernels.f_rows import jeffreys_rows
from kullback.tensors.frame import Options
from kullback.tensors.sister import sister_of_views
from kullback.tensors.views import View


def jeffreys(
    p: View,
    q: View,
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
        p: `Logits`, `LogProbs`, `Probs` or `Counts`.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values, as for `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: Anything but views of floating tensors.
        InputValueError: Values that cannot be what the view says.
        ShapeError: Class counts, batch shapes or a mask that do not fit.

    Example:
        >>> import torch
        >>> from kullback import Logits, jeffreys
        >>> jeffreys(Logits(torch.tensor([0.0, 1.0])), Logits(torch.tensor([0.0, 0.0])))
        tensor(0.2311)
    """
    return sister_of_views("jeffreys", jeffreys_rows, p, q, Options(mask, weight, reduction, base, validate))
