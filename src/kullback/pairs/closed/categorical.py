"""KL(Categorical ‖ q): one row of the tensor divergence, read as the maker gave it."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Categorical

from kullback._core.shapes import check_class_counts
from kullback.kernels.kl_rows import kl_rows
from kullback.kernels.sides import Encoding
from kullback.pairs.parameters import gives_logits
from kullback.pairs.registry import register
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
        # The shortest way to the kernel; the values were the maker's to validate.
        views = (Logits(rows_p) if logits_p else Probs(rows_p)), (Logits(rows_q) if logits_q else Probs(rows_q))
        rows = kl_rows_of_views(*views, False)
        if rows is not None:
            return rows
    check_class_counts(rows_p, rows_q, "Logits(p.logits), Logits(q.logits)")
    return kl_rows((rows_p, rows_q), (Encoding(linear=not logits_p), Encoding(linear=not logits_q)))
