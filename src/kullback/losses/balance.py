"""KL balancing between a posterior and a learned prior, as Dreamer v2 and v3 do it."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.reduction import check_reduction, reduce_rows
from kullback.api.kl import kl
from kullback.losses.arguments import check_choice, check_rows_options
from kullback.losses.detached import detached


def kl_balance(
    posterior: Any,
    prior: Any,
    *,
    variant: Literal["dreamer_v2", "dreamer_v3"] = "dreamer_v3",
    balance: float = 0.8,
    dynamics: float = 1.0,
    representation: float = 0.1,
    free_nats: float | None = None,
    event_dims: int = 0,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
) -> Tensor:
    """KL(posterior || prior) whose gradients to the two sides have different sizes.

    With dyn = KL(sg(posterior) ‖ prior), which trains the prior, and rep = KL(posterior ‖ sg(prior)), which regularises
    the posterior (both have the value of KL(posterior ‖ prior)):

    - `"dreamer_v2"` (Hafner et al. 2021, arXiv 2010.02193): α max(free, mean dyn) + (1 − α) max(free, mean rep), with
      α = `balance` = 0.8 and no free nats. The maximum is of the mean over the batch.
    - `"dreamer_v3"` (Hafner et al. 2023, arXiv 2301.04104): dynamics · max(free, dyn) + representation ·
      max(free, rep), with 1 free nat. The maximum is of each sample's KL, before the mean.
      (The first version of the paper has dynamics = 0.5.)

    The gradient at the threshold is that above it, as in `free_bits`.

    Args:
        posterior: A Distribution or a view, any that `kl` takes.
        prior: Likewise; the pair must be one that `kl` answers.
        variant: See above.
        balance: α of v2.
        dynamics: Factor of dyn in v3.
        representation: Factor of rep in v3.
        free_nats: Threshold; None: 0 for v2, 1 for v3.
        event_dims: How many trailing batch dimensions of the KL belong to one sample and are summed first: 1 for a
            (batch, latents) set of Categoricals.
        mask: Boolean per sample: True keeps it.
        weight: A number per sample.
        reduction: Over samples. `"none"` is for v3, and for v2 without free nats.

    Example:
        >>> import torch
        >>> from kullback import Logits
        >>> posterior = torch.tensor([[2.0, 0.0]], requires_grad=True)
        >>> prior = torch.tensor([[0.0, 1.0]], requires_grad=True)
        >>> loss = kl_balance(Logits(posterior), Logits(prior), variant="dreamer_v2")
        >>> loss.backward()
        >>> posterior.grad, prior.grad
        (tensor([[ 0.0630, -0.0630]]), tensor([[-0.4895,  0.4895]]))
    """
    check_choice("variant", variant, ("dreamer_v2", "dreamer_v3"))
    check_reduction(reduction)
    free = float({"dreamer_v2": 0.0, "dreamer_v3": 1.0}[variant] if free_nats is None else free_nats)
    # A view is not looked at where the mask leaves it out; the mask has the shape of the KL before its sum.
    wide = mask if mask is None else mask.reshape(*mask.shape, *(1,) * event_dims)
    rows = [kl(detached(posterior), prior, mask=wide), kl(posterior, detached(prior), mask=wide)]
    if not 0 <= event_dims <= rows[0].dim():
        raise InputValueError(
            explain_problem(
                "event_dims counts trailing batch dimensions of the KL.",
                got=f"event_dims={event_dims!r} for a KL of shape {tuple(rows[0].shape)}",
                expected=f"a number from 0 to {rows[0].dim()}",
            )
        )
    if event_dims:
        rows = [row.sum(tuple(range(-event_dims, 0))) for row in rows]
    check_rows_options(mask, weight, rows[0].shape)
    if variant == "dreamer_v3":
        dyn, rep = (torch.where(row >= free, row, free) for row in rows)
        return reduce_rows(dynamics * dyn + representation * rep, mask=mask, weight=weight, reduction=reduction)
    if free == 0:
        mixed = balance * rows[0] + (1 - balance) * rows[1]
        return reduce_rows(mixed, mask=mask, weight=weight, reduction=reduction)
    if reduction != "mean":
        raise InputValueError(
            explain_problem(
                "Dreamer v2 takes the maximum with the free nats after the mean over the batch.",
                got=f"reduction={reduction!r}, free_nats={free}",
                expected='reduction="mean"',
                instead='variant="dreamer_v3" for a maximum per sample',
            )
        )
    dyn, rep = (reduce_rows(row, mask=mask, weight=weight, reduction="mean") for row in rows)
    return balance * torch.where(dyn >= free, dyn, free) + (1 - balance) * torch.where(rep >= free, rep, free)
