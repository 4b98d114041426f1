"""Total variation."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.kernels.f_rows import total_variation_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def total_variation(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Tensor:
    """The total variation distance ½ Σ |p - q|, one value per row.

    Symmetric, a metric, between 0 and 1, without unit. The largest difference of probability of any event. Some
    libraries leave out the ½. Where p_i = q_i there is a kink and the derivative is defined to be 0, the middle of the
    subgradients (Liger's kernel takes -½); a tie is judged up to the rounding of the normalisation.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
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
        >>> from kullback import Probs, total_variation
        >>> total_variation(Probs(torch.tensor([0.5, 0.3, 0.2])), Probs(torch.tensor([0.5, 0.2, 0.3])))
        tensor(0.1000)
    """
    options = Options(mask, weight, reduction, None, validate)
    return dispatch(p, q, options, Divergence("total_variation", total_variation_rows, divergences.total_variation))
