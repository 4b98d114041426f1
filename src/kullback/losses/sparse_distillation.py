"""Distillation from a teacher of which a few classes per token are known: `topk_distillation` and its helpers."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.reduction import Reduction
from kullback._core.validation import check_rows
from kullback.kernels.levels import is_batch_of_gradients, tracer_active, transform_active
from kullback.losses.row_divergence import DivergenceName, RowDivergence, choose_divergence
from kullback.losses.sparse_arguments import Tail, check_ids, check_sparse, check_tail
from kullback.losses.token_reduction import TokenReduction, check_temperature
from kullback.losses.token_settings import check_logits
from kullback.parallel.local_parts import local_classes
from kullback.parallel.peers import Peers, checked_together
from kullback.tensors.frame import values_hidden

_CHUNK_ELEMENTS = 1 << 21


class SparseTeacher(NamedTuple):
    """A few classes of every token of a teacher.

    Attributes:
        log_probs: Shape (..., k): log-probabilities of these classes in the whole vocabulary, -inf in empty slots.
        ids: Shape (..., k): the classes, -1 in empty slots.
        log_tail: Shape (...): the logarithm of the probability of all other classes.
    """

    log_probs: Tensor
    ids: Tensor
    log_tail: Tensor


class KLBounds(NamedTuple):
    """Numbers between which KL(teacher ‖ student) of the whole vocabulary lies, one of each per token."""

    lower: Tensor
    upper: Tensor


class _Arguments(NamedTuple):
    chosen: RowDivergence
    reduce: TokenReduction
    keep: Tensor | None
    temperature: float
    description: str


def topk_teacher(teacher_logits: Tensor, k: int, *, temperature: float = 1.0) -> SparseTeacher:
    """The k most probable classes of every token, with the exact mass of the others.

    Example:
        >>> import torch
        >>> from kullback.losses import topk_teacher
        >>> found = topk_teacher(torch.tensor([[2.0, 0.0, 1.0, -1.0]]), 2)
        >>> found.ids, found.log_tail.exp()
        (tensor([[0, 2]]), tensor([0.1192]))
    """
    check_logits("teacher_logits", teacher_logits)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= teacher_logits.shape[-1]:
        raise InputValueError(
            explain_problem("k is a number of classes.", got=f"k={k!r}", expected=f"1 to {teacher_logits.shape[-1]}")
        )
    work = _wide(teacher_logits.detach()) / check_temperature(temperature)
    ids = work.topk(k, -1).indices
    grouped = _coarse(work, ids)
    log_probs = grouped.log_softmax(-1)
    return SparseTeacher(log_probs[..., :-1], ids, log_probs[..., -1])


def sample_teacher(
    teacher_logits: Tensor, draws: int, *, temperature: float = 1.0, generator: torch.Generator | None = None
) -> SparseTeacher:
    """Independent draws from the teacher, for `topk_distillation(tail="sampled")`; a class may come twice.

    Example:
        >>> import torch
        >>> from kullback.losses import sample_teacher
        >>> sample_teacher(torch.tensor([[0.0, 100.0]]), 3).ids
        tensor([[1, 1, 1]])
    """
    check_logits("teacher_logits", teacher_logits)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise InputValueError(explain_problem("draws is a number.", got=f"draws={draws!r}", expected="at least 1"))
    log_probs = (_wide(teacher_logits.detach()) / check_temperature(temperature)).log_softmax(-1)
    flat = log_probs.exp().reshape(-1, log_probs.shape[-1])
    ids = torch.multinomial(flat, draws, replacement=True, generator=generator)
    ids = ids.reshape(*log_probs.shape[:-1], draws)
    return SparseTeacher(log_probs.gather(-1, ids), ids, log_probs.new_full(log_probs.shape[:-1], -math.inf))


def topk_distillation(
    student_logits: Tensor,
    teacher_log_probs: Tensor,
    teacher_ids: Tensor,
    *,
    log_tail: Tensor | None = None,
    tail: Tail = "bucket",
    divergence: DivergenceName = "forward",
    temperature: float = 1.0,
    t_squared: bool = False,
    beta: float | None = None,
    alpha: float | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    denominator: Tensor | float | None = None,
    reduction: Reduction = "mean",
    group: Any = None,
) -> Tensor:
    """Distillation from the k classes of every token that were stored of a teacher.

    | `tail=`         | what is computed                                                                             |
    |-----------------|----------------------------------------------------------------------------------------------|
    | `"bucket"`      | all other classes are one class of both sides: a divergence, at most that of the vocabulary  |
    | `"renormalize"` | both sides are normalised on the k classes: a divergence, neither above nor below the full   |
    | `"drop"`        | the other terms are left out: **not a divergence**, it can be negative and its minimum is not |
    |                 | at the teacher; forward and reverse only                                                      |
    | `"sampled"`     | the ids are independent draws from the teacher: mean of log p - log q, whose expectation and |
    |                 | gradient's expectation are those of KL(p ‖ q); forward only, a single draw can be negative   |

    Args:
        student_logits: Shape (..., vocabulary).
        teacher_log_probs: Shape (..., k), log-probabilities in the whole vocabulary, recorded at `temperature`; -inf in
            empty slots.
        teacher_ids: Shape (..., k), class indices; -1 in empty slots.
        log_tail: Shape (...), the logarithm of the teacher's probability of all other classes. Without it that is
            log(1 - Σ p), which has lost digits where the k classes have nearly everything.
        tail: What stands for the other classes.
        divergence: As for `distillation`.
        temperature: The one at which the teacher was recorded; divides the student's logits. Stored log-probabilities
            cannot be brought to another temperature, since the other classes would change too.
        t_squared: Multiply by T².
        beta: Of `"scaled_js"` and `"gkd"`.
        alpha: Of `"skew"`, `"skew_reverse"` and `"alpha"`.
        mask: Boolean per token: True keeps it.
        weight: A number per token.
        denominator: What the sum is divided by instead of the number of tokens that are left.
        reduction: `"mean"`, `"sum"` or `"none"`.
        group: A `torch.distributed` group whose ranks hold the student's vocabulary in shards: `student_logits` are
            then those of this rank's classes, everything else is the same on every rank, and ids count the classes of
            all ranks in their order. Not with `tail="sampled"`.

    Example:
        >>> import torch
        >>> from kullback.losses import distillation, topk_distillation, topk_teacher
        >>> generator = torch.Generator().manual_seed(0)
        >>> student, teacher = torch.randn(2, 5, 100, generator=generator)
        >>> for k in (5, 50, 100):
        ...     stored = topk_teacher(teacher, k)
        ...     print(topk_distillation(student, stored.log_probs, stored.ids, log_tail=stored.log_tail))
        tensor(0.5814)
        tensor(1.0552)
        tensor(1.1549)
        >>> distillation(student, teacher)
        tensor(1.1549)
    """
    student, group = local_classes(student_logits, -1, group)
    log_p, ids, sampled = teacher_log_probs, teacher_ids, tail == "sampled"

    def read() -> _Arguments:
        check_tail(tail, divergence, group)
        chosen = choose_divergence(divergence, beta, alpha)
        batch = check_sparse(student, log_p, ids, log_tail, repeats=sampled, group=group, mask=mask)
        reduce = TokenReduction(mask, weight, denominator, reduction)
        reduce.check(batch)
        keep = None if mask is None else mask.expand(batch)
        text = f"{divergence!r}, {tail!r}, {beta}, {alpha}, {temperature}, {reduction!r}, ids {tuple(ids.shape)}"
        return _Arguments(chosen, reduce, keep, check_temperature(temperature), text)

    given = read() if group is None else checked_together(read, group, getattr(student, "device", None))
    chosen, keep, temperature = given.chosen, given.keep, given.temperature
    # Ids are the same on every rank, so every rank raises.
    classes = student.shape[-1] if group is None else sum(Peers(group).sizes(student.shape[-1], student.device))
    check_ids(ids, classes, keep, repeats=sampled)
    log_p = _wide(log_p.detach())
    if keep is not None:
        student = torch.where(keep.unsqueeze(-1), student, 0.0)
        log_p = torch.where(keep.unsqueeze(-1), log_p, -math.log(log_p.shape[-1] + 1))
        ids = torch.where(keep.unsqueeze(-1), ids, 0)
    log_p = torch.where(ids < 0, -math.inf, log_p)
    if sampled:
        log_q = _picked(_wide(student) / temperature, ids) - torch.logsumexp(_wide(student) / temperature, -1, True)
        _check_student(log_q, student, keep)
        rows = (log_p - log_q).mean(-1)
    else:
        grouped = coarse_logits(student, ids, temperature, group)
        if group is None:
            _check_student(grouped, student, keep)
        if tail == "bucket":
            other = _log_rest(log_p, log_tail, keep)
            rows = chosen.rows(grouped, torch.cat([log_p, other.unsqueeze(-1)], -1), keep)
        elif tail == "renormalize":
            rows = chosen.rows(grouped[..., :-1], log_p, keep)
        else:
            log_q = grouped.log_softmax(-1)[..., :-1]
            first, second = (log_p, log_q) if divergence == "forward" else (log_q, log_p)
            shared = ids >= 0
            terms = torch.where(shared, first, 0.0).exp() * (torch.where(shared, first - second, 0.0))
            rows = torch.where(shared, terms, 0.0).sum(-1)
    rows = rows.float() if student_logits.dtype != torch.float64 else rows
    return given.reduce.apply(rows * temperature**2 if t_squared else rows)


def topk_kl_bounds(
    student_logits: Tensor,
    teacher_log_probs: Tensor,
    teacher_ids: Tensor,
    *,
    log_tail: Tensor | None = None,
    temperature: float = 1.0,
) -> KLBounds:
    """Bounds of KL(teacher ‖ student) over the whole vocabulary, from the teacher's most probable classes.

    The lower one is `topk_distillation(tail="bucket")`. The upper one holds because no other class of the teacher is
    more probable than the least of those given, and none of the student's is less probable than its least:

        KL <= Σ_top p log p/q + p_rest · (log min(p_k, p_rest) - min_rest log q).

    Example:
        >>> import torch
        >>> from kullback.losses import distillation, topk_kl_bounds, topk_teacher
        >>> student, teacher = torch.tensor([[0.0, 0.1, 0.2, 0.3]]), torch.tensor([[3.0, 1.0, 0.0, 0.5]])
        >>> found = topk_kl_bounds(student, *topk_teacher(teacher, 2)[:2])
        >>> bool(found.lower <= distillation(student, teacher) <= found.upper)
        True
    """
    temperature = check_temperature(temperature)
    batch = check_sparse(student_logits, teacher_log_probs, teacher_ids, log_tail, repeats=False)
    check_ids(teacher_ids, student_logits.shape[-1], None, repeats=False)
    log_p = torch.where(teacher_ids < 0, -math.inf, _wide(teacher_log_probs.detach()).double())
    rest = _log_rest(log_p, log_tail, None)
    student = _wide(student_logits.detach()).double() / temperature
    lower = topk_distillation(student, log_p, teacher_ids, log_tail=rest, temperature=1.0, reduction="none")
    slots = teacher_ids >= 0
    others = _without(student, teacher_ids, math.inf)
    least_log_q = others.amin(-1) - torch.logsumexp(student, -1)
    least_log_p = torch.where(slots, log_p, math.inf).amin(-1)
    log_q = student.log_softmax(-1).gather(-1, teacher_ids.clamp(min=0))
    finite = slots & (log_p > -math.inf)
    head = torch.where(finite, log_p.exp() * (torch.where(finite, log_p, 0.0) - torch.where(finite, log_q, 0.0)), 0.0)
    gap = torch.minimum(least_log_p, rest) - least_log_q
    tail = torch.where(rest == -math.inf, 0.0, rest.exp() * torch.where(rest == -math.inf, 0.0, gap))
    upper = torch.maximum(head.sum(-1) + tail, lower)
    return KLBounds(lower.reshape(batch).to(_kept(student_logits)), upper.reshape(batch).to(_kept(student_logits)))


def _check_student(found: Tensor, student: Tensor, keep: Tensor | None) -> None:
    """Refuse logits that are NaN or +inf, which show in the few numbers per token that were found from them."""
    if values_hidden() or not found.is_cpu:
        return
    if bool((found.detach().isnan() | (found.detach() == math.inf)).any()):
        check_rows(student, "Logits", "student_logits", True, keep=keep)


def _kept(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def coarse_logits(logits: Tensor, ids: Tensor, temperature: float, group: Any = None) -> Tensor:
    """Logits of k classes and of all others together: softmax of these k + 1 numbers sums the other probabilities."""
    if group is not None:
        from kullback.parallel.shard_classes import shard_coarse_logits

        return shard_coarse_logits(logits, ids, temperature, group)
    work = _wide(logits)
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        return _coarse(work / temperature, ids)
    batch = logits.shape[:-1]
    flat = _Coarse.apply(logits.reshape(-1, logits.shape[-1]), ids.reshape(-1, ids.shape[-1]), temperature)
    found: Tensor = flat.reshape(*batch, ids.shape[-1] + 1)
    return found


def _coarse(work: Tensor, ids: Tensor) -> Tensor:
    rest = torch.logsumexp(_without(work, ids, -math.inf), -1, keepdim=True)
    return torch.cat([_picked(work, ids), rest], -1)


def _picked(work: Tensor, ids: Tensor) -> Tensor:
    return torch.where(ids < 0, -math.inf, work.gather(-1, ids.clamp(min=0)))


def _without(work: Tensor, ids: Tensor, value: float) -> Tensor:
    """The logits with another number in place of the classes given; empty slots are sent to the end and cut off."""
    size = work.shape[-1]
    wider = torch.cat([work, work.new_zeros(*work.shape[:-1], 1)], -1)
    index = torch.where(ids < 0, size, ids)
    return wider.scatter(-1, index, value)[..., :size]


class _Coarse(torch.autograd.Function):
    """In chunks of rows; saves the logits, the ids and the result."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, ids: Tensor, temperature: float) -> Tensor:
        out = torch.empty(logits.shape[0], ids.shape[1] + 1, dtype=_kept(logits), device=logits.device)
        for part in _parts(logits):
            out[part] = _coarse(_wide(logits[part]) / temperature, ids[part])
        ctx.save_for_backward(logits, ids)
        ctx.temperature = temperature
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:
        logits, ids = ctx.saved_tensors
        if torch.is_grad_enabled() or transform_active() or tracer_active() or is_batch_of_gradients(grad):
            recorded = torch.is_grad_enabled()
            with torch.enable_grad():
                out = _coarse(_wide(logits) / ctx.temperature, ids)
            return torch.autograd.grad(out, logits, grad, create_graph=recorded)[0], None, None
        found = torch.empty_like(logits)
        for part in _parts(logits):
            index, g = ids[part], grad[part]
            rest = _without(_wide(logits[part]) / ctx.temperature, index, -math.inf)
            # A row without other classes has no gradient through them.
            share = torch.softmax(torch.where((rest > -math.inf).any(-1, True), rest, 0.0), -1)
            share = torch.where(rest > -math.inf, share, 0.0) * g[:, -1:]
            wider = torch.cat([share, share.new_zeros(share.shape[0], 1)], -1)
            slots = torch.where(index < 0, share.shape[-1], index)
            found[part] = (wider.scatter(-1, slots, g[:, :-1])[:, :-1] / ctx.temperature).to(logits.dtype)
        return found, None, None


def _parts(logits: Tensor) -> list[slice]:
    step = max(1, _CHUNK_ELEMENTS // logits.shape[-1])
    return [slice(start, start + step) for start in range(0, logits.shape[0], step)]


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _log_rest(log_p: Tensor, log_tail: Tensor | None, keep: Tensor | None) -> Tensor:
    """The logarithm of the teacher's mass elsewhere, as given or log(1 - Σ p)."""
    if log_tail is not None:
        rest = log_tail.detach().to(log_p.dtype)
    else:
        total = torch.logsumexp(log_p.double(), -1)
        # Below this the mass is the rounding of the log-probabilities that were summed.
        inside = total < -4 * torch.finfo(torch.float64).eps
        safe = torch.where(inside, total, -1.0)
        rest = torch.where(inside, torch.log(-torch.expm1(safe)), -math.inf).to(log_p.dtype)
    return rest if keep is None else torch.where(keep, rest, 0.0)
