"""Monte Carlo KL by the path gradient (sticking the landing), for pairs without a closed form; called by users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback._core.reduction import check_mask, check_reduction
from kullback.losses.arguments import masked_rows
from kullback.losses.detached import detached, with_tensors, without_masked_gradient


def path_log_prob(q: Distribution, z: Tensor) -> Tensor:
    """The logarithm of q(z) whose gradient reaches the parameters of q through z alone.

    Example:
        >>> import torch
        >>> loc = torch.tensor(1.0, requires_grad=True)
        >>> path_log_prob(torch.distributions.Normal(loc, 1.0), torch.tensor(2.0)).requires_grad
        False
    """
    return detached(q).log_prob(z)


def path_kl(
    q: Distribution,
    p: Distribution | Callable[[Tensor], Tensor],
    *,
    num_samples: int = 1,
    samples: Tensor | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "none",
) -> Tensor:
    """A Monte Carlo estimate of KL(q || p) with the path gradient (Roeder et al. 2017, arXiv 1703.09194).

    1/K Σ_k [log q_sg(φ)(z_k) − log p(z_k)] with z_k = z_φ(ε_k): the score ∇_φ log q, whose mean is 0, is left out. The
    gradient is unbiased, and so is its derivative; its variance is 0 where q = p. The value is random: seed it with
    `torch.manual_seed`, or give the samples.

    Args:
        q: A distribution with `rsample`.
        p: A distribution, or a function that returns log p(z) per batch element, normalised or not (a log-posterior);
            then the value is the KL up to that constant.
        num_samples: K.
        samples: Reparameterised samples of q, (K, *batch, *event), instead of new ones.
        mask: Boolean per batch element.
        weight: A number per batch element.
        reduction: Over batch elements.

    Example:
        >>> import torch
        >>> from torch.distributions import Normal
        >>> loc = torch.tensor(0.5, requires_grad=True)
        >>> value = path_kl(Normal(loc, 1.0), Normal(0.5, 1.0), num_samples=3)
        >>> value.backward()
        >>> loc.grad  # q = p: every sample's gradient is 0
        tensor(0.)
    """
    check_reduction(reduction)
    if not isinstance(q, Distribution) or (samples is None and not q.has_rsample):
        raise InputTypeError(
            explain_problem(
                "A path gradient needs samples that are differentiable in the parameters of q.",
                got=type(q).__name__ + (" without rsample" if isinstance(q, Distribution) else ""),
                expected="a torch Distribution whose has_rsample is True",
                instead="kl(q, p), which sums discrete distributions exactly",
            )
        )
    if samples is None:
        if num_samples < 1:
            raise InputValueError(
                explain_problem("num_samples is a count.", got=f"num_samples={num_samples!r}", expected=">= 1")
            )
        samples = q.rsample(torch.Size([num_samples]))
    if mask is not None:
        check_mask(mask, q.batch_shape)
        q = without_masked_gradient(q, mask)
        p = without_masked_gradient(p, mask) if isinstance(p, Distribution) else p
        kept = mask.expand(q.batch_shape).reshape(*q.batch_shape, *(1,) * len(q.event_shape))
        samples = torch.where(kept, samples, samples.detach())
    if samples.dtype in (torch.bfloat16, torch.float16):
        q = with_tensors(q, _widened)
        p = with_tensors(p, _widened) if isinstance(p, Distribution) else p
        samples = samples.float()
    log_p = p.log_prob(samples) if isinstance(p, Distribution) else p(samples)
    return masked_rows((_log_q(q, samples) - log_p).mean(0), mask, weight, reduction)


def _log_q(q: Distribution, z: Tensor) -> Tensor:
    """Log q(z) with the path gradient, whose own derivative has the right expectation.

    Two ways to leave the score out agree in value and gradient: frozen parameters, and the score taken off again. Their
    second derivatives err by the Fisher matrix, with opposite signs; so their mean is taken.
    """
    frozen = path_log_prob(q, z)
    if not torch.is_grad_enabled():
        return frozen
    score = q.log_prob(z.detach())
    return (frozen + (q.log_prob(z) - (score - score.detach()))) / 2


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor
