"""Sigmoid, softplus and their inverses as maps of a transformed density; `transforms` chains them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kullback.densities.coordinate import softplus
from kullback.densities.maps import (
    Ends,
    Exp,
    Tails,
    at_value,
    bounded_value,
    end_tensor,
    is_at,
    is_finite,
    log_expm1,
    turned,
)
from kullback.densities.point import HUGE, End, Point, stable_exp
from kullback.densities.tails import chosen, of_exponential, of_logarithm


class Sigmoid(NamedTuple):
    """y = 1/(1 + e^−x)."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """(0, 1) or a part of it."""
        return _sigmoid(low), _sigmoid(high)

    def push(self, x: Point, ends: Ends) -> Point:
        """The distances to 0 and 1, in logarithms."""
        value = bounded_value(x)
        log_up, log_down = -softplus(-value), -softplus(value)
        lower = value < 0
        log_near = torch.where(lower, log_up, log_down)
        anchor = torch.where(lower, torch.zeros_like(value), 1.0)
        known: list[tuple[End, Tensor]] = [(0.0, log_up), (1.0, log_down)]
        for end, image, sign in ends.pairs():
            if is_finite(end):
                # σ(x) − σ(e) = σ(x)·σ(−e)·(1 − e^(e − x)), and the same for −x and −e at an upper end.
                log_d = x.log_distance(end)
                d = stable_exp(log_d).clamp(1e-300, HUGE)
                shrunk = torch.where(log_d < -30, log_d, torch.log(-torch.expm1(-d)))
                known.append((image, (log_up if sign > 0 else log_down) - softplus(sign * end_tensor(end, d)) + shrunk))
        offset = torch.exp(log_near) * torch.where(lower, 1.0, -1.0)
        return Point(anchor, torch.zeros_like(value), offset, log_near, tuple(known))

    def pull(self, y: Point, ends: Ends) -> Point:
        """Log y − log(1 − y), ±HUGE for what is outside."""
        zero = torch.zeros_like(y.log_unit)
        log_up, log_down = y.log_distance(0.0), y.log_distance(1.0)
        logit = torch.where(y.z(0.0, zero) < 0, -HUGE, torch.where(y.z(1.0, zero) > 0, HUGE, log_up - log_down))
        logit = logit.clamp(-HUGE, HUGE)
        known = []
        for end, image, sign in ends.pairs():
            if is_finite(end):
                there = end_tensor(end, logit)
                log_r = y.log_distance(image) - (log_up if sign > 0 else log_down) + softplus(sign * there)
                r = stable_exp(log_r)
                far = torch.log((sign * (logit - there)).clamp_min(1e-300))
                near = torch.where(log_r < -30, log_r, torch.log(-torch.log1p(-r.clamp(1e-300, 0.5))))
                known.append((end, torch.where(r < 0.5, near, far)))
        return at_value(logit, tuple(known))

    def log_slope(self, x: Point) -> Tensor:
        """Log σ(x)σ(−x)."""
        value = bounded_value(x)
        return -softplus(value) - softplus(-value)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """Those of the exponential at both ends."""
        return Exp().tails(tails, ends)


def _sigmoid(end: End) -> End:
    if isinstance(end, Tensor):
        return torch.sigmoid(end)
    return 0.0 if end == -math.inf else 1 / (1 + math.exp(-end))


class Logit(NamedTuple):
    """y = log x − log(1 − x)."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """The whole line of (0, 1)."""
        first = torch.logit(low) if isinstance(low, Tensor) else -math.inf if low <= 0 else math.log(low / (1 - low))
        second = (
            torch.logit(high) if isinstance(high, Tensor) else math.inf if high >= 1 else math.log(high / (1 - high))
        )
        return first, second

    def push(self, x: Point, ends: Ends) -> Point:
        """The sigmoid backwards."""
        return Sigmoid().pull(x, turned(ends))

    def pull(self, y: Point, ends: Ends) -> Point:
        """The sigmoid."""
        return Sigmoid().push(y, turned(ends))

    def log_slope(self, x: Point) -> Tensor:
        """Log 1/(x(1 − x))."""
        return -x.log_distance(0.0) - x.log_distance(1.0)

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """Those of the logarithm at both ends."""
        if tails is None:
            return None
        lower = chosen(is_at(ends.low, 0.0), of_logarithm(tails[0]), tails[0])
        return lower, chosen(is_at(ends.high, 1.0), of_logarithm(tails[1]), tails[1])


def _logit(end: End) -> End:
    if isinstance(end, Tensor):
        return torch.logit(end)
    return -math.inf if end <= 0 else math.inf if end >= 1 else math.log(end / (1 - end))


class Softplus(NamedTuple):
    """y = log(1 + e^x)."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """(0, ∞) or a part of it."""
        return _softplus(low), _softplus(high)

    def push(self, x: Point, ends: Ends) -> Point:
        """Log y from x or, far below 0, x itself."""
        del ends
        value = bounded_value(x)
        low = value < -37
        y = softplus(torch.where(low, 0.0, value).clamp_max(HUGE))
        log_y = torch.where(low, value, torch.log(y))
        return Point(0.0, torch.zeros_like(value), stable_exp(log_y), log_y, ((0.0, log_y),))

    def pull(self, y: Point, ends: Ends) -> Point:
        """log(e^y − 1)."""
        del ends
        log_y = y.log_distance(0.0)
        positive = y.z(0.0, torch.zeros_like(y.log_unit)) > -1e-300
        value = torch.where(log_y < -37, log_y, log_expm1(stable_exp(log_y.clamp_min(-40.0))))
        return at_value(torch.where(positive, value, -HUGE).clamp(-HUGE, HUGE))

    def log_slope(self, x: Point) -> Tensor:
        """Log σ(x)."""
        return -softplus(-bounded_value(x))

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """Those of the exponential below, unchanged above."""
        if tails is None:
            return None
        return chosen(is_at(ends.low, -math.inf), of_exponential(tails[0]), tails[0]), tails[1]


def _softplus(end: End) -> End:
    if isinstance(end, Tensor):
        return softplus(end)
    return 0.0 if end == -math.inf else math.inf if end == math.inf else math.log1p(math.exp(end))


class Unsoftplus(NamedTuple):
    """y = log(e^x − 1)."""

    def image(self, low: End, high: End) -> tuple[End, End]:
        """The whole line of (0, ∞)."""
        ends: list[End] = []
        for end in (low, high):
            if isinstance(end, Tensor):
                ends.append(torch.where(end > 0, log_expm1(end.clamp_min(1e-300)), -math.inf))
            else:
                ends.append(-math.inf if end <= 0 else math.inf if end == math.inf else math.log(math.expm1(end)))
        return ends[0], ends[1]

    def push(self, x: Point, ends: Ends) -> Point:
        """Softplus backwards."""
        return Softplus().pull(x, turned(ends))

    def pull(self, y: Point, ends: Ends) -> Point:
        """Softplus."""
        return Softplus().push(y, turned(ends))

    def log_slope(self, x: Point) -> Tensor:
        """−log(1 − e^−x)."""
        log_x = x.log_distance(0.0)
        return torch.where(log_x < -37, -log_x, -torch.log(-torch.expm1(-stable_exp(log_x.clamp_min(-40.0)))))

    def tails(self, tails: Tails, ends: Ends) -> Tails:
        """Those of the logarithm below, unchanged above."""
        if tails is None:
            return None
        return chosen(is_at(ends.low, 0.0), of_logarithm(tails[0]), tails[0]), tails[1]
