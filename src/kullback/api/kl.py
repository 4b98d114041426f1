"""The Kullback-Leibler divergence."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import reduced
from kullback.pairs.dispatch import kl_divergence
from kullback.tensors.frame import Options
from kullback.tensors.kl import kl_of_views, kl_rows_of_views


def kl(
    p: Comparable,
    q: Comparable,
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
    plain = mask is None and weight is None and base is None and reduction == "none"
    options = Options(mask, weight, reduction, base, validate)
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return kl_divergence(p, q) if plain else reduced(kl_divergence(p, q), options)
    # What is neither two views nor two distributions is refused inside, with a message.
    one: Any = p
    other: Any = q
    rows = kl_rows_of_views(one, other, validate) if plain else None
    return kl_of_views(one, other, options) if rows is None else rows
