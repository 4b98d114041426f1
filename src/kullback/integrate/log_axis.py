"""∫₀^∞ f(t) dt/t by the trapezoid rule in log t.

For the integrands of log-gamma expectations, analytic in the right half-plane and decaying at both ends, the rule
converges geometrically: with step h the error is of order exp(−π²/h), 1e-17 at h = 0.25.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def integrate_log_axis(f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The integral and an estimate of its error, the difference from the rule with every other node.

    Args:
        f: The integrand of t; the nodes are the last dimension.
        low: Below e^low the integrand contributes nothing; one per batch element.
        high: Likewise above e^high.
        count: Number of intervals, even.
    """
    low, high = low.detach(), high.detach()
    step = (high - low) / count
    index = torch.arange(count + 1, dtype=low.dtype, device=low.device)
    values = f(torch.exp(low.unsqueeze(-1) + step.unsqueeze(-1) * index))
    fine = step * values.sum(-1)
    coarse = 2 * step * values[..., ::2].sum(-1)
    return fine, (fine - coarse).detach().abs()


def broadcast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in their common shape."""
    return tuple(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]
