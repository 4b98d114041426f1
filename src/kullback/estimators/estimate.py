"""`Estimate`: a number with its uncertainty, what every estimator of this package returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kullback._core.notebook import numbers_html


@dataclass(frozen=True, repr=False)
class Estimate:
    """An estimated divergence and how far to trust it.

    From samples and counts the numbers are floats. From distributions they are tensors of the batch shape, and `value`
    is differentiable where the draws are.

    Attributes:
        value: The estimate, in nats. It may be negative where the truth is near 0: cutting it off would bias means.
        stderr: Its standard error.
        low: Lower end of the interval.
        high: Upper end.
        method: How it was computed.
        n: How many draws or evaluations stand behind it: of p, and of q where q was sampled as well.
        confidence: Nominal coverage of the interval.
        diagnostics: What the method knows about its own reliability.
        warnings: Reasons to distrust the interval, in words. Empty if there are none.

    Example:
        >>> import torch
        >>> from kullback import Counts, estimate_kl
        >>> estimate = estimate_kl(Counts(torch.tensor([50, 30, 20])), Counts(torch.tensor([40, 40, 30])))
        >>> estimate.low < float(estimate) < estimate.high
        True
    """

    value: Any
    stderr: Any
    low: Any
    high: Any
    method: str
    n: tuple[int, ...]
    confidence: float = 0.95
    diagnostics: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        head = f"{_show(self.value)} ± {_show(self.stderr)}"
        text = f"{head} nats, {self.confidence:.4g} interval [{_show(self.low)}, {_show(self.high)}], {self.method}"
        text += f", n = {' and '.join(map(str, self.n))}"
        return "\n".join([text, *(f"  warning: {warning}" for warning in self.warnings)])

    def __repr__(self) -> str:
        names = ("value", "stderr", "low", "high")
        numbers = ", ".join(f"{name}={_show(getattr(self, name))}" for name in names)
        more = f", {len(self.warnings)} warnings" if len(self.warnings) > 1 else ", 1 warning" if self.warnings else ""
        return f"Estimate({numbers}, method={self.method!r}, n={self.n}{more})"

    def _repr_html_(self) -> str:
        named = {"nats": self.value, "standard error": self.stderr, "low": self.low, "high": self.high}
        columns = {name: torch.as_tensor(number, dtype=torch.float64) for name, number in named.items()}
        how = f"{self.method}, n = {' and '.join(map(str, self.n))}, interval of {self.confidence:.4g}"
        return numbers_html(columns, [how, *(f"warning: {warning}" for warning in self.warnings)], name="estimate")

    def to_dict(self) -> dict[str, Any]:
        """The fields as numbers, lists and text, for JSON."""
        names = ("value", "stderr", "low", "high", "method", "n", "confidence", "diagnostics", "warnings")
        return {name: _plain(getattr(self, name)) for name in names}


def _show(number: Any) -> str:
    if isinstance(number, Tensor):
        if number.dim() == 0:
            return f"{float(number):.5g}"
        flat = number.detach().flatten()
        shown = ", ".join(f"{float(entry):.5g}" for entry in flat[:4])
        return f"tensor of shape {tuple(number.shape)} ({shown}{', …' if flat.numel() > 4 else ''})"
    return f"{number:.5g}"


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().tolist()
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def normal_quantile(confidence: float) -> float:
    """The z with P(|Z| ≤ z) = confidence."""
    return float(torch.special.ndtri(torch.tensor((1 + confidence) / 2, dtype=torch.float64)))


def t_quantile(confidence: float, freedom: int) -> float:
    """The same for Student's t, by the expansion of Abramowitz and Stegun 26.7.5; 1e-4 from 8 degrees of freedom on.

    Example:
        >>> round(t_quantile(0.95, 15), 4)
        2.1314
    """
    z = normal_quantile(confidence)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, start=1)))


def reach_over_zero(low: float, high: float, warnings: list[str]) -> tuple[float, float]:
    """An interval of a KL; one that lies below 0, where no KL is, is mirrored, since its error is at least that large.

    Example:
        >>> reach_over_zero(-3.0, -1.0, [])
        (-3.0, 3.0)
    """
    if high >= 0:
        return low, high
    warnings.append(
        f"No KL is negative, but the whole interval was, up to {high:.3g}: the error is larger than the draws show. "
        "The interval reaches as far above 0 now, which is a guess."
    )
    return low, -low
