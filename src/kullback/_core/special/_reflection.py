"""(π/sin πx)² and cot πx with what rounding took from them, for the reflection of the polygamma functions.

Their poles are powers of 1/sin πx (DLMF 5.5.4, 5.15.6), which multiply every error of it; so the sine and the cosine
keep a second number, and the integer part of x is removed exactly.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kullback._core.special._double_double import quotient, two_product, two_sum
from kullback._core.special._precision import horner

_PI_LOW = 1.2246467991473532e-16
_PI_SQUARE, _PI_SQUARE_LOW = 9.869604401089358, 6.265295508739711e-16

# (-1)^k·πⁿ/n!: n = 3, 5, … of sin πt = πt + t³·(…), and n = 2, 4, … of cos πt = 1 + t²·(…); 2e-18 for |t| ≤ ¼.
_SINE = [
    -5.16771278004997,
    2.5501640398773455,
    -0.5992645293207921,
    0.08214588661112823,
    -0.0073704309457143504,
    0.00046630280576761255,
    -2.1915353447830217e-05,
    7.952054001475513e-07,
]
_COSINE = [
    -4.934802200544679,
    4.0587121264167685,
    -1.3352627688545895,
    0.2353306303588932,
    -0.02580689139001406,
    0.0019295743094039231,
    -0.0001046381049248457,
    4.303069587032947e-06,
]

_Pair = tuple[Tensor, Tensor]


def _sine_and_cosine(t: Tensor) -> tuple[_Pair, _Pair]:
    """Of πt for |t| ≤ ¼, each as a leading number and its correction."""
    square = t * t
    linear, linear_low = two_product(torch.full_like(t, math.pi), t)
    sine, sine_low = two_sum(linear, t * square * horner(square, _SINE))
    return (sine, sine_low + (linear_low + _PI_LOW * t)), two_sum(torch.ones_like(t), square * horner(square, _COSINE))


def _divide(a: _Pair, b: _Pair) -> _Pair:
    high, low = quotient(*a, b[0])
    correction = high * b[1] / b[0]
    return high, low - torch.where(torch.isfinite(correction), correction, 0.0)


def reflect(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(π/sin πx)² as a leading number and its correction, and cot πx; infinite at the integers."""
    part = x - torch.round(x)
    # Beyond a quarter the complement to ½ keeps the zero of the cotangent exact.
    complement = torch.copysign(0.5 - part.abs(), part)
    is_turned = part.abs() > 0.25
    s, c = _sine_and_cosine(torch.where(is_turned, complement, part))
    # Up to the sign they share, that of the sine.
    sine = torch.where(is_turned, c[0], s[0]), torch.where(is_turned, c[1], s[1])
    cosine = torch.where(is_turned, s[0], c[0]), torch.where(is_turned, s[1], c[1])
    square, square_low = two_product(sine[0], sine[0])
    constant = torch.full_like(x, _PI_SQUARE), torch.full_like(x, _PI_SQUARE_LOW)
    pole, pole_low = _divide(constant, (square, square_low + 2 * sine[0] * sine[1]))
    cotangent, cotangent_low = _divide(cosine, sine)
    return pole, pole_low, cotangent + cotangent_low
