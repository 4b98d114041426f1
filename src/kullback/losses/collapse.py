"""Has the posterior of a VAE collapsed? KL per dimension, active units, mutual information; called by users."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem
from kullback.losses.arguments import check_tensor, widen
from kullback.losses.gaussian import gaussian_kl


class CollapseReport(NamedTuple):
    """What a diagonal Gaussian posterior says about the data; in nats, without gradient.

    Attributes:
        kl_per_dimension: Mean over data points, (latents,).
        active: Whether the posterior mean of a dimension varies over the data: Var_x E[z|x] > threshold.
        mutual_information: Estimate of I(x; z) for the data points given; it cannot exceed log N.
        aggregate_kl: Estimate of KL(q(z) || prior), where q(z) is the mixture of all N posteriors.
        stderr: Standard error of the two estimates, which share it.
    """

    kl_per_dimension: Tensor
    active: Tensor
    mutual_information: Tensor
    aggregate_kl: Tensor
    stderr: Tensor

    def __str__(self) -> str:
        active, total = int(self.active.sum()), self.active.numel()
        return (
            f"{active} of {total} units active, KL {float(self.kl_per_dimension.sum()):.3f} nats = "
            f"I(x; z) {float(self.mutual_information):.3f} + KL(q(z) || p) {float(self.aggregate_kl):.3f} "
            f"(± {float(self.stderr):.3f})"
        )


def active_units(mean: Tensor, *, threshold: float = 0.01) -> Tensor:
    """Which latent dimensions depend on the data: Var_x E[z|x] > threshold (Burda et al. 2015, arXiv 1509.00519).

    Example:
        >>> import torch
        >>> active_units(torch.tensor([[1.0, 0.01], [-1.0, -0.01]]))
        tensor([ True, False])
    """
    (mean,) = widen(check_tensor("active_units", "mean", mean))
    return mean.detach().flatten(0, -2).var(0, correction=0) > threshold


def collapse_report(
    mean: Tensor,
    *,
    logvar: Tensor | None = None,
    std: Tensor | None = None,
    var: Tensor | None = None,
    threshold: float = 0.01,
    num_samples: int = 8,
    generator: torch.Generator | None = None,
) -> CollapseReport:
    """Diagnose the posteriors N(mean, var) of N data points against the prior N(0, 1).

    E KL(q(z|x) ‖ p) = I(x; z) + KL(q(z) ‖ p) (Hoffman and Johnson 2016). The mutual information is estimated as the
    mean of log q(z|x) − log q(z) over samples, with q(z) the mixture of all N posteriors, exactly summed.

    Args:
        mean: (N, latents).
        logvar: As for `gaussian_kl`: exactly one of the three.
        std: Standard deviation.
        var: Variance.
        threshold: For `active`.
        num_samples: Samples per data point.
        generator: Source of the samples; None: a fixed seed, so that reports can be compared.

    Example:
        >>> import torch
        >>> mean = torch.tensor([[5.0, 0.0], [-5.0, 0.0]])
        >>> print(collapse_report(mean, std=torch.tensor([0.1, 1.0])))
        1 of 2 units active, KL 14.308 nats = I(x; z) 0.693 + KL(q(z) || p) 13.614 (± 0.000)
    """
    if not isinstance(mean, Tensor) or mean.dim() != 2 or mean.shape[0] == 0:
        raise ShapeError(
            explain_problem(
                "collapse_report() takes the posterior means of several data points.",
                got=f"shape {tuple(mean.shape)}" if isinstance(mean, Tensor) else type(mean).__name__,
                expected="mean of shape (N, latents)",
            )
        )
    with torch.no_grad():
        kl = gaussian_kl(mean, logvar=logvar, std=std, var=var)
        if logvar is not None:
            std = (0.5 * logvar.to(kl.dtype)).exp()
        elif var is not None:
            std = var.to(kl.dtype).sqrt()
        assert std is not None
        mean, std = mean.to(kl.dtype), std.to(kl.dtype).expand(kl.shape)
        generator = torch.Generator(mean.device).manual_seed(0) if generator is None else generator
        gains = []
        for _ in range(num_samples):
            z = mean + std * torch.randn(mean.shape, generator=generator, dtype=mean.dtype, device=mean.device)
            own = _log_prob(z, mean, std)
            gains.append(own - torch.stack([_log_mixture(row, mean, std) for row in z]))
        gain = torch.stack(gains).mean(0)
        information = gain.mean()
        stderr = gain.std(correction=0) / math.sqrt(len(gain))
        per_dimension = kl.mean(0)
        return CollapseReport(
            per_dimension,
            active_units(mean, threshold=threshold),
            information,
            per_dimension.sum() - information,
            stderr,
        )


def _log_mixture(z: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    each = _log_prob(z, mean, std)
    return torch.logsumexp(each, 0) - math.log(len(mean))


def _log_prob(z: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return (-0.5 * ((z - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
