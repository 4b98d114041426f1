"""Rényi's divergence."""

from __future__ import annotations

import math

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.api.parameter import check_parameter
from kullback.kernels.f_rows import renyi_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def renyi(
    p: Comparable,
    q: Comparable,
    alpha: float,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """Rényi's divergence log(Σ p^α q^(1-α)) / (α - 1) of order α, in nats, one value per row.

    Grows with α. α = 1 is KL(p || q), and orders next to 1 are as accurate as it; α = 0 is -log of the mass that q
    puts on the support of p; α = ½ is -2 log(1 - hellinger²), twice the Bhattacharyya distance; α = 2 is log(1 +
    chi2); α = `math.inf` is log max p/q, the max-divergence of differential privacy. Below 1 it is infinite only for
    disjoint supports, from 1 on wherever q excludes a class that p has. Not Tsallis' divergence, nor Amari's
    α-divergence: those do not take the logarithm.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        alpha: The order, from 0 to `math.inf`.
        mask: Boolean per row: True keeps a row. A row that is left out gives 0 and zero gradient whatever it holds.
        weight: A number per row that multiplies it.
        reduction: `"none"` for one value per row, `"sum"` over rows, `"mean"` over the rows that are left (weighted).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values, as for `kl`.

    Returns:
        float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: Bare tensors, samples, integers, a view against a distribution, a parameter that is no number.
        InputValueError: Values that cannot be what the view says, a parameter out of range.
        ShapeError: Class counts, batch shapes or a mask that do not fit.
        NoRouteError: Two distributions for which there is no closed form, integral or series.

    Example:
        >>> import math, torch
        >>> from kullback import Probs, renyi
        >>> p, q = Probs(torch.tensor([0.5, 0.5])), Probs(torch.tensor([0.25, 0.75]))
        >>> renyi(p, q, alpha=1.0), renyi(p, q, alpha=1.0 + 1e-9)
        (tensor(0.1438), tensor(0.1438))
        >>> renyi(p, q, alpha=math.inf, base=2)
        tensor(1.)
    """
    alpha = check_parameter("alpha", alpha, math.inf, "it is the order, 1 for KL")
    options = Options(mask, weight, reduction, base, validate)
    return dispatch(p, q, options, Divergence("renyi", renyi_rows, divergences.renyi), alpha)
