"""Divergences from a mixture of both sides: skewed KL and the Jensen-Shannon family."""

from __future__ import annotations

from torch import Tensor

from kullback._core.reduction import Reduction
from kullback._core.validation import Validate
from kullback.api.comparable import Comparable
from kullback.api.dispatch import Divergence, dispatch
from kullback.api.parameter import check_parameter
from kullback.kernels.f_rows import scaled_js_rows, skew_kl_rows
from kullback.pairs import divergences
from kullback.tensors.frame import Options


def skew_kl(
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
    """The skewed divergence KL(p || αp + (1-α)q), in nats, one value per row.

    Finite for α > 0, whatever the supports: at most -log α. α = 0 is KL(p || q), α = 1 is 0. DistiLLM's skew KL is
    this one with α = 0.1, its skew reverse KL is `skew_kl(q, p, alpha)`; its code leaves out the entropy of p, so its
    gradient agrees and its value does not. Some papers give the share of q rather than that of p.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        alpha: The share of p in the mixture, from 0 to 1.
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
        >>> import torch
        >>> from kullback import Probs, skew_kl
        >>> p, q = torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0])
        >>> skew_kl(Probs(p), Probs(q), alpha=0.1)
        tensor(0.8304)
        >>> skew_kl(Probs(p), Probs(q), alpha=0.0)
        tensor(inf)
    """
    alpha = check_parameter("alpha", alpha, 1.0, "it is the share of p in the mixture, 0 for KL(p || q)")
    options = Options(mask, weight, reduction, base, validate)
    return dispatch(p, q, options, Divergence("skew_kl", skew_kl_rows, divergences.skew_kl), alpha)


def scaled_js(
    p: Comparable,
    q: Comparable,
    beta: float,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: Validate = True,
) -> Tensor:
    """The scaled Jensen-Shannon divergence [β KL(p || m) + (1-β) KL(q || m)] / (β(1-β)), m = βp + (1-β)q, in nats.

    Continuous in β on [0, 1]: KL(p || q) at 0, KL(q || p) at 1, 4 js(p, q) at ½. With p the teacher and q the student
    this is the generalised JSD of GKD, TRL and Liger divided by β(1-β). Theirs tends to 0 at both ends, where they
    switch to an unscaled KL: it jumps by a factor of a thousand between β = 0.001 and β = 0. Multiply by β(1-β) to
    reproduce it.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; or a torch Distribution.
        q: The same, in any mix; as many classes as `p`. Batch dimensions broadcast. A Distribution if `p` is one: a
            row is then an element of the batch shape.
        beta: The weight of p, from 0 to 1.
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
        >>> import torch
        >>> from kullback import Probs, kl, scaled_js
        >>> p, q = Probs(torch.tensor([0.7, 0.2, 0.1])), Probs(torch.tensor([0.2, 0.3, 0.5]))
        >>> scaled_js(p, q, beta=1e-6), kl(p, q)
        (tensor(0.6349), tensor(0.6349))
        >>> scaled_js(p, q, beta=0.5)
        tensor(0.6054)
    """
    beta = check_parameter("beta", beta, 1.0, "it is the weight of p, with limits KL(p || q) at 0 and KL(q || p) at 1")
    options = Options(mask, weight, reduction, base, validate)
    return dispatch(p, q, options, Divergence("scaled_js", scaled_js_rows, divergences.scaled_js), beta)
