"""The KL term of a VAE, forward and backward, against the expression that VAEs usually write."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from benchmarks.registry import case

SIZES = {"4096 x 512": (4096, 512), "256 x 32": (256, 32)}


def _inputs(size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(size, generator=generator).requires_grad_() for _ in range(2))  # type: ignore[return-value]


@case("gaussian-kl-backward", group="losses", sizes=SIZES, rtol=1e-5, floor=1e-6)
def gaussian_kl_backward(size: tuple[int, int]) -> Any:
    """KL of diagonal Gaussians to N(0, 1), mean over samples, with both gradients; float32."""
    return _inputs(size)


def _with_gradients(value: Tensor, inputs: tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    return (value.detach(), *torch.autograd.grad(value, inputs))


@gaussian_kl_backward.truth
def _(inputs: tuple[Tensor, Tensor]) -> Any:
    mean, logvar = (x.detach().double() for x in inputs)
    rows = len(mean)
    value = 0.5 * (mean**2 + torch.expm1(logvar) - logvar).sum(-1).mean()
    return value, mean / rows, torch.expm1(logvar) / (2 * rows)


@gaussian_kl_backward.contender("kullback", needs=("kullback.losses:gaussian_kl",))
def _(inputs: tuple[Tensor, Tensor]) -> Any:
    from kullback.losses import gaussian_kl

    return _with_gradients(gaussian_kl(inputs[0], logvar=inputs[1], reduction="mean"), inputs)


@gaussian_kl_backward.contender("usual expression")
def _(inputs: tuple[Tensor, Tensor]) -> Any:
    mean, logvar = inputs
    return _with_gradients((-0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum(-1)).mean(), inputs)


@gaussian_kl_backward.contender("torch.distributions")
def _(inputs: tuple[Tensor, Tensor]) -> Any:
    from torch.distributions import Normal, kl_divergence

    mean, logvar = inputs
    posterior = Normal(mean, (0.5 * logvar).exp(), validate_args=False)
    return _with_gradients(kl_divergence(posterior, Normal(0.0, 1.0, validate_args=False)).sum(-1).mean(), inputs)
