"""Logarithms of normal probabilities."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels import special as kernels

# Bound once: on small tensors looking them up is felt.
_log_ndtr = kernels.log_ndtr.call
_log_ndtr_diff = kernels.log_ndtr_diff.call


def log_ndtr(x: Tensor) -> Tensor:
    """The logarithm of the standard normal distribution function Φ, in both tails.

    Domain: every real x; -inf at -inf, 0 at inf. Accuracy: 4 ulp, also of the tiny values at large positive x;
    so are both derivatives.

    Args:
        x: a floating-point tensor.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> [f"{v:.12e}" for v in log_ndtr(torch.tensor([-40.0, 20.0], dtype=torch.float64))]
        ['-8.046084420138e+02', '-2.753624118606e-89']
    """
    return _log_ndtr(x)


def log_ndtr_diff(a: Tensor | float, b: Tensor | float) -> Tensor:
    """log(Φ(b) - Φ(a)), the log-probability of a standard normal between a and b.

    Domain: a ≤ b, infinite ends included; -inf at a = b, NaN for a > b. Accuracy: 4 ulp in both tails, for narrow and
    wide intervals; first and second derivatives 4 ulp.

    Args:
        a: the lower end; a floating-point tensor, or a float beside one.
        b: the upper end; likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> f"{log_ndtr_diff(torch.tensor(30.0, dtype=torch.float64), 31.0):.11f}"
        '-454.32124395634'
    """
    return _log_ndtr_diff(a, b)
