"""Make the class counts of two views agree."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.tensors.frame import check_view
from kullback.tensors.views import Counts, Logits, LogProbs, Probs, View


def align(p: View, q: View, *, how: Literal["pad", "truncate"] = "pad") -> tuple[View, View]:
    """Two views of one vocabulary whose class counts differ (151936 against 152064: padding), made to agree.

    Classes are matched by position: the extra ones are those at the end of the larger.

    Args:
        p: A view.
        q: Another.
        how: `"pad"` gives the smaller view the missing classes with probability zero (never a logit of 0, which would
            be real mass): KL(p || q) is then infinite if p has mass there. `"truncate"` drops the extra classes of
            the larger, whose remaining probabilities are normalised again: `Probs` become `Counts`, `LogProbs` become
            `Logits`.

    Returns:
        The two views, in order. A view that already fits is returned as it is.

    Example:
        >>> import torch
        >>> from kullback import Logits, align, kl
        >>> p, q = align(Logits(torch.zeros(3)), Logits(torch.zeros(4)), how="pad")
        >>> p.tensor
        tensor([0., 0., 0., -inf])
        >>> kl(p, q)
        tensor(0.2877)
    """
    p, q = check_view("align", "p", p), check_view("align", "q", q)
    if how not in ("pad", "truncate"):
        raise InputValueError(
            explain_problem("Unknown way to align.", got=f"how={how!r}", expected="'pad' or 'truncate'")
        )
    k_p, k_q = p.tensor.shape[p.dim], q.tensor.shape[q.dim]
    if how == "pad":
        size = max(k_p, k_q)
        return _padded(p, size), _padded(q, size)
    size = min(k_p, k_q)
    return _truncated(p, size), _truncated(q, size)


def _padded(view: View, size: int) -> View:
    missing = size - view.tensor.shape[view.dim]
    if missing == 0:
        return view
    shape = list(view.tensor.shape)
    shape[view.dim] = missing
    if isinstance(view, Counts) and view.smoothing > 0:
        # A class outside the vocabulary is not smoothed: smooth first, then pad with nothing.
        view = Counts(view.tensor + view.smoothing, view.dim)
    nothing: Tensor = view.tensor.new_full(shape, 0.0 if view.encoding.linear else -torch.inf)
    return view.with_tensor(torch.cat([view.tensor, nothing], view.dim))


def _truncated(view: View, size: int) -> View:
    if view.tensor.shape[view.dim] == size:
        return view
    kept = view.tensor.narrow(view.dim, 0, size)
    if isinstance(view, Probs):
        return Counts(kept, view.dim)
    if isinstance(view, LogProbs):
        return Logits(kept, view.dim)
    return view.with_tensor(kept)
