"""Coefficients of a KL term that follow the measured KL, and a rule when to stop; called once per update by users."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem


class _Controller:
    """Shared: numbers that are saved and restored by name."""

    _names: tuple[str, ...] = ()

    def state_dict(self) -> dict[str, float]:
        """Everything that is needed to continue, as plain numbers."""
        return {name: getattr(self, name) for name in self._names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state; refuses one of another class."""
        if set(state) != set(self._names):
            raise InputValueError(
                explain_problem(
                    f"This is not a state of {type(self).__name__}.",
                    got=", ".join(sorted(map(str, state))) or "nothing",
                    expected=", ".join(sorted(self._names)),
                )
            )
        for name in self._names:
            setattr(self, name, type(getattr(self, name))(state[name]))


class FixedKLController(_Controller):
    """A coefficient that stays.

    Attributes:
        value: The coefficient.

    Example:
        >>> controller = FixedKLController(0.05)
        >>> controller.update(12.0, n_steps=64)
        0.05
    """

    _names = ("value",)

    def __init__(self, value: float) -> None:
        self.value = _non_negative("value", value)

    def update(self, kl: float | Tensor, n_steps: int = 1) -> float:
        """The coefficient after an update in which the mean KL was `kl`."""
        del n_steps
        _measured(kl)
        return self.value


class AdaptiveKLController(_Controller):
    """A coefficient that steers the KL towards a target (Ziegler et al. 2019, arXiv 1909.08593).

    value ← value · (1 + clip(kl / target − 1, −max_change, max_change) · n_steps / horizon)

    Args:
        initial: First coefficient, > 0.
        target: The KL to reach, in the units of what `update` is given (per sequence or per token).
        horizon: Steps in which the coefficient may change by the factor 1 + max_change.
        max_change: Limit of the relative error that counts.

    Attributes:
        value: The coefficient.

    Example:
        >>> controller = AdaptiveKLController(0.2, target=6.0, horizon=10000)
        >>> round(controller.update(12.0, n_steps=500), 6)  # too far from the reference: a larger coefficient
        0.202
    """

    _names = ("value", "target", "horizon", "max_change")

    def __init__(self, initial: float, *, target: float, horizon: float, max_change: float = 0.2) -> None:
        self.value = _positive("initial", initial)
        self.target = _positive("target", target)
        self.horizon = _positive("horizon", horizon)
        self.max_change = _positive("max_change", max_change)

    def update(self, kl: float | Tensor, n_steps: int = 1) -> float:
        """Change the coefficient after `n_steps` samples whose mean KL was `kl`; returns the new one."""
        error = _measured(kl) / self.target - 1
        error = min(max(error, -self.max_change), self.max_change)
        # Never below 0, however many steps one update covers: a negative coefficient would maximise the KL.
        self.value *= max(1 + error * n_steps / self.horizon, 0.0)
        return self.value


class TargetKLStopper(_Controller):
    """Says when to stop updating on one batch: as soon as the KL exceeds `factor` · `target` (PPO, TRPO).

    Args:
        target: The KL per update, > 0.
        factor: Tolerance; 1.5 is usual.

    Attributes:
        stopped: How often it said stop.

    Example:
        >>> stopper = TargetKLStopper(0.01)
        >>> [stopper.should_stop(kl) for kl in (0.004, 0.012, 0.02)]
        [False, False, True]
    """

    _names = ("target", "factor", "stopped")

    def __init__(self, target: float, *, factor: float = 1.5) -> None:
        self.target = _positive("target", target)
        self.factor = _positive("factor", factor)
        self.stopped = 0

    def should_stop(self, kl: float | Tensor) -> bool:
        """Whether the mean KL of the update so far is too large."""
        stop = _measured(kl) > self.factor * self.target
        self.stopped += stop
        return stop


def _measured(kl: float | Tensor) -> float:
    value = float(kl.detach()) if isinstance(kl, Tensor) else float(kl)
    if math.isnan(value):
        raise InputValueError(
            explain_problem(
                "The measured KL is NaN.",
                got="kl=nan",
                expected="a number",
                instead='policy_kl(..., use="metric", reduction="mean"), which is never NaN for finite input',
            )
        )
    return value


def _positive(name: str, value: float) -> float:
    if isinstance(value, bool) or not 0 < value < math.inf:
        raise InputValueError(explain_problem(f"{name} is a number > 0.", got=f"{name}={value!r}", expected="> 0"))
    return float(value)


def _non_negative(name: str, value: float) -> float:
    return 0.0 if value == 0 else _positive(name, value)
