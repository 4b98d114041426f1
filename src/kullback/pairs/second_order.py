"""Two integrals for one divergence, −E log(q/p) and E φ(log q/p), φ(x) = eˣ − 1 − x, and when to take which.

The first has terms of either sign that cancel near equality; the second has not, but follows q wherever it is narrower
than p, where φ grows like q/p.
"""

from __future__ import annotations

from torch import Tensor

_SHARE, _WIDE_SHARE, _WIDE, _NEAR = 0.05, 1e-4, 0.3, 0.01


def keeps_digits(value: Tensor, size: Tensor) -> Tensor:
    """Where the first form is taken, given its value and the sum of its terms' magnitudes.

    A twentieth of its terms loses a digit. Laws that are wide apart may lose four, rather than be asked of the other.
    Where all terms are small the gradients cancel, even if the value, at the edge of a support, does not.
    """
    return (size > _NEAR) & ((value > _SHARE * size) | ((value > _WIDE) & (value > _WIDE_SHARE * size)))
