"""Exponentials and logarithms whose leading terms cancel."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels import special as kernels

# Bound once: on small tensors looking them up is felt.
_expm1mx = kernels.expm1mx.call
_log1pmx = kernels.log1pmx.call
_log1mexp = kernels.log1mexp.call
_logdiffexp = kernels.logdiffexp.call


def expm1mx(x: Tensor) -> Tensor:
    """e^x - 1 - x, without cancellation near 0.

    Domain: every real x; inf at ±inf. Accuracy: 3 ulp in float64, first derivative e^x - 1 2 ulp, second e^x 1
    ulp.

    Args:
        x: a floating-point tensor.

    Returns:
        A tensor of the same shape and dtype, never negative.

    Example:
        >>> import torch
        >>> value = expm1mx(torch.tensor(1e-10, dtype=torch.float64))
        >>> f"{value:.12e}"
        '5.000000000167e-21'
    """
    return _expm1mx(x)


def log1pmx(x: Tensor) -> Tensor:
    """log(1+x) - x, without cancellation near 0.

    Domain: x ≥ -1 (-inf at -1 and at inf), NaN below. Accuracy: 3 ulp in float64, derivatives -x/(1+x) and -1/(1+x)²
    within 4 ulp.

    Args:
        x: a floating-point tensor.

    Returns:
        A tensor of the same shape and dtype, never positive.

    Example:
        >>> import torch
        >>> value = log1pmx(torch.tensor(1e-10, dtype=torch.float64))
        >>> f"{value:.12e}"
        '-4.999999999667e-21'
    """
    return _log1pmx(x)


def log1mexp(x: Tensor) -> Tensor:
    """log(1 - e^x) for x ≤ 0: the logarithm of the complement of a probability given by its logarithm.

    Domain: x ≤ 0 (-inf at 0, 0 at -inf), NaN above. Note the sign: some texts write log(1 - e^-x) for x ≥ 0.
    Accuracy: 2 ulp in float64, derivatives 3 ulp.

    Args:
        x: a floating-point tensor of non-positive numbers.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> value = log1mexp(torch.tensor([-1e-20, -40.0], dtype=torch.float64))
        >>> [f"{v:.12e}" for v in value]
        ['-4.605170185988e+01', '-4.248354255292e-18']
    """
    return _log1mexp(x)


def logdiffexp(a: Tensor | float, b: Tensor | float) -> Tensor:
    """log(e^a - e^b) for a ≥ b, without overflow, and without cancellation for a ≈ b.

    Domain: a ≥ b (-inf at a = b < inf), NaN for a < b. `logdiffexp(a, -inf)` is a. Accuracy: 2 ulp in float64,
    relative to max(|a|, |value|), because the value crosses 0 where e^a - e^b = 1; derivatives 3 ulp.

    Args:
        a: the logarithm of the larger number; a floating-point tensor, or a float beside one.
        b: the logarithm of the smaller number; likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> a = torch.tensor(1000.0, dtype=torch.float64)
        >>> f"{logdiffexp(a, a - 1):.12f}"
        '999.541324854613'
    """
    return _logdiffexp(a, b)
