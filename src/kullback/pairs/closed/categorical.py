"""KL of Categorical, OneHotCategorical and Multinomial: rows of the tensor divergence. Called by `pairs.dispatch`."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Categorical, Distribution, Multinomial, OneHotCategorical

from kullback._core.shapes import check_class_counts
from kullback.densities.parameters import gives_logits
from kullback.kernels.kl_rows import kl_rows
from kullback.kernels.sides import Encoding
from kullback.pairs.parameters import construct_unvalidated
from kullback.pairs.registry import Reduced, register
from kullback.tensors.kl import kl_rows_of_views
from kullback.tensors.views import Logits, Probs


@register(
    Categorical,
    Categorical,
    source="log1p(Σ p φ(v) + Σ_{p=0} eᵗ), v the centred log-ratio, φ(x) = eˣ − 1 − x; the kernel of kl(Logits, Logits)",
    finished=True,
)
def kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    """Zeros and logits of −inf are outside the support; class counts must agree, since classes are never broadcast."""
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    rows_p, rows_q = p.logits if logits_p else p.probs, q.logits if logits_q else q.probs
    if rows_p.shape == rows_q.shape:
        # The shortest call of the kernel; the values were the maker's to validate.
        views = (Logits(rows_p) if logits_p else Probs(rows_p)), (Logits(rows_q) if logits_q else Probs(rows_q))
        rows = kl_rows_of_views(*views, False)
        if rows is not None:
            return rows
    check_class_counts(rows_p, rows_q, "Logits(p.logits), Logits(q.logits)")
    return kl_rows((rows_p, rows_q), (Encoding(linear=not logits_p), Encoding(linear=not logits_q)))


@register(
    OneHotCategorical,
    OneHotCategorical,
    source="KL(Categorical ‖ Categorical): the outcome names the class",
    finished=True,
)
def kl_one_hot_categorical_one_hot_categorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    """The same distribution, written as a unit vector."""
    return kl_categorical_categorical(p._categorical, q._categorical)


@register(Multinomial, Multinomial, source="n KL(Categorical ‖ Categorical) for equal counts, else infinite")
def kl_multinomial_multinomial(p: Multinomial, q: Multinomial) -> Tensor:
    """Outcomes sum to the count: different counts share none. No trials have one outcome and no divergence."""
    per_trial = kl_categorical_categorical(p._categorical, q._categorical)
    if p.total_count != q.total_count or p.total_count == 0:
        constant = 0.0 if p.total_count == q.total_count else math.inf
        return torch.where(torch.zeros_like(per_trial, dtype=torch.bool), per_trial, constant)
    return p.total_count * per_trial


@register(
    Multinomial, OneHotCategorical, method="structure", source="a OneHotCategorical is a Multinomial of one trial"
)
def kl_multinomial_one_hot_categorical(p: Multinomial, q: OneHotCategorical) -> Reduced:
    """Infinite unless p has one trial."""
    return Reduced(p, _of_one_trial(q))


@register(
    OneHotCategorical, Multinomial, method="structure", source="a OneHotCategorical is a Multinomial of one trial"
)
def kl_one_hot_categorical_multinomial(p: OneHotCategorical, q: Multinomial) -> Reduced:
    """Infinite unless q has one trial."""
    return Reduced(_of_one_trial(p), q)


def _of_one_trial(p: OneHotCategorical) -> Distribution:
    """The same distribution as a Multinomial, with the very same parameters."""
    state = {"total_count": 1, "_categorical": p._categorical, "_event_shape": p.event_shape}
    return construct_unvalidated(Multinomial, state, p.batch_shape)
