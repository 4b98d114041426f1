"""Modified Bessel functions of the first kind, as logarithms and ratios."""

from __future__ import annotations

from torch import Tensor

from kullback.kernels import special as kernels

# Bound once: on small tensors looking them up is felt.
_log_iv = kernels.log_iv.call
_log_ive = kernels.log_ive.call
_bessel_ratio = kernels.bessel_ratio.call


def log_iv(nu: Tensor | float, x: Tensor | float) -> Tensor:
    """The logarithm of I_ν(x), the modified Bessel function of the first kind.

    Domain: ν ≥ 0 (tested to 1e4), x ≥ 0; at x = 0 it is 0 for ν = 0 and -inf otherwise, inf at inf, NaN elsewhere.
    Accuracy: 4 ulp of max(|value|, ν), which matters where the value crosses 0; first derivative in x 4 ulp, second
    4 ulp of max(|second|, ν/x²). An order that requires a gradient is refused; under forward mode its derivative is
    infinite.

    Args:
        nu: the order; a floating-point tensor, or a number beside one.
        x: the argument; likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> f"{log_iv(10000.0, torch.tensor(5.0, dtype=torch.float64)):.8f}"
        '-72946.01989314'
    """
    return _log_iv(nu, x)


def log_ive(nu: Tensor | float, x: Tensor | float) -> Tensor:
    """log(e^-x·I_ν(x)), the exponentially scaled companion of `log_iv`.

    Domain as for `log_iv`, and -inf at x = inf. Accuracy: 4 ulp of max(|value|, ν); the first derivative in x, which
    tends to -1/(2x), to 4 ulp of 1/x for x ≥ ν²/2 + 50 and to 4 ulp of 1 below; second derivative as for `log_iv`.

    Args:
        nu: the order; a floating-point tensor, or a number beside one.
        x: the argument; likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> f"{log_ive(0.0, torch.tensor(1e15, dtype=torch.float64)):.11f}"
        '-18.18832673066'
    """
    return _log_ive(nu, x)


def bessel_ratio(nu: Tensor | float, x: Tensor | float) -> Tensor:
    """I_ν₊₁(x)/I_ν(x), the mean resultant length of a von Mises-Fisher distribution.

    Domain: ν ≥ 0 (tested to 1e4), x ≥ 0; 0 at 0, 1 at inf, NaN elsewhere. Accuracy: 4 ulp, also of the first and the
    second derivative. The order has no derivative, as for `log_iv`.

    Args:
        nu: the order; a floating-point tensor, or a number beside one.
        x: the argument; likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> f"{bessel_ratio(0.5, torch.tensor(2.0, dtype=torch.float64)):.14f}"  # coth(2) - 1/2
        '0.53731472072755'
    """
    return _bessel_ratio(nu, x)
