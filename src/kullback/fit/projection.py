"""The results of `project`: one `Projection`, or a `Ranking` of several families. Users hold these."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback.fit.families import Family

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kullback.fit.divergence import Divergence
    from kullback.fit.information import Uncertainty
    from kullback.fit.targets import Target


@dataclass(frozen=True)
class Optimum:
    """One local minimum of KL(q ‖ target).

    Attributes:
        distribution: The member of the family.
        kl: Its divergence.
    """

    distribution: Distribution
    kl: float


@dataclass(eq=False, repr=False)
class Projection:
    """The member of a family that is nearest to a target.

    What is not needed for the fit (`distribution`, `kl`, `log_likelihood`, `standard_errors`) is computed when it is
    first asked for.

    Attributes:
        direction: "forward" or "reverse".
        family: The family.
        converged: Whether the optimum was reached, for every target of a batch.
        iterations: Newton steps on the whole family; 0 where a formula or a single equation gives the optimum.
        parameters: The parameters of the member by their names, differentiable with respect to the target's.
        optima: Reverse direction: all distinct local minima that were found, best first.
        log_normalizer: For a log-density, the logarithm of its integral; None otherwise.
        log_normalizer_error: The error of that.
        num_parameters: How many numbers the fit chose.
        num_observations: For data, how many there are; with weights, their effective number.
        warnings: What went less than well, in sentences.
    """

    direction: str
    family: Family
    converged: bool
    iterations: int
    parameters: dict[str, Tensor]
    optima: Sequence[Optimum] = ()
    log_normalizer: float | None = None
    log_normalizer_error: float | None = None
    num_parameters: int = 0
    num_observations: Tensor | None = None
    warnings: list[str] = field(default_factory=list)
    _construct: Callable[[], Distribution] | None = None
    _divergence: Callable[[], Divergence] | None = None
    _log_likelihood: Callable[[], Tensor] | None = None
    _steps: Sequence[Tensor] = ()
    _target: Target | None = None
    _uncertainty: Uncertainty | None = None

    @cached_property
    def distribution(self) -> Distribution:
        """The member; its parameters are differentiable with respect to the target's."""
        assert self._construct is not None
        return self._construct()

    @cached_property
    def _found(self) -> Divergence:
        assert self._divergence is not None
        return self._divergence()

    @property
    def kl(self) -> Tensor:
        """KL(target ‖ distribution), or KL(distribution ‖ target) for the reverse direction, in nats.

        NaN where too few samples leave it unknown; `kl_method` then says so.
        """
        return self._found.value

    @property
    def kl_error(self) -> Tensor:
        """How far `kl` may be off; a standard error where it comes from draws or from samples."""
        return self._found.error

    @property
    def kl_method(self) -> str:
        """Where `kl` comes from, such as "closed form", "integral" or "nearest neighbours, q known"."""
        return self._found.method

    @cached_property
    def history(self) -> list[float]:
        """KL before each step and at the end; where `kl` is unknown, the mean negative log-likelihood."""
        # The objective differs from KL by a constant.
        values = [float(step.sum()) for step in self._steps]
        total = float(self.kl.detach().sum())
        if not values:
            return [total] if math.isfinite(total) else []
        shift = total - values[-1] if math.isfinite(total) else 0.0
        return [value + shift for value in values]

    @cached_property
    def log_likelihood(self) -> Tensor | None:
        """For data, the sum of the log-densities of all observations, else None."""
        return None if self._log_likelihood is None else self._log_likelihood()

    @cached_property
    def standard_errors(self) -> dict[str, Tensor] | None:
        """Standard errors of the parameters where the target is data, else None.

        From the inverse of the observed information; with weights from the sandwich formula, which holds for weights
        that are not frequencies. NaN for a parameter at an end of the support, which has no normal limit.
        """
        return None if self._uncertainty is None else self._uncertainty.standard_errors()

    @property
    def aic(self) -> Tensor | None:
        """Akaike's criterion 2k − 2 log L for data, else None."""
        return None if self.log_likelihood is None else 2 * self.num_parameters - 2 * self.log_likelihood

    @property
    def bic(self) -> Tensor | None:
        """Schwarz's criterion k log n − 2 log L for data, else None."""
        if self.log_likelihood is None or self.num_observations is None:
            return None
        return self.num_parameters * self.num_observations.log() - 2 * self.log_likelihood

    def plot(self) -> Figure:
        """A matplotlib figure of the target and the fit, and of the other direction's fit if that exists."""
        from kullback.fit.plot import draw

        return draw(self)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists and numbers, for machines."""
        errors = self.standard_errors
        return {
            "family": str(self.family),
            "direction": self.direction,
            "parameters": {name: value.tolist() for name, value in self.parameters.items()},
            "standard_errors": None if errors is None else {name: value.tolist() for name, value in errors.items()},
            "kl": self.kl.tolist(),
            "kl_error": self.kl_error.tolist(),
            "kl_method": self.kl_method,
            "converged": self.converged,
            "iterations": self.iterations,
            "log_normalizer": self.log_normalizer,
            "log_normalizer_error": self.log_normalizer_error,
            "log_likelihood": None if self.log_likelihood is None else self.log_likelihood.tolist(),
            "aic": None if self.aic is None else self.aic.tolist(),
            "bic": None if self.bic is None else self.bic.tolist(),
            "optima": [{"distribution": describe(each.distribution), "kl": each.kl} for each in self.optima],
            "warnings": self.warnings,
        }

    def __repr__(self) -> str:
        return f"Projection({describe(self.distribution)}, direction={self.direction!r}, converged={self.converged})"

    def __str__(self) -> str:
        arrow = "KL(target ‖ fit)" if self.direction == "forward" else "KL(fit ‖ target)"
        lines = [f"{self.direction} projection on {self.family}"]
        errors = self.standard_errors or {}
        for name, value in self.parameters.items():
            lines.append(f"  {name:<16} {_show(value)}" + (f" ± {_show(errors[name], 2)}" if name in errors else ""))
        if self.kl_method.startswith("unknown"):
            lines.append(f"  {arrow:<16} {self.kl_method}")
        else:
            lines.append(f"  {arrow:<16} {_show(self.kl)} ± {_show(self.kl_error, 2)} ({self.kl_method})")
        if self.log_normalizer is not None:
            lines.append(f"  {'log constant':<16} {self.log_normalizer:.6g} ± {self.log_normalizer_error:.2g}")
        if self.log_likelihood is not None:
            assert self.aic is not None
            lines.append(f"  {'log-likelihood':<16} {_show(self.log_likelihood)}, AIC {_show(self.aic)}")
        lines.append(
            "  " + (f"converged in {self.iterations} steps" if self.iterations else "by formula") * self.converged
        )
        if not self.converged:
            lines[-1] = f"  NOT CONVERGED after {self.iterations} steps"
        if len(self.optima) > 1:
            lines.append(f"  {len(self.optima)} local optima, best first:")
            lines += [f"    {each.kl:.6g}  {describe(each.distribution)}" for each in self.optima]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)


class Ranking(Sequence[Projection]):
    """Projections on several families, best first.

    Attributes:
        criterion: What they are sorted by: "kl", "aic" or "bic".
        failures: Families that could not be fitted, with the reason.
    """

    def __init__(self, projections: Sequence[Projection], criterion: str, failures: dict[str, str]) -> None:
        self._projections = list(projections)
        self.criterion = criterion
        self.failures = failures

    @property
    def best(self) -> Projection:
        """The first one."""
        return self._projections[0]

    def __getitem__(self, index: Any) -> Any:
        return self._projections[index]

    def __len__(self) -> int:
        return len(self._projections)

    def __iter__(self) -> Iterator[Projection]:
        return iter(self._projections)

    def score(self, projection: Projection) -> float:
        """The number that a projection is sorted by."""
        value = getattr(projection, self.criterion)
        return float(value.sum()) if isinstance(value, Tensor) else float("nan")

    def to_dict(self) -> dict[str, Any]:
        """The same as plain lists and numbers, for machines."""
        return {
            "criterion": self.criterion,
            "projections": [each.to_dict() for each in self],
            "failures": self.failures,
        }

    def __str__(self) -> str:
        name = {"kl": "KL", "aic": "AIC", "bic": "BIC"}[self.criterion]
        width = max(len(str(each.family)) for each in self)
        lines = [f"{'family':<{width}}  {name:>12}  {'difference':>12}"]
        best = self.score(self.best)
        for each in self:
            mark = "" if each.converged else "  NOT CONVERGED"
            score = self.score(each)
            lines.append(f"{each.family!s:<{width}}  {score:>12.6g}  {score - best:>12.4g}{mark}")
        lines += [f"{family}: {reason.splitlines()[0]}" for family, reason in self.failures.items()]
        return "\n".join(lines)


def describe(d: Distribution) -> str:
    """A distribution on one line, with the numbers of its parameters.

    Example:
        >>> describe(torch.distributions.Normal(0.0, 2.0))
        'Normal(loc=0, scale=2)'
    """
    if isinstance(d, torch.distributions.MixtureSameFamily):
        weights = _show(d.mixture_distribution.probs)
        return f"Mixture({weights}, {describe(d.component_distribution)})"
    if isinstance(d, torch.distributions.Independent):
        return f"Independent({describe(d.base_dist)})"
    names = [name for name in d.arg_constraints if name in vars(d)] or list(d.arg_constraints)
    shown = []
    for name in names:
        value = getattr(d, name, None)
        if isinstance(value, Tensor) and not (name == "logits" and "probs" in names):
            shown.append(f"{name}={_show(value)}")
    return f"{type(d).__name__}({', '.join(shown)})"


def _show(value: Tensor, digits: int = 6) -> str:
    value = value.detach()
    if value.numel() == 1:
        return f"{value.item():.{digits}g}"
    if value.numel() > 16:
        return f"tensor of shape {tuple(value.shape)}"
    if value.dim() > 1:
        return "[" + ", ".join(_show(row, digits) for row in value) + "]"
    return "[" + ", ".join(f"{each:.{digits}g}" for each in value.tolist()) + "]"
