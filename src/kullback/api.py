"""The public functions: look at what was handed over and pick the room."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import NoRouteError, explain_problem
from kullback._core.reduction import Reduction, check_base, check_mask, check_reduction, check_weight, reduce_rows
from kullback._core.validation import Validate
from kullback.pairs.dispatch import kl_divergence
from kullback.tensors.entropy import cross_entropy_of_views, entropy_of_view
from kullback.tensors.frame import Options
from kullback.tensors.kl import kl_of_views, kl_rows_of_views


def kl(
    p: Any,
    q: Any,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The Kullback-Leibler divergence KL(p || q) = Σ p log(p / q), in nats, one value per row.

    `p` is what you weigh with (the data, the teacher, the posterior), `q` what you compare it to (the model, the
    student, the prior). Never negative, exactly 0 for equal input, accurate when p ≈ q, infinite only in rows where q
    excludes a class that p does not. Differentiable twice in both arguments.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one:
            `kl` is then `kl_divergence`, and a row is an element of the batch shape.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values: True on CPU, `"sync"` anywhere, `"async"` without waiting for the
            device, False nowhere. Values are not looked at inside `torch.compile`, `vmap` and other transforms.

    Returns:
        float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: Bare tensors, samples, integers, a view against a distribution.
        InputValueError: Values that cannot be what the view says.
        ShapeError: Class counts, batch shapes or a mask that do not fit.

    Example:
        >>> import torch
        >>> from kullback import Logits, Probs, kl
        >>> teacher = torch.tensor([[0.36, 0.48, 0.16], [0.5, 0.5, 0.0]])
        >>> student = torch.zeros(2, 3)
        >>> kl(Probs(teacher), Logits(student))
        tensor([0.0853, 0.4055])
        >>> kl(Probs(teacher), Logits(student), base=2, reduction="mean")
        tensor(0.3540)
    """
    if mask is None and weight is None and base is None and reduction == "none":
        rows = kl_rows_of_views(p, q, validate)
        if rows is not None:
            return rows
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return _kl_of_distributions(p, q, Options(mask, weight, reduction, base, validate))
    return kl_of_views(p, q, Options(mask, weight, reduction, base, validate))


def entropy(
    p: Any,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The Shannon entropy H(p) = -Σ p log p, in nats, one value per row.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`.
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
    if isinstance(p, Distribution):
        raise NoRouteError(
            explain_problem(
                "entropy() has no formula for this distribution.",
                got=type(p).__name__,
                expected="a view of a tensor: Logits, LogProbs, Probs, Counts",
                instead="p.entropy()",
            )
        )
    return entropy_of_view(p, Options(mask, weight, reduction, base, validate))


def cross_entropy(
    p: Any,
    q: Any,
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
        p: `Logits`, `LogProbs`, `Probs` or `Counts`.
        q: The same, in any mix.
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
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        raise NoRouteError(
            explain_problem(
                "cross_entropy() has no formula for distributions.",
                got=f"{type(p).__name__} and {type(q).__name__}",
                expected="views of tensors: Logits, LogProbs, Probs, Counts",
                instead="p.entropy() + kl(p, q)",
            )
        )
    return cross_entropy_of_views(p, q, Options(mask, weight, reduction, base, validate))


def _kl_of_distributions(p: Distribution, q: Distribution, options: Options) -> Tensor:
    """One row per element of the batch shape, reduced like the rows of tensors."""
    rows = kl_divergence(p, q)
    check_reduction(options.reduction)
    check_base(options.base)
    check_mask(options.mask, rows.shape)
    check_weight(options.weight, rows.shape)
    return reduce_rows(rows, mask=options.mask, weight=options.weight, reduction=options.reduction, base=options.base)
