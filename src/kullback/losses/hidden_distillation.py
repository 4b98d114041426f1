"""Distillation from hidden states and head weights, without the logits of either model: `linear_distillation`.

Tokens are taken in chunks. The logits of a chunk exist for as long as its loss and its gradient are computed, by the
kernels that `distillation` calls. Where the loss is one number the gradients are found in the forward pass, so that the
products with the weights are computed once; where it is one number per token, the backward pass computes them again.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, ShapeError, explain_problem
from kullback._core.reduction import Reduction
from kullback.kernels.levels import tracer_active, transform_active
from kullback.losses.head import Head, check_head, each_model
from kullback.losses.head_chunks import Chunks, Details, ReducedLoss, TokenLosses, token_losses, whole_logits
from kullback.losses.row_divergence import DivergenceName
from kullback.losses.token_settings import TokenSettings, token_settings
from kullback.losses.vocabularies import shared_classes, warn_about_mass
from kullback.parallel.local_parts import local_classes, local_copy
from kullback.parallel.peers import Peers, checked_together

# Each chunk reads and writes the gradient of the weight once: with fewer tokens that costs more than the products.
CHUNK_TOKENS = 256
_MASS_TOKENS = 64  # whose logits of all classes are computed to see whether truncated classes are in use


class LinearDistillation(NamedTuple):
    """What `linear_distillation` gives with `details=True`; everything but the loss is without history.

    Attributes:
        loss: The loss.
        divergence: The divergence of every token, before masks, weights and labels; 0 where the mask is False.
        student_entropy: Of every token's student distribution at the temperature of the loss, in nats.
        teacher_entropy: The same of the teacher.
    """

    loss: Tensor
    divergence: Tensor
    student_entropy: Tensor
    teacher_entropy: Tensor


def linear_distillation(
    student_hidden: Tensor,
    student_weight: Tensor,
    teacher_hidden: Tensor,
    teacher_weight: Tensor,
    *,
    student_bias: Tensor | None = None,
    teacher_bias: Tensor | None = None,
    logit_softcap: float | tuple[float | None, float | None] | None = None,
    logit_scale: float | tuple[float | None, float | None] | None = None,
    divergence: DivergenceName = "forward",
    temperature: float = 1.0,
    t_squared: bool = False,
    beta: float | None = None,
    alpha: float | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    denominator: Tensor | float | None = None,
    reduction: Reduction = "mean",
    labels: Tensor | None = None,
    label_weight: float | None = None,
    align: Literal["truncate"] | None = None,
    teacher_gradient: bool = False,
    chunk_tokens: int = CHUNK_TOKENS,
    details: bool = False,
    group: Any = None,
) -> Any:
    """`distillation` of logits that never exist as a whole: hidden states and head weights in, loss out.

    The logits of each model are c tanh(s (h Wᵀ + b) / c), with the scale s and the soft cap c left out where they are
    None. Gradients go to the student's hidden states, weight and bias. Temporary memory is that of the logits of one
    chunk of tokens. Half precision is multiplied and accumulated in float32 on CPU; on other devices the products are
    those of the device in the dtype given, and the rest is computed from them in float32 or better.

    The gradients are computed in the forward pass. Second derivatives, `vmap`, `torch.func` and `torch.compile` work by
    forming the logits whole.

    Args:
        student_hidden: Shape (..., features): what the student's head is applied to.
        student_weight: Shape (vocabulary, features), as `torch.nn.Linear` keeps it.
        teacher_hidden: Shape (..., features of the teacher).
        teacher_weight: Shape (vocabulary, features of the teacher).
        student_bias: Shape (vocabulary,).
        teacher_bias: Shape (vocabulary,).
        logit_softcap: c, for both models or a pair (student, teacher).
        logit_scale: s, for both models or a pair (student, teacher).
        divergence: As for `distillation`, and so are the others.
        temperature: Divides the logits of both models.
        t_squared: Multiply the divergence by T².
        beta: Of `"scaled_js"` and `"gkd"`.
        alpha: Of `"skew"`, `"skew_reverse"` and `"alpha"`.
        mask: Boolean per token: True keeps it.
        weight: A number per token that multiplies it.
        denominator: What the sum is divided by instead of the number of tokens that are left.
        reduction: `"mean"`, `"sum"` or `"none"`. With `"none"` the backward pass computes the logits again.
        labels: Class indices per token, -100 for none.
        label_weight: The share of the cross-entropy with the labels.
        align: `"truncate"` drops the classes that only one vocabulary has.
        teacher_gradient: Whether gradients go to the teacher's tensors too.
        chunk_tokens: How many tokens are in a chunk: time against temporary memory.
        details: Also return the divergence and both entropies of every token, from the same pass.
        group: A `torch.distributed` group whose ranks hold the weights and biases in shards, the same classes of both
            models on a rank: hidden states and labels are then the same on every rank, and so are the loss and the
            gradient to the hidden states, which is summed over the ranks here. Weights that are a `DTensor` sharded
            over their rows bring their group along. Not with `align` or `details`.

    Returns:
        The loss, or a `LinearDistillation` with `details`.

    Example:
        >>> import torch
        >>> from kullback.losses import linear_distillation
        >>> hidden = torch.tensor([[1.0, 2.0], [0.5, -1.0]], requires_grad=True)
        >>> weight = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], requires_grad=True)
        >>> linear_distillation(hidden, weight, hidden.detach(), weight.detach())
        tensor(0., grad_fn=<ReducedLossBackward>)
        >>> linear_distillation(hidden, weight, torch.zeros(2, 2), weight.detach(), reduction="none")
        tensor([0.3090, 0.1991], grad_fn=<ViewBackward0>)
    """
    student_weight, group = local_classes(student_weight, 0, group)
    teacher_weight, group = local_classes(teacher_weight, 0, group)
    tensors = {
        "student": (local_copy("student_hidden", student_hidden), student_weight, _local_bias(student_bias)),
        "teacher": (local_copy("teacher_hidden", teacher_hidden), teacher_weight, _local_bias(teacher_bias)),
    }

    def read() -> _Arguments:
        for name, given in tensors.items():
            check_head(name, *given, group)
        batch = tensors["student"][0].shape[:-1]
        if tensors["teacher"][0].shape[:-1] != batch:
            raise ShapeError(
                explain_problem(
                    "Student and teacher have different tokens.",
                    got=f"student_hidden {tuple(student_hidden.shape)}, teacher_hidden {tuple(teacher_hidden.shape)}",
                    expected="the same shape but for the features",
                )
            )
        settings = token_settings(
            batch,
            divergence=divergence,
            temperature=temperature,
            t_squared=t_squared,
            beta=beta,
            alpha=alpha,
            mask=mask,
            weight=weight,
            denominator=denominator,
            reduction=reduction,
            labels=labels,
            label_weight=label_weight,
            group=group,
        )
        if group is not None:
            _refuse_details(details)
        classes = shared_classes(student_weight.shape[0], teacher_weight.shape[0], align, group)
        softcaps, scales = each_model("logit_softcap", logit_softcap), each_model("logit_scale", logit_scale)
        heads = []
        for (hidden, rows, bias), softcap, scale in zip(tensors.values(), softcaps, scales, strict=True):
            heads.append(Head(hidden.reshape(batch.numel(), hidden.shape[-1]), rows, bias, softcap, scale))
        if not teacher_gradient:
            heads[1] = heads[1].with_tensors(*(None if t is None else t.detach() for t in heads[1].tensors))  # type: ignore[arg-type]
        return _Arguments(heads[0], heads[1], classes, _check_chunk(chunk_tokens), settings)

    given = read() if group is None else checked_together(read, group, getattr(student_hidden, "device", None))
    settings = given.settings
    settings.check_label_range(given.classes, given.student.hidden.device)
    keep = None if settings.keep is None else settings.keep.reshape(-1)
    heads = [head if keep is None else _without_masked(head, keep) for head in (given.student, given.teacher)]
    if group is not None:
        _check_same_hidden(heads, group)
    for name, head in zip(tensors, heads, strict=True):
        if head.weight.shape[0] > given.classes:
            _look_at_dropped(name, head, given.classes)
    chunks = Chunks(
        settings.loss,
        heads[0].truncated(given.classes),
        heads[1].truncated(given.classes),
        keep,
        None if settings.labels is None else settings.labels.reshape(-1),
        given.chunk,
    )
    with torch.autocast(given.student.hidden.device.type, enabled=False):
        return _linear_loss(chunks, settings, details)


class _Arguments(NamedTuple):
    student: Head
    teacher: Head
    classes: int
    chunk: int
    settings: TokenSettings

    @property
    def description(self) -> str:
        """What must be the same on every rank: it decides which all-reduces are made."""
        gradients = [t is not None and t.requires_grad for head in self[:2] for t in head.tensors]
        return f"{self.settings.description}, chunk_tokens={self.chunk}, gradients {gradients}"


def _linear_loss(chunks: Chunks, settings: TokenSettings, details: bool) -> Any:
    reduce, batch = settings.reduce, settings.batch
    tensors = (*chunks.student.tensors, *chunks.teacher.tensors)
    log = Details(chunks) if details else None
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        _, rows = chunks.rows_of(slice(None), *whole_logits(chunks))
        loss = reduce.apply(rows.to(chunks.dtype).reshape(batch))
        if log is not None:
            log.fill(slice(None), rows.detach(), *(t.detach() for t in whole_logits(chunks)))
    elif reduce.reduction == "none":
        loss = reduce.apply(TokenLosses.apply(chunks, log, *tensors).reshape(batch))
    elif torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        loss = ReducedLoss.apply(chunks, reduce, batch, log, *tensors)
    else:
        loss = reduce.apply(token_losses(chunks, log).reshape(batch))
    if log is None:
        return loss
    return LinearDistillation(loss, *(rows.reshape(batch) for rows in log.rows))


def _refuse_details(details: bool) -> None:
    if details:
        raise InputValueError(
            explain_problem(
                "Entropies of a sharded vocabulary are not computed.",
                got="details=True together with group=",
                expected="details=False",
                instead='reduction="none" for the loss of every token',
            )
        )


def _local_bias(bias: Tensor | None) -> Tensor | None:
    return None if bias is None else local_classes(bias, 0, None)[0]


def _check_same_hidden(heads: list[Head], group: Any) -> None:
    """Refuse hidden states that differ between ranks: sums over their classes would mix different tokens."""
    mine = torch.stack([head.hidden.detach().double().square().sum().sqrt() for head in heads])
    found = Peers(group).max(torch.stack([mine, -mine]))
    largest, smallest = found[0], -found[1]
    if bool((largest - smallest > 1e-2 * largest).any()):
        raise ShapeError(
            explain_problem(
                "The ranks have different hidden states, but each holds some classes of one vocabulary.",
                got=f"hidden states of norm {smallest.tolist()} to {largest.tolist()} over the ranks",
                expected="the same tokens on every rank of the group",
                instead="under FSDP call the loss inside the forward pass of the wrapped module, where the weight "
                "of the head is whole, without group=",
            )
        )


def _look_at_dropped(name: str, head: Head, shared: int) -> None:
    few = slice(0, _MASS_TOKENS)
    with torch.no_grad():
        warn_about_mass(name, head.logits(head.products(few)), shared)


def _without_masked(head: Head, keep: Tensor) -> Head:
    """A zero gradient times a hidden state that is NaN would be NaN in the gradient of the weight."""
    return head._replace(hidden=torch.where(keep.unsqueeze(-1), head.hidden, 0.0))


def _check_chunk(chunk_tokens: object) -> int:
    if isinstance(chunk_tokens, bool) or not isinstance(chunk_tokens, int) or chunk_tokens < 1:
        raise ShapeError(
            explain_problem(
                "A chunk has at least one token.", got=f"chunk_tokens={chunk_tokens!r}", expected="an integer >= 1"
            )
        )
    return chunk_tokens
