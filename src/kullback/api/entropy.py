"""Entropy and cross-entropy."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import reduced
from kullback.pairs.entropy import cross_entropy as cross_entropy_of_pair
from kullback.pairs.entropy import entropy as entropy_of_distribution
from kullback.tensors.entropy import cross_entropy_of_views, entropy_of_view
from kullback.tensors.frame import Options
from kullback.tensors.views import View


def entropy(
    p: View | Distribution,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The Shannon entropy H(p) = -Σ p log p, in nats, one value per row.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution, which has a differential entropy if it is
            continuous.
        mask: Boolean per row: True keeps a row.
        weight: A number per row that multiplies it.
        reduction: `"none"`, `"sum"` or `"mean"` over rows.
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values; see `kl`.

    Returns:
        float64 where p is float64, else float32.

    Example:
        >>> import torch
        >>> from kullback import Probs, entropy
        >>> entropy(Probs(torch.tensor([0.5, 0.25, 0.25, 0.0])), base=2)
        tensor(1.5000)
    """
    options = Options(mask, weight, reduction, base, validate)
    if isinstance(p, Distribution):
        return reduced(entropy_of_distribution(p), options)
    return entropy_of_view(p, options)


def cross_entropy(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The cross-entropy H(p, q) = -Σ p log q = H(p) + KL(p || q), in nats, one value per row.

    Arguments in the order of `kl`: first the distribution that weighs (soft labels), then the model. Infinite in rows
    where q excludes a class that p does not.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; a Distribution if `p` is one.
        mask: Boolean per row: True keeps a row.
        weight: A number per row that multiplies it.
        reduction: `"none"`, `"sum"` or `"mean"` over rows.
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values; see `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Example:
        >>> import torch
        >>> from kullback import Logits, Probs, cross_entropy
        >>> cross_entropy(Probs(torch.tensor([0.0, 1.0])), Logits(torch.tensor([0.0, 0.0])))
        tensor(0.6931)
    """
    options = Options(mask, weight, reduction, base, validate)
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return reduced(cross_entropy_of_pair(p, q), options)
    return cross_entropy_of_views(p, q, options)
