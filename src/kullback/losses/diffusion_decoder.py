"""The first term of the bound of a diffusion model, −log p(x_0 | x_1); called by `diffusion_kl` at step 0."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kullback.special import log_ndtr_diff

Decoder = Literal["discretized", "gaussian"]
_HALF_BIN = 1 / 255  # 256 levels between −1 and 1


def decoder_loss(x_start: Tensor, mean: Tensor, log_variance: Tensor, decoder: Decoder) -> Tensor:
    """−log p(x_0 | x_1) of every dimension, for a Gaussian with this mean and variance.

    Args:
        x_start: The data.
        mean: The prediction x̂_0: at step 0 the mean of p is the prediction itself.
        log_variance: Logarithm of the variance of p.
        decoder: `"discretized"`: the probability of the bin of width 2/255 around x_0; the outermost bins reach to
            infinity. `"gaussian"`: the density.
    """
    scale = (-0.5 * log_variance).exp()
    if decoder == "gaussian":
        return 0.5 * (((x_start - mean) * scale) ** 2 + log_variance + math.log(2 * math.pi))
    low = torch.where(x_start < -0.999, -math.inf, (x_start - _HALF_BIN - mean) * scale)
    high = torch.where(x_start > 0.999, math.inf, (x_start + _HALF_BIN - mean) * scale)
    return -log_ndtr_diff(low, high)
