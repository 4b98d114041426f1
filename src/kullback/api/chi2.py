"""Pearson's chi-squared divergence."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.kernels.f_rows import chi2_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def chi2(
    p: Comparable,
    q: Comparable,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    validate: Validate = True,
) -> Tensor:
    """Pearson's chi-squared divergence Σ (p - q)²/q, one value per row.

    Not symmetric, without unit; infinite in rows where q excludes a class that p has. The expectation of (p/q - 1)²
    under q, so the variance of importance weights. Neyman's divides by p: that is `chi2(q, p)`. The statistic of a
    test with n draws is n times this.

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
        >>> from kullback import Counts, Probs, chi2
        >>> observed = torch.tensor([8, 12])
        >>> 20 * chi2(Counts(observed), Probs(torch.tensor([0.5, 0.5], dtype=torch.float64)))
        tensor(0.8000, dtype=torch.float64)
    """
    options = Options(mask, weight, reduction, None, validate)
    return dispatch(p, q, options, Divergence("chi2", chi2_rows, divergences.chi2))
