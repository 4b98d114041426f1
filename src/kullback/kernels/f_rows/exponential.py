"""e^x - 1 for x <= 0 with a derivative as accurate as the value."""

from __future__ import annotations

import torch
from torch import Tensor


def expm1(x: Tensor) -> Tensor:
    """`torch.expm1`, whose own derivative is computed as result + 1 and has lost e^x where that is small."""
    near = x > -0.5
    return torch.where(near, torch.expm1(torch.where(near, x, 0.0)), torch.exp(x) - 1)
