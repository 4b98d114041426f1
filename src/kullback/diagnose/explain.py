"""`explain(p, q)`: what stands behind a divergence; called by users and by `kullback explain`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.reduction import check_base
from kullback.diagnose.explanation import Explanation
from kullback.diagnose.of_distributions import explain_distributions
from kullback.diagnose.of_samples import explain_samples
from kullback.diagnose.of_tensors import explain_tensors
from kullback.tensors.views import Samples

Labels = Sequence[str] | Mapping[int, str] | Callable[[list[int]], Any]


def explain(
    p: Any,
    q: Any,
    *,
    labels: Labels | Any | None = None,
    mask: Tensor | None = None,
    base: float | None = None,
    top: int = 8,
) -> Explanation:
    """Explain the divergence of q from p: both directions, where it comes from, how exact it is, and what looks wrong.

    KL is a sum of terms that are never negative,

    KL(p ‖ q) = Σ_x [p(x) log(p(x)/q(x)) − p(x) + q(x)],

    so that outcomes, tokens, dimensions or intervals can be ranked by what they add. Values that cannot be what the
    view says are not refused, as `kl` refuses them: they become findings, and the numbers are those of the nearest
    reading that is possible.

    Args:
        p: `Logits`, `LogProbs`, `Probs` or `Counts`; a torch Distribution; or `Samples`.
        q: The same kind of thing.
        labels: Names of the classes: a list, a dictionary, a function of a list of class numbers such as a tokenizer's
            `convert_ids_to_tokens`, or the tokenizer itself.
        mask: Boolean per row: True keeps a row.
        base: Unit of what is shown: None for nats, 2 for bits.
        top: How many terms and rows are listed.

    Returns:
        An `Explanation`: `print` it, leave it at the end of a notebook cell, call `.plot()` or `.to_dict()`, or read
        `.findings` and `.terms`.

    Example:
        >>> import torch
        >>> from kullback import Probs, explain
        >>> e = explain(Probs(torch.tensor([0.5, 0.5, 0.0])), Probs(torch.tensor([0.9, 0.05, 0.05])))
        >>> e.terms[0].label, round(e.terms[0].share, 3)
        ('1', 0.818)
        >>> wrong = explain(Probs(torch.tensor([2.0, -1.0])), Probs(torch.tensor([0.9, 0.1])))
        >>> [finding.code for finding in wrong.findings]
        ['looks-like-logits']
    """
    check_base(base)
    if not isinstance(top, int) or top < 1:
        raise InputValueError(
            explain_problem(
                "top= is how many terms are listed.", got=f"top={top!r}", expected="a whole number, at least 1"
            )
        )
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        return explain_distributions(p, q, labels=labels, base=base, top=top)
    if isinstance(p, Samples) or isinstance(q, Samples):
        return explain_samples(p, q, base=base)
    return explain_tensors(p, q, labels=labels, mask=mask, base=base, top=top)
