"""A divergence Σ p f(q/p) of rows whose classes are spread over ranks, and its gradient; called by `divergences`.

Each rank goes through its classes four times, and numbers per row are combined over ranks in between:

    1. the largest log-weight of p and of q                                               (max, 2 numbers per row)
    2. the sums of the weights, relative to the largest                                   (sum, 2)
    3. Σ (q - p), by which D = log Σq - log Σp is corrected, and classes of one side only (sum, 3)
    4. the terms p f(q/p) and, for the gradient, sums of slopes and weights               (sum, 9)

With d = log q/p = u - D, u the difference of the log-weights as they are given, every term is quadratic in d, so
nothing cancels where p ≈ q. With g_i the derivative of the terms to log p_i, as if p were not normalised, the gradient
to a log-weight is g_i - p_i Σ g. Where one class h has nearly all of the probability, that is the difference of two
nearly equal numbers for h. The slopes are therefore taken relative to h: with c = g_h / p_h and r_i = g_i - p_i c, the
gradient is r_i - p_i Σ r, in which r_h is 0. After step 4 it needs no other rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.special._double_double import two_difference
from kullback.kernels.f_rows.pair import Pair
from kullback.parallel.peers import Peers

Terms = Callable[[Pair], Tensor]
_BLOCK_ELEMENTS = {"cpu": 1 << 18}
_ACCELERATOR_BLOCK_ELEMENTS = 1 << 24


class ShardFunction(NamedTuple):
    """A divergence as a sum over classes.

    Attributes:
        terms: From the classes of this rank to their sum per row, differentiable.
        infinite_p: Whether a class of p alone makes the row infinite.
        infinite_q: Whether a class of q alone does.
    """

    terms: Terms
    infinite_p: bool = False
    infinite_q: bool = False


class Statistics(NamedTuple):
    """Numbers per row that every rank knows, shape (rows, 1) each."""

    top_p: Tensor
    log_total_p: Tensor
    top_q: Tensor
    log_total_q: Tensor
    correction: Tensor


class ShardRows(torch.autograd.Function):
    """One value per row, the same on every rank; gradients to the classes of this rank."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd hands over by position
        ctx: Any, function: ShardFunction, peers: Peers, keep: Tensor | None, validate: bool, p: Tensor, q: Tensor
    ) -> Tensor:
        """The value of every row."""
        work = torch.float64 if p.is_cpu or torch.float64 in (p.dtype, q.dtype) else torch.float32
        run = _Run(function, peers, keep, work)
        statistics, infinite = run.statistics(p, q, validate)
        sums = run.term_sums(p, q, statistics, any(ctx.needs_input_grad[4:]))
        result = torch.float64 if torch.float64 in (p.dtype, q.dtype) else torch.float32
        rows = torch.where(infinite, math.inf, sums[:, 0]).to(result)
        infinite = rows == math.inf  # also where the sum is beyond the largest number
        ctx.run, ctx.statistics, ctx.infinite = run, statistics, infinite
        ctx.save_for_backward(p, q, sums)
        return rows if keep is None else torch.where(keep, rows, 0.0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients to this rank's shards."""
        p, q, sums = ctx.saved_tensors
        run: _Run = ctx.run
        grad = shared_gradient(grad, run.peers).to(run.work)
        finite = ~ctx.infinite if run.keep is None else run.keep & ~ctx.infinite
        found = run.gradients(p, q, ctx.statistics, sums, grad, finite, ctx.needs_input_grad[4:])
        return (None, None, None, None, *found)


def shared_gradient(grad: Tensor, peers: Peers) -> Tensor:
    """The gradient of the loss to the replicated rows.

    Where every rank has the loss, every rank has the same gradient; where one has it, or each has some of the rows, the
    others hold zeros. In both cases it is the number of largest size over the ranks, and never their sum, which
    would be as many times too large as there are ranks.
    """
    found = peers.max(torch.stack([grad, -grad]))
    return torch.where(found[0] >= found[1], found[0], -found[1])


def replicated_gradient(grad: Tensor, group: Any) -> Tensor:
    """`shared_gradient` of a group; first derivatives only."""
    if torch.is_grad_enabled():
        raise InputValueError(
            explain_problem(
                "The loss of a sharded vocabulary has first derivatives only.",
                got="backward with create_graph=True",
                expected="create_graph=False",
            )
        )
    return shared_gradient(grad, Peers(group))


def row_parts(rows: Tensor) -> Iterator[slice]:
    """Rows that are worked on at a time."""
    limit = _BLOCK_ELEMENTS.get(rows.device.type, _ACCELERATOR_BLOCK_ELEMENTS)
    step = max(1, limit // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        yield slice(start, start + step)


class _Run(NamedTuple):
    function: ShardFunction
    peers: Peers
    keep: Tensor | None
    work: torch.dtype

    def blocks(self, p: Tensor, q: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        for part in row_parts(p):
            a, b = p[part].detach().to(self.work), q[part].detach().to(self.work)
            if self.keep is not None:
                keep = self.keep[part].unsqueeze(-1)
                a, b = torch.where(keep, a, 0.0), torch.where(keep, b, 0.0)
            yield part, a, b

    def statistics(self, p: Tensor, q: Tensor, validate: bool) -> tuple[Statistics, Tensor]:
        tops = torch.full((p.shape[0], 2), -math.inf, dtype=self.work, device=p.device)
        if p.shape[1] > 0:
            for part, a, b in self.blocks(p, q):
                # +inf stands for NaN, which a maximum over ranks may lose.
                tops[part] = torch.stack([t.amax(-1).nan_to_num(math.inf, math.inf, -math.inf) for t in (a, b)], -1)
        self.peers.max(tops)
        if validate and p.is_cpu:
            _check_tops(tops)
        tops = torch.where(tops.isfinite(), tops, 0.0)
        top_p, top_q = tops[:, :1], tops[:, 1:]
        totals = torch.zeros_like(tops)
        for part, a, b in self.blocks(p, q):
            totals[part, 0] = torch.exp(a - top_p[part]).sum(-1)
            totals[part, 1] = torch.exp(b - top_q[part]).sum(-1)
        log_totals = torch.log(self.peers.sum(totals))
        zero = torch.zeros_like(top_p)
        first = Statistics(top_p, log_totals[:, :1], top_q, log_totals[:, 1:], zero)
        counts = torch.zeros(p.shape[0], 3, dtype=self.work, device=p.device)
        for part, a, b in self.blocks(p, q):
            pair = _local_pair(a, b, _part_of(first, part))
            shared, d = pair.in_p & pair.in_q, pair.log_ratio
            excess = torch.where(d > 0, pair.q, -pair.p) * -torch.expm1(-d.abs())
            alone = torch.where(pair.in_p, -pair.p, pair.q)
            counts[part, 0] = torch.where(shared, excess, alone).sum(-1)
            counts[part, 1] = (pair.in_p & ~pair.in_q).sum(-1).to(self.work)
            counts[part, 2] = (pair.in_q & ~pair.in_p).sum(-1).to(self.work)
        self.peers.sum(counts)
        infinite = torch.zeros(p.shape[0], dtype=torch.bool, device=p.device)
        if self.function.infinite_p:
            infinite |= counts[:, 1] > 0
        if self.function.infinite_q:
            infinite |= counts[:, 2] > 0
        return first._replace(correction=torch.log1p(counts[:, :1])), infinite

    def term_sums(self, p: Tensor, q: Tensor, statistics: Statistics, recorded: bool) -> Tensor:
        """The terms; and for p, then for q, what `_centred` needs."""
        sums = torch.zeros(p.shape[0], 9 if recorded else 1, dtype=self.work, device=p.device)
        for part, a, b in self.blocks(p, q):
            here = _part_of(statistics, part)
            pair = _local_pair(a, b, here)
            if recorded:
                sums[part, 0], to_p, to_q = self.slopes(pair)
                sums[part, 1:5] = _slope_sums(to_p, pair.p, a == here.top_p)
                sums[part, 5:] = _slope_sums(to_q, pair.q, b == here.top_q)
            else:
                sums[part, 0] = self.function.terms(pair)
        return self.peers.sum(sums)

    def slopes(self, pair: Pair) -> tuple[Tensor, Tensor, Tensor]:
        """The terms of this rank and their derivatives to log p and log q, as if these were independent."""
        with torch.enable_grad():
            s_p, s_q = (torch.zeros_like(pair.p).requires_grad_() for _ in range(2))
            shared = pair.in_p & pair.in_q
            moved = pair._replace(
                p=pair.p * torch.exp(s_p),
                q=pair.q * torch.exp(s_q),
                log_p=pair.log_p + s_p,
                log_q=pair.log_q + s_q,
                log_ratio=torch.where(shared, pair.log_ratio + s_q - s_p, 0.0),
            )
            rows = self.function.terms(moved)
        to_p, to_q = torch.autograd.grad(rows, (s_p, s_q), torch.ones_like(rows), materialize_grads=True)
        return rows.detach(), torch.where(pair.in_p, to_p, 0.0), torch.where(pair.in_q, to_q, 0.0)

    def gradients(  # noqa: PLR0917 - called once
        self,
        p: Tensor,
        q: Tensor,
        statistics: Statistics,
        sums: Tensor,
        grad: Tensor,
        finite: Tensor,
        needs: tuple[bool, ...],
    ) -> list[Tensor | None]:
        found = [torch.empty_like(t) if need else None for t, need in zip((p, q), needs, strict=True)]
        for part, a, b in self.blocks(p, q):
            here = _part_of(statistics, part)
            pair = _local_pair(a, b, here)
            _, to_p, to_q = self.slopes(pair)
            sides = (
                (to_p, pair.p, a == here.top_p, here.log_total_p, sums[part, 1:5]),
                (to_q, pair.q, b == here.top_q, here.log_total_q, sums[part, 5:]),
            )
            for out, side in zip(found, sides, strict=True):
                if out is not None:
                    local = _centred(*side)
                    local = torch.where(finite[part].unsqueeze(-1), grad[part].unsqueeze(-1) * local, 0.0)
                    out[part] = local.to(out.dtype)
        return found


def _slope_sums(slope: Tensor, probs: Tensor, heaviest: Tensor) -> Tensor:
    """Slopes of the heaviest class, and how many classes it is (more than one at a tie); slopes and weights of others.

    Shape (rows, 4), to be summed over ranks.
    """
    other = ~heaviest
    return torch.stack(
        [
            (slope * heaviest).sum(-1),
            heaviest.sum(-1).to(slope.dtype),
            (slope * other).sum(-1),
            (probs * other).sum(-1),
        ],
        -1,
    )


def _centred(slope: Tensor, probs: Tensor, heaviest: Tensor, log_total: Tensor, totals: Tensor) -> Tensor:
    """The gradient to the log-weights of this rank, from the sums of `_slope_sums` over all ranks."""
    at_top, number, at_others, others = totals.unsqueeze(-1).unbind(1)
    reference = at_top / number * torch.exp(log_total)
    relative = torch.where(heaviest & (number == 1), 0.0, slope - probs * reference)
    return relative - probs * (at_others - others * reference)


def _part_of(statistics: Statistics, part: slice) -> Statistics:
    return Statistics(*(t[part] for t in statistics))


def _local_pair(a: Tensor, b: Tensor, s: Statistics) -> Pair:
    in_p, in_q = a != -math.inf, b != -math.inf
    shared = in_p & in_q
    log_p = torch.where(in_p, (a - s.top_p) - s.log_total_p, 0.0)
    log_q = torch.where(in_q, (b - s.top_q) - s.log_total_q, 0.0)
    p, q = torch.where(in_p, log_p.exp(), 0.0), torch.where(in_q, log_q.exp(), 0.0)
    high, low = two_difference(torch.where(shared, b, 0.0), torch.where(shared, a, 0.0))
    gap, gap_low = two_difference(s.top_q, s.top_p)
    d = (high - gap) + ((low - gap_low) - (s.log_total_q - s.log_total_p) - s.correction)
    d = torch.where(shared, d, 0.0)
    tie = 64 * torch.finfo(a.dtype).eps * torch.maximum(s.top_p.abs(), s.top_q.abs()).clamp(min=1.0)
    nothing = torch.zeros((), dtype=a.dtype, device=a.device)
    return Pair(p, q, log_p, log_q, d, (nothing, nothing), in_p, in_q, 0.0, 0.0, tie)


def _check_tops(tops: Tensor) -> None:
    """The same numbers on every rank, so that every rank raises."""
    for side, name in enumerate(("p", "q")):
        top = tops[:, side]
        for bad, what, expected in (
            (top == math.inf, "NaN or +inf", "finite numbers, or -inf outside the support"),
            (top == -math.inf, "no class with any probability on any rank", "at least one class above -inf"),
        ):
            if bool(bad.any()):
                row = int(bad.nonzero()[0])
                raise InputValueError(
                    explain_problem(
                        f"Row {row} of {name} cannot be a distribution.",
                        got=what,
                        expected=expected,
                        instead="mask= with False leaves a row out",
                    )
                )
