"""The gamma family: digamma, trigamma, Binet's remainder and the Bregman divergences of log Γ."""

from __future__ import annotations

from torch import Tensor

from kullback._core import special as reference
from kullback.kernels import special as kernels
from kullback.kernels.arguments import two, whole

# Bound once: on small tensors looking them up is felt.
_digamma = kernels.digamma.call
_trigamma = kernels.trigamma.call
_lgamma_bregman = kernels.lgamma_bregman.call
_binet_bregman = kernels.binet_bregman.call


def digamma(x: Tensor) -> Tensor:
    """ψ(x), the derivative of log Γ, accurate at its root 1.4616… and twice differentiable.

    Domain: every real x; ∓inf at ±0, NaN at the negative integers. Accuracy: 4 ulp for x > 0, at the root too; for
    x < 0 4 ulp of 1 + π·|cot(πx)|, whose terms cancel at the roots. Derivatives 4 ulp, the second one
    for x < 0 of the terms that cancel at its zeros.

    Args:
        x: a floating-point tensor.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> f"{digamma(torch.tensor(1.4616321449683622, dtype=torch.float64)):.10e}"
        '-9.2412655217e-17'
    """
    return _digamma(x)


def trigamma(x: Tensor) -> Tensor:
    """The second derivative of log Γ.

    `torch.polygamma(1, x)` carries an error of 5e-10; this is accurate to 4 ulp, and so are its two derivatives, the
    first for x < 0 of the terms that cancel at its zeros.

    Domain: every real x; inf at 0, -1, -2, ….

    Args:
        x: a floating-point tensor.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> f"{trigamma(torch.tensor(1.0, dtype=torch.float64)):.14f}"  # π²/6
        '1.64493406684823'
    """
    return _trigamma(x)


def lgamma_bregman(a: Tensor | float, b: Tensor | float) -> Tensor:
    """lgamma(b) - lgamma(a) - (b - a)·digamma(a), never negative, without cancellation.

    The Bregman divergence of log Γ: KL(Gamma(a, r) ‖ Gamma(b, r)), and the building block of the Beta, Dirichlet and
    Wishart divergences.

    Domain: a, b > 0; inf for one argument 0 or inf and the other inside, NaN for both at one end or a negative one.
    Accuracy: 4 ulp at any ratio, for a ≈ b down to neighbouring floats, and at scales from 1e-30 to 1e15. First
    derivatives 3 ulp; second 4 ulp, the one in a relative to trigamma(a).

    Args:
        a: a floating-point tensor, or a float beside one.
        b: likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> a = torch.tensor(3.0, dtype=torch.float64)
        >>> f"{lgamma_bregman(a, a + 2.0**-30):.12e}"
        '1.712753492854e-19'
    """
    return _lgamma_bregman(a, b)


def multivariate_lgamma_bregman(a: Tensor | float, b: Tensor | float, dimension: int) -> Tensor:
    """The Bregman divergence of the multivariate log Γ_d: the sum of lgamma_bregman(a - j/2, b - j/2) over j < d.

    Domain: a, b > (d-1)/2; the conventions at its ends, and the accuracy, are those of `lgamma_bregman`.

    Args:
        a: a floating-point tensor, or a float beside one.
        b: likewise.
        dimension: d ≥ 1.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> a = torch.tensor([4.0, 5.0], dtype=torch.float64)
        >>> [f"{v:.12f}" for v in multivariate_lgamma_bregman(a, 4.5, 3)]
        ['0.119560068195', '0.098472903611']
    """
    a, b = two("multivariate_lgamma_bregman", ("a", "b"), a, b)
    dimension = whole("multivariate_lgamma_bregman", "dimension", dimension, 1)
    return reference.multivariate_lgamma_bregman(a, b, dimension)


def binet(x: Tensor, order: int = 0) -> Tensor:
    """Binet's remainder R of Stirling's formula, or one of its first three derivatives.

    log Γ(x) = (x - ½)·log x - x + ½·log 2π + R(x), R(x) = 1/(12x) - 1/(360x³) + …, completely monotone.

    Domain: x > 0; infinite at 0, NaN below. Relative accuracy at every scale: 4 ulp for every order; the derivatives
    of the result are the next orders, as accurate.

    Args:
        x: a floating-point tensor.
        order: which derivative, 0 to 3.

    Returns:
        A tensor of the same shape and dtype.

    Example:
        >>> import torch
        >>> f"{binet(torch.tensor(1e10, dtype=torch.float64)):.12e}"
        '8.333333333333e-12'
    """
    order = whole("binet", "order", order, 0, 3)
    return kernels.binet[order].call(x)


def binet_bregman(a: Tensor | float, b: Tensor | float) -> Tensor:
    """R(b) - R(a) - (b - a)·R'(a) for Binet's remainder R, never negative, without cancellation.

    What is left of `lgamma_bregman` after Stirling's main part: the small term of a Dirichlet divergence at large
    concentrations.

    Domain: a, b > 0; inf for one argument 0 and the other inside or for b = inf, R(b) at a = inf, NaN below. Accuracy:
    4 ulp at any ratio and scale, a ≈ b included (5 ulp in the pure-torch reference); first and second derivatives 4
    ulp, the second one in a relative to R''(a).

    Args:
        a: a floating-point tensor, or a float beside one.
        b: likewise.

    Returns:
        A tensor of the broadcast shape.

    Example:
        >>> import torch
        >>> a = torch.tensor(1e6, dtype=torch.float64)
        >>> f"{binet_bregman(a, a + 1):.12e}"
        '8.333325000007e-20'
    """
    return _binet_bregman(a, b)
