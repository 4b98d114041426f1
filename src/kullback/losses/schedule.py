"""Weights of a KL term that change with the training step: plain callables with a state_dict."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.losses.arguments import check_tensor, widen


class Schedule:
    """A number for every step: `schedule(step)`; or `schedule()` for its own counter, which `step()` advances.

    Attributes:
        current_step: The counter.
    """

    _names: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.current_step = 0

    def __call__(self, step: int | None = None) -> float:
        """The number at `step`; by default at the schedule's own step."""
        step = self.current_step if step is None else step
        if not step >= 0:
            raise InputValueError(explain_problem("A step is a count.", got=f"step={step!r}", expected=">= 0"))
        return self._at(step)

    def _at(self, step: float) -> float:
        raise NotImplementedError

    def step(self) -> float:
        """Advance the counter by one and return the new number."""
        self.current_step += 1
        return self()

    def state_dict(self) -> dict[str, float]:
        """Everything that is needed to continue, as plain numbers."""
        return {name: getattr(self, name) for name in ("current_step", *self._names)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved state; refuses that of another kind of schedule."""
        expected = {"current_step", *self._names}
        if set(state) != expected:
            raise InputValueError(
                explain_problem(
                    f"This is not a state of {type(self).__name__}.",
                    got=", ".join(sorted(map(str, state))) or "nothing",
                    expected=", ".join(sorted(expected)),
                )
            )
        for name, value in state.items():
            setattr(self, name, type(getattr(self, name))(value))


class ConstantSchedule(Schedule):
    """Always `value`.

    Example:
        >>> ConstantSchedule(4.0)(1000)
        4.0
    """

    _names = ("value",)

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = float(value)

    def _at(self, step: float) -> float:
        del step
        return self.value


class LinearSchedule(Schedule):
    """From `start` to `end` in `steps` steps, then `end` (KL annealing: Bowman et al. 2016, arXiv 1511.06349).

    Example:
        >>> [LinearSchedule(10)(step) for step in (0, 5, 10, 99)]
        [0.0, 0.5, 1.0, 1.0]
    """

    _names = ("steps", "start", "end")

    def __init__(self, steps: int, *, start: float = 0.0, end: float = 1.0) -> None:
        super().__init__()
        self.steps, self.start, self.end = _count(steps), float(start), float(end)

    def _at(self, step: float) -> float:
        return self.start + (self.end - self.start) * min(step / self.steps, 1.0)


class CosineSchedule(LinearSchedule):
    """From `start` to `end` in `steps` steps along half a cosine, flat at both ends.

    Example:
        >>> [round(CosineSchedule(10)(step), 4) for step in (0, 2, 5, 10)]
        [0.0, 0.0955, 0.5, 1.0]
    """

    def _at(self, step: float) -> float:
        share = (1 - math.cos(math.pi * min(step / self.steps, 1.0))) / 2
        return self.start + (self.end - self.start) * share


class CyclicalSchedule(Schedule):
    """`cycles` times from `start` to `end` within `steps` steps, then `end` (Fu et al. 2019, arXiv 1903.10145).

    Each cycle rises linearly during its first part, `ratio` of it, and stays at `end` for the rest.

    Example:
        >>> schedule = CyclicalSchedule(40, cycles=4, ratio=0.5)
        >>> [schedule(step) for step in (0, 2, 5, 9, 10, 12, 40)]
        [0.0, 0.4, 1.0, 1.0, 0.0, 0.4, 1.0]
    """

    _names = ("steps", "cycles", "ratio", "start", "end")

    def __init__(
        self, steps: int, *, cycles: int = 4, ratio: float = 0.5, start: float = 0.0, end: float = 1.0
    ) -> None:
        super().__init__()
        if not 0 < ratio <= 1:
            raise InputValueError(explain_problem("ratio is a share.", got=f"ratio={ratio!r}", expected="in (0, 1]"))
        self.steps, self.cycles, self.ratio = _count(steps), _count(cycles), float(ratio)
        self.start, self.end = float(start), float(end)

    def _at(self, step: float) -> float:
        if step >= self.steps:
            return self.end
        place = (step * self.cycles % self.steps) / self.steps
        return self.start + (self.end - self.start) * min(place / self.ratio, 1.0)


class CapacitySchedule(LinearSchedule):
    """The capacity C of γ |KL − C|, rising linearly to `end` nats (Burgess et al. 2018, arXiv 1804.03599).

    Example:
        >>> import torch
        >>> capacity = CapacitySchedule(100, end=25.0)
        >>> capacity.loss(torch.tensor([4.0, 6.0]), step=20, gamma=1000.0)
        tensor([1000., 1000.])
    """

    def __init__(self, steps: int, *, start: float = 0.0, end: float = 25.0) -> None:
        super().__init__(steps, start=start, end=end)

    def loss(self, kl: Tensor, step: int | None = None, *, gamma: float = 1000.0) -> Tensor:
        """γ |kl − C|, elementwise; reduce `kl` to the mean over the batch first to follow the paper."""
        (kl,) = widen(check_tensor("CapacitySchedule.loss", "kl", kl))
        return gamma * (kl - self(step)).abs()


def _count(steps: int) -> int:
    if isinstance(steps, bool) or not steps >= 1:
        raise InputValueError(explain_problem("A number of steps is a count.", got=f"{steps!r}", expected=">= 1"))
    return int(steps)
