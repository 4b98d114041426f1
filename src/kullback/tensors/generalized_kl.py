"""KL of measures that need not sum to 1."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.kernels.generalized_kl_rows import generalized_kl_rows
from kullback.tensors.frame import Options, divergence
from kullback.tensors.views import View


def generalized_kl(
    p: View,
    q: View,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The generalised (unnormalised) KL divergence Σ p log(p/q) - p + q, one value per row.

    Nothing is normalised: `Counts` are the measures themselves, `Logits` their logarithms. For measures of equal total
    it is KL scaled by that total. Never negative, zero only where p equals q; infinite where q is 0 and p is not.

    Args:
        p: `Counts` or `Logits` (or normalised `Probs`, `LogProbs`).
        q: The same, in any mix.
        mask: Boolean per row: True keeps a row.
        weight: A number per row that multiplies it.
        reduction: `"none"`, `"sum"` or `"mean"` over rows.
        base: Unit of the result: None for nats, 2 for bits.
        validate: Whether to look at the values; see `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Example:
        >>> import torch
        >>> from kullback import Counts, generalized_kl
        >>> generalized_kl(Counts(torch.tensor([2.0, 0.0])), Counts(torch.tensor([1.0, 3.0])))
        tensor(3.3863)
    """
    options = Options(mask, weight, reduction, base, validate)
    return divergence("generalized_kl", generalized_kl_rows, {"p": p, "q": q}, options)
