"""Families of distributions as points of ℝᵏ: free parameters, constraints, construction. Called by every fit.

A family is written as a class, a name or a `Family`, which adds fixed parameters, components of a mixture, or a rank.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import torch.distributions as td
from torch import Tensor
from torch.distributions import Distribution, constraints

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.fit.parameter_kinds import PARAMETERS, kinds_of_class
from kullback.fit.real_numbers import from_real, real_shape, to_real

_MAY_BE_INFINITE = {
    "StudentT": ("df",),
    "NegativeBinomial": ("total_count",),
    "FisherSnedecor": ("df1", "df2"),
}
INFINITE = 1e7
_NO_MEMBER_AT_ENDS, _NEAR_END = ("ContinuousBernoulli", "RelaxedBernoulli"), 1e-12
_EVENT_RANK = {"vector": 1, "positive_vector": 1, "simplex": 1, "cholesky": 2, "factor": 2}
# Families whose parameters have as many entries as there are classes, but whose events are numbers.
_SCALAR_EVENTS = ("Categorical",)


@dataclass(frozen=True)
class Family:
    """A family to fit, with what the fit may not choose.

    Attributes:
        base: A distribution class of torch, one of yours with `arg_constraints`, or its name. The name
            "DiagonalNormal" means a multivariate normal with independent dimensions.
        fixed: Parameters that keep the value given here, such as `{"total_count": 10}`.
        components: More than 1 for a mixture of so many members of the family.
        rank: Columns of the covariance factor of `LowRankMultivariateNormal`.

    Example:
        >>> from torch.distributions import Normal
        >>> print(Family(Normal, components=2))
        Mixture(Normal, 2)
    """

    base: type[Distribution] | str
    fixed: Mapping[str, Any] = field(default_factory=dict)
    components: int = 1
    rank: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.base, str):
            name, components = _parse_name(self.base)
            object.__setattr__(self, "base", getattr(td, name) if name != "DiagonalNormal" else name)
            if components:
                object.__setattr__(self, "components", components)
        elif not (isinstance(self.base, type) and issubclass(self.base, Distribution)):
            raise _not_a_family(self.base)
        for what, number in (("components", self.components), ("rank", self.rank)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise InputValueError(
                    explain_problem(f"{what} is a whole number from 1.", got=f"{what}={number!r}", instead=f"{what}=2")
                )
        unknown = sorted(set(self.fixed) - set(self.kinds(whole=True)))
        if unknown:
            raise InputValueError(
                explain_problem(
                    f"{self.name} has no parameter {unknown[0]!r} to fix.",
                    got=f"fixed={dict(self.fixed)}",
                    expected=f"some of {', '.join(self.kinds(whole=True))}",
                )
            )

        self._check_fixed()

    def _check_fixed(self) -> None:
        """Raise if a fixed number is none that the parameter may have."""
        allowed = {} if isinstance(self.base, str) else getattr(self.base, "arg_constraints", {})
        for name, value in self.fixed.items():
            constraint = allowed.get(name) if isinstance(allowed, Mapping) else None
            if constraint is None or constraints.is_dependent(constraint):  # type: ignore[no-untyped-call]
                continue
            if not bool(constraint.check(torch.as_tensor(value)).all()):
                raise InputValueError(
                    explain_problem(
                        f"The parameter {name} of {self.name} cannot have the fixed value.",
                        got=f"{name}={value}",
                        expected=f"{name} that satisfies {constraint}",
                    )
                )

    @property
    def name(self) -> str:
        """The name of the base family."""
        return self.base if isinstance(self.base, str) else self.base.__name__

    def __str__(self) -> str:
        return f"Mixture({self.name}, {self.components})" if self.components > 1 else self.name

    def kinds(self, *, whole: bool = False) -> dict[str, str]:
        """The parameters that are chosen by a fit, and the kind of each; with `whole`, also the fixed ones."""
        found = PARAMETERS.get(self.name) if self.is_torch_family() else None
        if found is None:
            found = kinds_of_class(self.base)  # type: ignore[arg-type]
        if whole:
            return dict(found)
        return {name: kind for name, kind in found.items() if kind != "fixed" and name not in self.fixed}

    def is_torch_family(self) -> bool:
        """Whether the base is torch's own class, not a user's of the same name."""
        return isinstance(self.base, str) or self.base is getattr(td, self.base.__name__, None)

    @property
    def event_dim(self) -> int:
        """Dimensions of one event: 0 for a number, 1 for a vector, 2 for a matrix."""
        if self.name in ("LKJCholesky", "Wishart"):
            return 2
        kinds = self.kinds(whole=True).values()
        return int(self.name not in _SCALAR_EVENTS and any(kind in _EVENT_RANK for kind in kinds))

    @property
    def is_gaussian(self) -> bool:
        """Whether members are multivariate normal distributions."""
        return self.name in ("MultivariateNormal", "DiagonalNormal", "LowRankMultivariateNormal")

    def construct(self, parameters: Mapping[str, Tensor], *, validate: bool = False) -> Distribution:
        """The distribution with these parameters; those of a mixture have the component dimension last but events."""
        if self.components > 1:
            weights = td.Categorical(probs=parameters["mixture_probs"], validate_args=validate)
            rest = {name: value for name, value in parameters.items() if name != "mixture_probs"}
            return td.MixtureSameFamily(weights, self.construct_component(rest, validate), validate_args=validate)
        return self.construct_component(parameters, validate)

    def construct_component(self, parameters: Mapping[str, Tensor], validate: bool = False) -> Distribution:
        """The distribution of the base family with these parameters."""
        arguments: dict[str, Any] = {**self.fixed, **parameters}
        if self.name == "DiagonalNormal":
            normal = td.Normal(arguments["loc"], arguments["scale"], validate_args=validate)
            return td.Independent(normal, 1, validate_args=validate)
        if self.name == "LogisticNormal":
            return td.LogisticNormal(arguments["loc"], arguments["scale"], validate_args=validate)
        if self.name in ("Binomial", "Multinomial"):
            count = arguments["total_count"]
            if isinstance(count, Tensor) and (self.name == "Multinomial" or count.numel() == 1):
                arguments["total_count"] = int(count.reshape(-1)[0])
        if self.name == "LKJCholesky":
            arguments["dim"] = int(torch.as_tensor(arguments["dim"]).reshape(-1)[0])
        assert not isinstance(self.base, str)
        return self.base(**arguments, validate_args=validate)


@dataclass
class Coordinates:
    """Free parameters of a family as vectors of ℝᵏ, for B distributions at once.

    Attributes:
        family: The family.
        shapes: Shape of each free parameter without the batch: () or (d,), with the components first for a mixture.
        constants: Parameters that the fit does not move, with batch shape (B, …).
    """

    family: Family
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Tensor]

    @classmethod
    def like(cls, family: Family, parameters: Mapping[str, Tensor]) -> Coordinates:
        """Coordinates for parameters of batch shape (B,); what the family does not move is constant."""
        free = _free_kinds(family)
        shapes = {name: tuple(parameters[name].shape[1:]) for name in free}
        constants = {name: value for name, value in parameters.items() if name not in free}
        return cls(family, shapes, constants)

    def pack(self, parameters: Mapping[str, Tensor]) -> Tensor:
        """Parameters of batch shape (B,) as points (B, k)."""
        free = {name: parameters[name] for name in _free_kinds(self.family)}
        if self.family.kinds().get("high") == "after_low":
            low = parameters.get("low", self.family.fixed.get("low"))
            free["high"] = free["high"] - torch.as_tensor(low, dtype=free["high"].dtype)
        batch = next(iter(parameters.values())).shape[0]
        parts = [to_real(free[name], kind).reshape(batch, -1) for name, kind in _free_kinds(self.family).items()]
        return torch.cat(parts, dim=-1) if parts else torch.empty(batch, 0, dtype=torch.float64)

    def unpack(self, point: Tensor) -> dict[str, Tensor]:
        """Points (B, k) as parameters of batch shape (B,), with the constants."""
        parameters: dict[str, Tensor] = {}
        at = 0
        for name, kind in _free_kinds(self.family).items():
            shape = self.shapes[name]
            inner = real_shape(shape, kind)
            size = math.prod(inner)
            part = point[:, at : at + size].reshape(point.shape[0], *inner)
            parameters[name] = from_real(part, kind, shape)
            at += size
        if self.family.kinds().get("high") == "after_low":
            low = parameters.get("low", self.family.fixed.get("low"))
            parameters["high"] = low + parameters["high"]  # type: ignore[operator]
        for name, value in self.constants.items():
            rows = point.shape[0]  # several starts of one target, or some of them
            repeats = max(rows // value.shape[0], 1)
            repeated = value.repeat(repeats, *([1] * (value.dim() - 1))) if repeats != 1 else value
            parameters[name] = repeated[:rows] if len(repeated) > rows else repeated
        return parameters

    def construct(self, point: Tensor) -> Distribution:
        """The distributions at the points."""
        return self.family.construct(self.unpack(point))

    @property
    def num_free(self) -> int:
        """How many numbers the family has: those of ℝᵏ without the rotations of a covariance factor."""
        columns = self.shapes["cov_factor"][-1] if "cov_factor" in self.shapes else 1
        return self.size - self.family.components * columns * (columns - 1) // 2

    @property
    def size(self) -> int:
        """The k of ℝᵏ."""
        return sum(math.prod(real_shape(self.shapes[name], kind)) for name, kind in _free_kinds(self.family).items())

    def limit_at(self, parameters: Mapping[str, Tensor]) -> tuple[str, Tensor]:
        """Words about parameters that have almost left for infinity, or nothing; and where they have."""
        for name in self._may_be_infinite():
            far = (parameters[name].detach().reshape(len(parameters[name]), -1) > 1e-3 * INFINITE).any(-1)
            if bool(far.any()):
                return f"{name} grows without end, and the limit is another family.", far
        if self.family.name in _NO_MEMBER_AT_ENDS and "probs" in self.shapes:
            probs = parameters["probs"].detach().reshape(len(parameters["probs"]), -1)
            end = (torch.minimum(probs, 1 - probs) < _NEAR_END).any(-1)
            if bool(end.any()):
                return "probs goes to an end of its interval, which is no member.", end
        return "", torch.zeros(1, dtype=torch.bool)

    def leaves(self) -> Callable[[Tensor], Tensor] | None:
        """A function that says which points (B, k) `limit_at` will report, if the family has such limits."""
        if not self._may_be_infinite():
            return None
        return lambda point: self.limit_at(self.unpack(point))[1].expand(len(point))

    def is_member(self, point: Tensor) -> Tensor:
        """(B,): False where a parameter has left for infinity, where log-densities have no correct digits."""
        names = self._may_be_infinite()
        inside = torch.ones(point.shape[0], dtype=torch.bool, device=point.device)
        if names:
            parameters = self.unpack(point.detach())
            for name in names:
                inside = inside & (parameters[name].reshape(len(point), -1) < INFINITE).all(-1)
        return inside

    def _may_be_infinite(self) -> list[str]:
        names = _MAY_BE_INFINITE.get(self.family.name, ()) if self.family.is_torch_family() else ()
        return [name for name in names if name in self.shapes]


@cache
def _plain_family(family: type[Distribution] | str) -> Family:
    return Family(family)


def as_family(family: object) -> Family:
    """A family from a class, a name or a `Family`."""
    if isinstance(family, Family):
        return family
    if isinstance(family, Distribution):
        raise InputTypeError(
            explain_problem(
                "A family is a class, not one of its members.",
                got=f"a {type(family).__name__} object",
                expected="a class, a name or a Family",
                instead=f"project(target, {type(family).__name__})",
            )
        )
    if isinstance(family, str) or (isinstance(family, type) and issubclass(family, Distribution)):
        return _plain_family(family)  # type: ignore[arg-type]
    raise _not_a_family(family)


def family_names() -> list[str]:
    """The names of all families that this torch has, and "DiagonalNormal"."""
    return [name for name in PARAMETERS if hasattr(td, name) or name == "DiagonalNormal"]


def _free_kinds(family: Family) -> dict[str, str]:
    kinds = family.kinds()
    return {"mixture_probs": "simplex", **kinds} if family.components > 1 else kinds


def _not_a_family(family: object) -> InputTypeError:
    return InputTypeError(
        explain_problem(
            "A family is a distribution class, its name or a Family.",
            got=f"{family!r}" if isinstance(family, type) else type(family).__name__,
            expected='for instance torch.distributions.Normal, "Normal" or Family("Normal", components=2)',
        )
    )


def _parse_name(text: str) -> tuple[str, int]:
    match = re.fullmatch(r"\s*(?:mixture\(\s*(\w+)\s*,\s*(\d{1,4})\s*\)|(\w+))\s*", text, flags=re.IGNORECASE)
    if match is None:
        raise InputValueError(
            explain_problem(
                "A family is named by one word, or as a mixture.",
                got=repr(text[:80]),
                expected='for instance "Normal" or "Mixture(Normal, 2)"',
            )
        )
    name = match.group(1) or match.group(3)
    known = {known.lower(): known for known in family_names()}
    if name.lower() not in known:
        near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
        raise InputValueError(
            explain_problem(
                f"There is no family {name!r}.",
                expected=f"one of {', '.join(family_names())}",
                instead=" or ".join(repr(known[found]) for found in near),
            )
        )
    return known[name.lower()], int(match.group(2) or 0)
