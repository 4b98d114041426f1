"""The public divergences of sharded vocabularies: arguments, agreement between ranks, reduction."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, KullbackError, ShapeError, explain_problem
from kullback._core.reduction import Reduction, check_base, check_mask, check_reduction, check_weight, reduce_rows
from kullback._core.validation import check_row_weights
from kullback.api.parameter import check_parameter
from kullback.kernels.f_rows import mixtures, ratios
from kullback.kernels.f_rows import renyi as renyi_formula
from kullback.kernels.f_rows.generator import Generator, sum_terms
from kullback.kernels.f_rows.pair import Pair
from kullback.parallel.local_parts import local_classes
from kullback.parallel.peers import Peers, describe_batch
from kullback.parallel.shard_rows import ShardFunction, ShardRows, Terms
from kullback.tensors.frame import check_view
from kullback.tensors.views import Counts, View


def kl(
    local_p: View,
    local_q: View,
    *,
    group: Any = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Reduction = "none",
    base: float | None = None,
    validate: bool = True,
) -> Tensor:
    """KL(p ‖ q) of rows whose classes are spread over the ranks of a group, in nats.

    Every rank calls this with its own classes and gets the same value, and the gradient to its own classes. The loss
    may be computed from the rows on every rank, or on one while the others multiply theirs by zero: all ranks then call
    `backward`, and the gradients are those of one process. Per call there are five all-reduces of at most nine numbers
    per row, and one of two numbers per row in the backward pass.

    Args:
        local_p: `Logits`, `LogProbs`, `Probs` or `Counts` of the classes that this rank holds, in the last dimension.
            Ranks may hold different numbers of classes. A `DTensor` that is sharded over its last dimension brings its
            group along.
        local_q: The same classes of q.
        group: The ranks that hold the other classes; None for the default group.
        mask: Boolean per row, the same on every rank: True keeps a row.
        weight: A number per row, the same on every rank.
        reduction: `"none"` for one value per row, `"sum"` or `"mean"` over the rows that are left (weighted).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether NaN, +inf and rows without any class are refused, on every rank at once (CPU only).

    Returns:
        The same on every rank: float64 where p or q is float64, else float32.

    Raises:
        InputTypeError: What `kullback.kl` refuses; on every rank, as all errors below.
        InputValueError: NaN, +inf, rows without classes; on this rank or another.
        ShapeError: Shapes, dtypes or functions that differ between ranks.
        UnavailableError: A rank that died or did not answer within the timeout of the group, or no group.
    """
    options = _Options(mask, weight, reduction, base, validate)
    return _divergence("kl", mixtures.skew_kl_generator(0.0), (local_p, local_q), group, options)


def js(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = ½p + ½q; arguments as for `kl`."""
    return _divergence("js", mixtures.js_generator(), (local_p, local_q), group, _Options(**options))


def js_distance(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """The square root of the Jensen-Shannon divergence; arguments as for `kl`."""
    read = _Options(**options)
    check_base(read.base)
    unit = 1.0 if read.base is None else math.log(read.base)
    return _divergence(
        "js_distance",
        mixtures.js_generator(),
        (local_p, local_q),
        group,
        read._replace(base=None),
        finish=lambda rows: ratios.root(rows / unit),
    )


def jeffreys(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """KL(p ‖ q) + KL(q ‖ p); arguments as for `kl`."""
    return _divergence("jeffreys", ratios.jeffreys_generator(), (local_p, local_q), group, _Options(**options))


def skew_kl(local_p: View, local_q: View, alpha: float, *, group: Any = None, **options: Any) -> Tensor:
    """KL(p ‖ αp + (1-α)q); arguments as for `kl`."""
    alpha = check_parameter("alpha", alpha, 1.0, "it is the share of p in the mixture, 0 for KL(p || q)")
    generator = mixtures.skew_kl_generator(alpha)
    return _divergence("skew_kl", generator, (local_p, local_q), group, _Options(**options), parameter=alpha)


def scaled_js(local_p: View, local_q: View, beta: float, *, group: Any = None, **options: Any) -> Tensor:
    """[β KL(p ‖ m) + (1-β) KL(q ‖ m)] / (β(1-β)), m = βp + (1-β)q; arguments as for `kl`."""
    beta = check_parameter("beta", beta, 1.0, "it is the weight of p, with limits KL(p || q) at 0 and KL(q || p) at 1")
    generator = mixtures.scaled_js_generator(beta)
    return _divergence("scaled_js", generator, (local_p, local_q), group, _Options(**options), parameter=beta)


def hellinger(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """√(½ Σ (√p - √q)²); arguments as for `kl`, without `base`."""
    generator = ratios.hellinger_generator()
    return _divergence("hellinger", generator, (local_p, local_q), group, _Options(**options), finish=ratios.root)


def chi2(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """Σ (p - q)²/q; arguments as for `kl`, without `base`."""
    return _divergence("chi2", ratios.chi2_generator(), (local_p, local_q), group, _Options(**options))


def total_variation(local_p: View, local_q: View, *, group: Any = None, **options: Any) -> Tensor:
    """½ Σ abs(p - q), with derivative 0 at a tie; arguments as for `kl`, without `base`."""
    return _divergence("total_variation", _total_variation, (local_p, local_q), group, _Options(**options))


def alpha_divergence(local_p: View, local_q: View, alpha: float, *, group: Any = None, **options: Any) -> Tensor:
    """(Σ p^α q^(1-α) - 1) / (α(α-1)); KL(p ‖ q) at α = 1, KL(q ‖ p) at 0; arguments as for `kl`, without `base`."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not math.isfinite(alpha):
        raise InputTypeError(
            explain_problem("alpha is a finite Python number.", got=f"alpha={alpha!r}", expected="a finite number")
        )
    sides, order = ((local_p, local_q), float(alpha)) if alpha >= 0.5 else ((local_q, local_p), 1.0 - alpha)
    generator = renyi_formula.alpha_generator(order)
    return _divergence("alpha_divergence", generator, sides, group, _Options(**options), parameter=float(alpha))


class _Options(NamedTuple):
    mask: Tensor | None = None
    weight: Tensor | float | None = None
    reduction: Reduction = "none"
    base: float | None = None
    validate: bool = True


def _divergence(
    name: str,
    terms: Generator | Terms,
    views: tuple[View, View],
    group: Any,
    options: _Options,
    *,
    parameter: float = 0.0,
    finish: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    problem: KullbackError | None = None
    p = q = torch.zeros(0, 0)
    device = next((v.tensor.device for v in views if isinstance(v, View)), torch.device("cpu"))
    batch = torch.Size()
    try:
        p, group = _shard(name, "p", views[0], group)
        q, group = _shard(name, "q", views[1], group)
        if p.shape != q.shape:
            raise ShapeError(
                explain_problem(
                    "p and q have shards of different shapes on this rank.",
                    got=f"p {tuple(p.shape)}, q {tuple(q.shape)}",
                    expected="the same rows, and the same classes on a rank",
                )
            )
        batch = p.shape[:-1]
        check_reduction(options.reduction)
        check_base(options.base)
        check_mask(options.mask, batch)
        check_weight(options.weight, batch)
        check_row_weights(options.weight, options.validate)
    except KullbackError as error:
        problem = error
    peers = Peers(group)
    keep = None if options.mask is None or problem is not None else options.mask.expand(batch).reshape(-1)
    call = {
        "function": zlib.crc32(name.encode()),
        "parameter": zlib.crc32(repr(parameter).encode()),
        **describe_batch(batch),
        "float64": int(torch.float64 in (p.dtype, q.dtype)),
        "gradient to p": int(p.requires_grad and torch.is_grad_enabled()),
        "gradient to q": int(q.requires_grad and torch.is_grad_enabled()),
        "rows in the mask": -1 if keep is None else int(keep.sum()),
    }
    peers.agree(call, problem, device)
    if isinstance(terms, Generator):
        function = ShardFunction(
            lambda pair: sum_terms(pair, terms), terms.only_p == math.inf, terms.only_q == math.inf
        )
    else:
        function = ShardFunction(terms)
    flat = [t.reshape(batch.numel(), t.shape[-1]) for t in (p, q)]
    rows: Tensor = ShardRows.apply(function, peers, keep, options.validate, *flat).reshape(batch)
    rows = rows if finish is None else finish(rows)
    return reduce_rows(rows, mask=options.mask, weight=options.weight, reduction=options.reduction, base=options.base)


def _shard(name: str, argument: str, view: object, group: Any) -> tuple[Tensor, Any]:
    """The classes of this rank as log-weights, last; and the group, if the tensor brings one."""
    checked = check_view(name, argument, view)
    tensor, dim = checked.tensor, checked.dim
    tensor, group = local_classes(tensor, dim, group)
    if not -tensor.dim() <= dim < tensor.dim():
        raise ShapeError(
            explain_problem(
                f"{argument} has no dimension {dim}.", got=f"shape {tuple(tensor.shape)}", expected="a class dimension"
            )
        )
    tensor = tensor.movedim(dim, -1)
    if not checked.encoding.linear:
        return tensor, group
    if isinstance(checked, Counts):
        tensor = tensor + checked.smoothing
    if bool((tensor < 0).any()):
        raise InputValueError(
            explain_problem(f"{argument} has a negative weight.", got=f"{float(tensor.min())}", expected="numbers >= 0")
        )
    positive = tensor > 0
    work = tensor if tensor.dtype == torch.float64 else tensor.float()
    return torch.where(positive, torch.log(torch.where(positive, work, 1.0)), -math.inf), group


def _total_variation(pair: Pair) -> Tensor:
    """½ Σ abs(p - q) of the classes of this rank."""
    shared = pair.in_p & pair.in_q
    ratio = pair.log_ratio.detach()
    larger = torch.where(ratio <= 0, pair.p, pair.q).detach()
    distance = torch.where(shared, larger * -torch.expm1(-ratio.abs()), (pair.p + pair.q).detach())
    only = (pair.in_p & ~pair.in_q).to(ratio.dtype) - (pair.in_q & ~pair.in_p).to(ratio.dtype)
    slope = torch.where(shared, torch.where(ratio.abs() <= pair.tie, 0.0, -ratio.sign()), only)
    difference = pair.p - pair.q
    return 0.5 * (distance + slope * (difference - difference.detach())).sum(-1)
