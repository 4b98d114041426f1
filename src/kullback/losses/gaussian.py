"""KL between diagonal Gaussians, as a VAE uses it; called by users, by the diffusion bound and by the diagnostics.

With the offset d = (mean − prior_mean) / prior_std and the log-ratio t = log(var / prior_var) of one dimension,

    KL = ½ (d² + eᵗ − 1 − t),

two terms of which neither is negative: nothing cancels where the posterior meets the prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from kullback._core import special as reference
from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.reduction import reduce_rows
from kullback._core.shapes import joint_shape
from kullback.kernels.elementwise import kernel
from kullback.kernels.face import Op
from kullback.losses.arguments import check_choice, check_no_nan, check_rows_options, check_tensor, widen
from kullback.tensors.frame import values_hidden


def gaussian_kl(
    mean: Tensor,
    *,
    logvar: Tensor | None = None,
    std: Tensor | None = None,
    var: Tensor | None = None,
    prior_mean: Tensor | float = 0.0,
    prior_std: Tensor | float = 1.0,
    dim: int | tuple[int, ...] = -1,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sample", "sum", "mean"] = "none",
    base: float | None = None,
) -> Tensor:
    """KL(N(mean, var) || N(prior_mean, prior_std²)) of diagonal Gaussians, in nats.

    KL = ½ Σ_j (d_j² + e^{t_j} − 1 − t_j) with d = (mean − prior_mean) / prior_std and t = log(var / prior_std²).
    Never negative, exactly 0 where both are equal, accurate for t near 0, infinite (with gradient 0) for a variance
    of 0 or infinity.

    Args:
        mean: Posterior means, for example (batch, latents).
        logvar: Logarithm of the variance. Give exactly one of `logvar`, `std` and `var`.
        std: Standard deviation.
        var: Variance.
        prior_mean: Number, or a tensor that broadcasts to the posterior.
        prior_std: Standard deviation of the prior, likewise.
        dim: The dimension (or dimensions) that one sample's latents fill: `(-3, -2, -1)` for feature maps.
        mask: Boolean per sample: True keeps it.
        weight: A number per sample.
        reduction: `"none"` for one value per latent dimension, `"sample"` for the sum over `dim` of each sample,
            `"sum"` and `"mean"` over samples. `"mean"` never divides by the number of latents.
        base: 2 for bits; None for nats.

    Returns:
        float64 where an argument is float64, else float32.

    Example:
        >>> import torch
        >>> mean, logvar = torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
        >>> gaussian_kl(mean, logvar=logvar)
        tensor([[0.5000, 0.3591],
                [0.0000, 0.0000]])
        >>> gaussian_kl(mean, logvar=logvar, reduction="sample")
        tensor([0.8591, 0.0000])
        >>> gaussian_kl(mean, std=(0.5 * logvar).exp(), reduction="mean")
        tensor(0.4296)
    """
    check_choice("reduction", reduction, ("none", "sample", "sum", "mean"))
    name, spread = _only_spread(logvar, std, var)
    mean, spread = _fit(mean, name, spread, prior_mean, prior_std)
    dims = _check_dims(dim, mean.shape)
    latents, last = len(dims), tuple(range(-len(dims), 0))
    check_rows_options(mask, weight, torch.Size(size for d, size in enumerate(mean.shape) if d not in dims))
    if mask is not None:
        # Whatever a sample that is left out holds is replaced before anything looks at it.
        keep = mask.expand([size for d, size in enumerate(mean.shape) if d not in dims])
        for d in dims:
            keep = keep.unsqueeze(d)
        mean, spread = torch.where(keep, mean, 0.0), torch.where(keep, spread, 1.0)
    offset, log_ratio = _standardize(mean, name, spread, prior_mean, prior_std)
    offset, log_ratio = offset.movedim(dims, last), log_ratio.movedim(dims, last)
    if reduction == "none":
        values = standard_gaussian_kl(offset, log_ratio, 0)
        _explain_nan(values, {"mean": mean, name: spread})
        each = {"mask": _per_element(mask, latents), "weight": _per_element(weight, latents)}
        return reduce_rows(values, base=base, **each).movedim(last, dims)  # type: ignore[arg-type]
    rows = standard_gaussian_kl(offset, log_ratio, latents)
    _explain_nan(rows, {"mean": mean, name: spread})
    return reduce_rows(
        rows, mask=mask, weight=weight, reduction="none" if reduction == "sample" else reduction, base=base
    )


def standard_gaussian_kl(offset: Tensor, log_ratio: Tensor, latents: int) -> Tensor:
    """½ (offset² + e^log_ratio − 1 − log_ratio), summed over the last `latents` dimensions.

    Elements whose value is infinite get gradient 0, as everywhere in this library: their slopes may be infinite too.
    """
    values: Tensor = _gaussian_kl_op(offset, log_ratio, latents)
    if not values_hidden() and not bool(values.detach().isinf().any()):
        return values
    with torch.no_grad():
        infinite = _gaussian_kl_op(offset, log_ratio, 0).isinf()
    finite: Tensor = _gaussian_kl_op(torch.where(infinite, 0.0, offset), torch.where(infinite, 0.0, log_ratio), latents)
    return torch.where(infinite.sum(tuple(range(-latents, 0))) > 0 if latents else infinite, math.inf, finite)


def _fit(
    mean: Tensor, name: str, spread: Tensor, prior_mean: Tensor | float, prior_std: Tensor | float
) -> tuple[Tensor, Tensor]:
    """Mean and spread in one dtype and in the shape of the result."""
    check_tensor("gaussian_kl", "mean", mean)
    check_tensor("gaussian_kl", name, spread)
    priors = {"prior_mean": prior_mean, "prior_std": prior_std}
    tensors = {"mean": mean, name: spread, **{k: x for k, x in priors.items() if isinstance(x, Tensor)}}
    mean, spread, *_ = widen(*tensors.values())
    try:
        shape = joint_shape(*(x.shape for x in tensors.values()))
    except RuntimeError as error:
        raise ShapeError(
            explain_problem(
                f"mean, {name} and the prior do not fit together.",
                got=", ".join(f"{k} of shape {tuple(x.shape)}" for k, x in tensors.items()),
                expected="shapes that broadcast, usually (batch, latents)",
            )
        ) from error
    return mean.expand(shape), spread.expand(shape)


def _standardize(
    mean: Tensor, name: str, spread: Tensor, prior_mean: Tensor | float, prior_std: Tensor | float
) -> tuple[Tensor, Tensor]:
    """(mean − prior_mean) / prior_std and log(var / prior_std²)."""
    _check_positive("prior_std", prior_std, allow_zero=False)
    if name != "logvar":
        _check_positive(name, spread, allow_zero=True)
    if isinstance(prior_mean, Tensor) or prior_mean != 0:
        mean = mean - prior_mean
    standard = not isinstance(prior_std, Tensor) and prior_std == 1
    if not standard:
        mean = mean / prior_std
    if name == "logvar" and standard:
        return mean, spread
    scale = torch.as_tensor(prior_std, dtype=spread.dtype, device=spread.device)
    if name == "logvar":
        return mean, spread - 2 * scale.log()
    return mean, 2 * _log_ratio(spread, scale) if name == "std" else _log_ratio(spread, scale * scale)


def _only_spread(logvar: Tensor | None, std: Tensor | None, var: Tensor | None) -> tuple[str, Tensor]:
    given = {name: x for name, x in (("logvar", logvar), ("std", std), ("var", var)) if x is not None}
    if len(given) != 1:
        raise InputTypeError(
            explain_problem(
                "gaussian_kl() takes exactly one of logvar, std and var.",
                got=", ".join(given) or "none of them",
                expected="what the network's output means, by name",
                instead="gaussian_kl(mean, logvar=h) for h = log σ², std=h.exp() if the network returns log σ",
            )
        )
    return next(iter(given.items()))


def _check_positive(name: str, value: Tensor | float, *, allow_zero: bool) -> None:
    if isinstance(value, Tensor):
        if values_hidden() or value.device.type != "cpu":
            return
        wrong = value.detach()[(value < 0) if allow_zero else ~(value > 0)]
        found = float(wrong.flatten()[0]) if wrong.numel() else None
    else:
        found = None if value > 0 else float(value)
    if found is not None:
        raise InputValueError(
            explain_problem(
                f"{name} is not positive.",
                got=f"{name} holds {found:.6g}",
                expected=f"{name} {'>= 0' if allow_zero else '> 0'}",
                instead="logvar= if the network's output is the logarithm of the variance",
            )
        )


def _explain_nan(values: Tensor, arguments: dict[str, Tensor]) -> None:
    """Refuse NaN in an argument. The results are looked at first: there are fewer of them."""
    if values_hidden() or values.device.type != "cpu" or not bool(values.detach().isnan().any()):
        return
    for name, argument in arguments.items():
        check_no_nan("gaussian_kl", name, argument)


def _log_ratio(x: Tensor, y: Tensor) -> Tensor:
    """log(x / y) for x ≥ 0 < y; x − y is exact where they are close, so nearly equal scales keep their digits."""
    positive = x > 0
    x = torch.where(positive, x, 1.0)
    change = (x - y) / y
    near = change.abs() < 0.5
    logs = torch.where(near, torch.log1p(torch.where(near, change, 0.0)), torch.log(x) - torch.log(y))
    return torch.where(positive, logs, -math.inf)


def _check_dims(dim: int | tuple[int, ...], shape: torch.Size) -> tuple[int, ...]:
    """The latent dimensions, counted from the front and in order; a scalar has none."""
    rank = len(shape)
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    if rank == 0:
        return ()
    if any(not -rank <= d < rank for d in given) or len({d % rank for d in given}) != len(given):
        raise ShapeError(
            explain_problem(
                "dim names dimensions of one sample's latents.",
                got=f"dim={dim!r} for a posterior of shape {tuple(shape)}",
                expected=f"different dimensions between {-rank} and {rank - 1}",
            )
        )
    return tuple(sorted(d % rank for d in given))


def _per_element(rows: Tensor | float | None, latents: int) -> Tensor | float | None:
    return rows.reshape(rows.shape + (1,) * latents) if isinstance(rows, Tensor) else rows


_CHUNK_ELEMENTS = 1 << 17
_value, _grad_offset, _grad_log_ratio = (kernel(n) for n in ("gaussian_kl", "gaussian_kl_grad_offset", "expm1mx_grad"))


def _sum_last(values: Tensor, latents: int) -> Tensor:
    return values.sum(tuple(range(-latents, 0))) if latents else values


def _reference(offset: Tensor, log_ratio: Tensor, latents: int) -> Tensor:
    return _sum_last(offset * offset + reference.expm1mx(log_ratio), latents) * 0.5


def _native(offset: Tensor, log_ratio: Tensor, latents: int) -> Tensor:
    rows = offset.shape[: offset.dim() - latents].numel()
    per_row = offset.numel() // max(rows, 1)
    if latents == 0 or offset.numel() <= _CHUNK_ELEMENTS or offset.dim() == latents:
        return _sum_last(_value(offset, log_ratio), latents)
    # Summed chunk by chunk, the values of single elements never leave the cache and need no memory of their own.
    size = max(1, _CHUNK_ELEMENTS * offset.shape[0] // max(rows * per_row, 1))
    parts = zip(torch.split(offset, size), torch.split(log_ratio, size), strict=True)
    return torch.cat([_sum_last(_value(a, b), latents) for a, b in parts])


def _backward(
    grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool], latents: int
) -> list[Tensor | None]:
    offset, log_ratio = saved
    grad = grads[0].reshape(grads[0].shape + (1,) * latents)
    return [
        _grad_offset(grad, offset) if needs[0] else None,
        _grad_log_ratio(grad * 0.5, log_ratio) if needs[1] else None,
    ]


def _fake(offset: Tensor, log_ratio: Tensor, latents: int) -> Tensor:
    del log_ratio
    return offset.new_empty(offset.shape[: offset.dim() - latents])


_gaussian_kl_op = Op(
    "gaussian_kl",
    "(Tensor offset, Tensor log_ratio, int latents) -> Tensor",
    reference=_reference,
    native=_native,
    backward=_backward,
    fake=_fake,
)
