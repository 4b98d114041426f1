"""Free bits: a KL term that stops pulling below a threshold, in the four variants that are published."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, ShapeError, explain_problem
from kullback._core.reduction import check_reduction, reduce_rows
from kullback.losses.arguments import check_choice, check_no_nan, check_rows_options, check_tensor, widen


def free_bits(
    kl: Tensor,
    nats: float,
    *,
    over: Literal["dimension", "group", "sample", "batch"] = "dimension",
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
) -> Tensor:
    """The KL term with `nats` free: max(nats, KL), where `over` says of what the maximum is taken.

    With KL_bj the divergence of latent dimension (or group of dimensions) j of sample b, and B samples:

    | over          | value                              | paper                                              |
    |---------------|------------------------------------|----------------------------------------------------|
    | `"dimension"` | mean_b Σ_j max(nats, KL_bj)        | Li et al. 2019, arXiv 1909.00868                   |
    | `"group"`     | Σ_j max(nats, mean_b KL_bj)        | Kingma et al. 2016, arXiv 1606.04934, equation 15  |
    | `"sample"`    | mean_b max(nats, Σ_j KL_bj)        | Hafner et al. 2023 (Dreamer v3), arXiv 2301.04104  |
    | `"batch"`     | max(nats, mean_b Σ_j KL_bj)        | Hafner et al. 2020 (Dreamer v1), arXiv 1912.01603  |

    The gradient of max(nats, x) to x is 0 below the threshold and 1 above. At the threshold itself it is 1, so that a
    KL that rests there still feels the pull.

    Args:
        kl: (..., J): non-negative values per sample and dimension, as `gaussian_kl(...)` returns them. For `"group"`
            sum the dimensions of a group first, so that J counts groups. For values that are summed already
            (per sample) write `kl.unsqueeze(-1)`.
        nats: The threshold; for `"dimension"` and `"group"` it counts once per dimension or group.
        over: What the maximum is taken of, see the table.
        mask: Boolean per sample, shape (...): True keeps it; means are over what is kept.
        weight: A number per sample; means are weighted.
        reduction: `"mean"`: nats per sample, as in the table. `"sum"`: that times the number (or weight) of the samples
            that are kept. `"none"`: the maxima themselves, of shape (..., J) for `"dimension"`, (J,) for
            `"group"`, (...) for `"sample"` and () for `"batch"`.

    Example:
        >>> import torch
        >>> kl = torch.tensor([[0.1, 2.0], [0.5, 0.0]])
        >>> [round(float(free_bits(kl, 0.4, over=over)), 4) for over in ("dimension", "group", "sample", "batch")]
        [1.65, 1.4, 1.3, 1.3]
        >>> free_bits(kl, 0.4, over="dimension", reduction="none")
        tensor([[0.4000, 2.0000],
                [0.5000, 0.4000]])
    """
    check_choice("over", over, ("dimension", "group", "sample", "batch"))
    check_reduction(reduction)
    (kl,) = widen(check_tensor("free_bits", "kl", kl))
    if kl.dim() == 0:
        raise ShapeError(
            explain_problem(
                "free_bits() takes the KL per sample and dimension.",
                got="a kl that is reduced to one number already",
                expected="a tensor of shape (..., dimensions)",
                instead='free_bits(gaussian_kl(mean, logvar=logvar, reduction="none"), nats)',
            )
        )
    if isinstance(nats, bool) or not 0 <= nats < float("inf"):
        raise InputValueError(
            explain_problem("nats is a finite number >= 0.", got=f"nats={nats!r}", expected="a number such as 0.5")
        )
    check_rows_options(mask, weight, kl.shape[:-1])
    check_no_nan("free_bits", "kl", kl, None if mask is None else mask.unsqueeze(-1))
    samples = {"mask": mask, "weight": weight}
    if over == "sample":
        return reduce_rows(_at_least(kl.sum(-1), nats), reduction=reduction, **samples)  # type: ignore[arg-type]
    if over == "dimension":
        values = _at_least(kl, nats)
        if reduction == "none":
            return reduce_rows(values, mask=None if mask is None else mask.unsqueeze(-1), weight=_last(weight))
        return reduce_rows(values.sum(-1), reduction=reduction, **samples)  # type: ignore[arg-type]
    share, count = _shares(kl.shape[:-1], mask, weight, kl)
    mean = _weighted_mean(kl if over == "group" else kl.sum(-1, keepdim=True), share)
    values = torch.where(count > 0, _at_least(mean, nats), 0.0)
    if reduction == "none":
        return values if over == "group" else values.squeeze(-1)
    return values.sum() * count if reduction == "sum" else values.sum()


def _at_least(values: Tensor, nats: float) -> Tensor:
    return torch.where(values >= nats, values, nats)


def _last(rows: Tensor | float | None) -> Tensor | float | None:
    return rows.unsqueeze(-1) if isinstance(rows, Tensor) else rows


def _shares(
    batch: torch.Size, mask: Tensor | None, weight: Tensor | float | None, like: Tensor
) -> tuple[Tensor, Tensor]:
    """The share of every sample in a mean, and the total weight; shares are 0 where nothing is left."""
    weights = torch.as_tensor(1.0 if weight is None else weight, dtype=like.dtype, device=like.device).expand(batch)
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    total = weights.sum()
    return weights / torch.where(total > 0, total, 1.0), total


def _weighted_mean(values: Tensor, share: Tensor) -> Tensor:
    share = share.unsqueeze(-1)
    # A sample with share 0 contributes nothing, even where it holds inf or NaN.
    products = torch.where(share > 0, share * torch.where(share > 0, values, 0.0), 0.0)
    return products.reshape(-1, values.shape[-1]).sum(0)
