"""A target as a function x ↦ log f(x): checks its values, finds its mass. Called by `reverse.py`, `divergence.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, biject_to, constraints

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback.fit.families import Family
from kullback.fit.newton import Search, minimise
from kullback.fit.nodes import log_cosh, log_weighted_points, pilot_samples, tau_nodes
from kullback.fit.starts import support_of

_SCAN_POINTS = 4001
_MODE_STARTS = 32
_MAX_EDGE_MASS = 0.01


@dataclass
class LogTarget:
    """log f(x) for x of shape (…) + event_shape, as float64 of shape (…).

    Attributes:
        function: The user's function or a distribution's `log_prob`.
        event_shape: () or (d,).
        support: Where a distribution's density may be asked for; None for a user's function.
        place: A point around which to look for the mass of a user's function.
    """

    function: Callable[[Tensor], Tensor]
    event_shape: torch.Size
    support: Any = None
    place: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        """Log f at the points."""
        if self.support is not None:
            inside = self.support.check(x)
            anchor = x[inside][:1] if bool(inside.any()) else None
            if anchor is None:
                return x.new_full(x.shape[: x.dim() - len(self.event_shape)], -torch.inf)
            keep = inside.reshape(*inside.shape, *([1] * len(self.event_shape)))
            value = self.function(torch.where(keep, x, anchor[0])).to(torch.float64)
            return torch.where(inside, value, -torch.inf)
        value = self.function(x)
        return self._checked(value, x)

    def _checked(self, value: object, x: Tensor) -> Tensor:
        wanted = x.shape[: x.dim() - len(self.event_shape)]
        if not isinstance(value, Tensor):
            raise InputTypeError(
                explain_problem(
                    "The log-density returns a tensor.",
                    got=type(value).__name__,
                    expected="torch operations on x, so that derivatives are known",
                    instead="lambda x: -x**2 / 2",
                )
            )
        if value.shape != wanted:
            raise ShapeError(
                explain_problem(
                    "The log-density returns one number per point.",
                    got=f"shape {tuple(value.shape)} for x of shape {tuple(x.shape)}",
                    expected=f"shape {tuple(wanted)}",
                    instead="lambda x: -(x**2).sum(-1) / 2" if self.event_shape else "lambda x: -x**2 / 2",
                )
            )
        bad = value.isnan() | (value == torch.inf)
        if bool(bad.any()):
            at = bad.nonzero()[0]
            raise InputValueError(
                explain_problem(
                    f"The log-density is {value[tuple(at)].item()} at a point.",
                    got=f"x = {x[tuple(at)].tolist()}",
                    expected="a finite number, or -inf where the density is zero",
                    instead="torch.where(inside, log_density, -torch.inf) with a safe argument in both branches",
                )
            )
        return value.to(torch.float64)


def log_target_of(
    target: Distribution | None,
    function: Callable[[Tensor], Tensor] | None,
    family: Family,
    dim: int | None,
    start: Tensor | None,
) -> LogTarget:
    """The target of a reverse projection as a function."""
    if target is not None:
        if len(target.event_shape) != family.event_dim:
            raise ShapeError(
                explain_problem(
                    f"Events of the target have {len(target.event_shape)} dimensions, those of {family.name} "
                    f"{family.event_dim}.",
                    got=f"{type(target).__name__} with event_shape {tuple(target.event_shape)}",
                    expected="a family over events of the same shape",
                )
            )
        support: constraints.Constraint | None = target.support
        return LogTarget(target.log_prob, target.event_shape, None if support is constraints.real else support)
    assert function is not None
    place = None if start is None else torch.as_tensor(start, dtype=torch.float64)
    if family.event_dim == 0:
        return LogTarget(function, torch.Size(), place=place)
    size = dim if dim is not None else (place.shape[-1] if place is not None and place.dim() else None)
    if size is None:
        raise InputValueError(
            explain_problem(
                "The number of dimensions of a log-density is not known.",
                got=f"a function and the family {family}",
                expected="dim= or start=",
                instead=f'project(log_density, "{family.name}", direction="reverse", dim=2)',
            )
        )
    return LogTarget(function, torch.Size([size]), place=place)


def starting_points(p: Distribution | None, log_target: LogTarget, family: Family, seed: int) -> tuple[Tensor, Tensor]:
    """Points (n, 1, …) and weights (n, 1) that roughly are the target, for starting values."""
    if p is not None:
        if p.event_shape == ():
            x, log_w = log_weighted_points(p.expand(torch.Size([1])))
            w = log_w.exp()
            inside = _inside(family, x)
            w = torch.where(inside, w, 0.0)
            x = torch.where(inside, x, x[inside][:1] if bool(inside.any()) else x)
            return x.detach().to(torch.float64), (w / w.sum()).detach().to(torch.float64)
        x = pilot_samples(p, 4096, seed).to(torch.float64)[:, None]
        return x, x.new_full((len(x), 1), 1 / len(x))
    if log_target.event_shape == ():
        x, log_w = scan(log_target, family)
        return x, log_w.softmax(0)
    return _around_modes(log_target, seed)


def _inside(family: Family, x: Tensor) -> Tensor:
    support: Any = support_of(family)
    if support is None or support.event_dim:
        return torch.ones_like(x, dtype=torch.bool)
    inside: Tensor = support.check(x)
    if not support.is_discrete and support is not constraints.real:
        inside = inside & biject_to(support).inv(x).isfinite()
    return inside


def scan(log_target: LogTarget, family: Family) -> tuple[Tensor, Tensor]:
    """Points (n, 1) and log-weights (n, 1) of f over the family's support: a wide search, then a finer one."""
    support: Any = support_of(family) or constraints.real
    place = log_target.place
    if support.is_discrete:
        first = 0.0 if place is None else max(float(place.reshape(-1)[0].round()) - _SCAN_POINTS // 2, 0.0)
        x = first + torch.arange(_SCAN_POINTS, dtype=torch.float64)[:, None]
        x = x[support.check(x).flatten()]
        log_w = log_target(x).detach()
        _refuse_mass_at_the_edge(log_w[:, 0], upper_only=True)
        return x, log_w
    if family.name == "VonMises":
        support = constraints.interval(-math.pi, math.pi)  # type: ignore[no-untyped-call]
    to_support = biject_to(support)
    centre = torch.zeros((), dtype=torch.float64) if place is None else to_support.inv(place.reshape(-1)[0])
    # From 1e-3 to 1e8 around the centre; on a half-line or an interval the variable is a logarithm already.
    reach = 22.0 if support is constraints.real else 4.5
    tau = torch.linspace(-reach, reach, _SCAN_POINTS, dtype=torch.float64)
    step = math.log(2 * reach / (_SCAN_POINTS - 1))
    t = centre + torch.sinh(tau) * (1.0 if support is not constraints.real else 0.1)
    with torch.no_grad():
        for _ in range(2):
            log_w = _log_f(log_target, to_support, t) + log_cosh(tau) + step
            _refuse_mass_at_the_edge(log_w)
            w = log_w.softmax(0)
            centre = (w * t).sum()
            spread = (w * (t - centre).square()).sum().sqrt().clamp(min=1e-12 * (1 + centre.abs()))
            tau, weight = tau_nodes()
            t = centre + spread * torch.sinh(tau)
        x = to_support(t)
        log_w = _log_f(log_target, to_support, t) + log_cosh(tau) + weight.log() + spread.log()
        usable = x.isfinite() & log_w.isfinite()
    return x[usable][:, None], log_w[usable][:, None]


def _refuse_mass_at_the_edge(log_w: Tensor, *, upper_only: bool = False) -> None:
    """Raise if f does not decrease where the search ends: it has no integral, or its mass is elsewhere."""
    if not bool((log_w > -torch.inf).any()):
        raise InputValueError(
            explain_problem(
                "The log-density is -inf wherever it was looked for.",
                expected="a density with mass around `start`",
                instead="start=torch.tensor(x0), a point where the density is positive",
            )
        )
    w = log_w.softmax(0)
    width = max(len(w) // 50, 1)
    edge = w[-width:].sum() if upper_only else w[-width:].sum() + w[:width].sum()
    if bool(edge > _MAX_EDGE_MASS):
        raise InputValueError(
            explain_problem(
                "The log-density does not decrease toward the ends, so its density has no finite integral there.",
                got=f"{edge.item():.0%} of the mass at the ends of the search",
                expected="the logarithm of a density with a finite integral",
                instead="start=torch.tensor(x0) if the mass is around x0, far from 0",
            )
        )


def _log_f(log_target: LogTarget, to_support: Any, t: Tensor) -> Tensor:
    x = to_support(t)
    usable = x.isfinite() & to_support.inv(x).isfinite()
    safe_t = torch.where(usable, t, t[len(t) // 2])
    safe_x = to_support(safe_t)
    value = log_target(safe_x) + to_support.log_abs_det_jacobian(safe_t, safe_x)
    return torch.where(usable, value, -torch.inf)


def _around_modes(log_target: LogTarget, seed: int) -> tuple[Tensor, Tensor]:
    """Points from normal approximations at the modes that Newton steps find."""
    dim = log_target.event_shape[0]
    generator = torch.Generator().manual_seed(seed)
    place = torch.zeros(dim, dtype=torch.float64) if log_target.place is None else log_target.place.reshape(-1, dim)[0]
    start = place + 2 * torch.randn(_MODE_STARTS, dim, generator=generator, dtype=torch.float64)
    start[0] = place
    with torch.no_grad():
        start = start[log_target(start) > -torch.inf]
    if not len(start):
        raise InputValueError(
            explain_problem(
                "The log-density is -inf at all starting points.",
                instead="start=torch.tensor([...]), a point where the density is positive",
            )
        )
    found = minimise(lambda x: -log_target(x), start, Search(max_iterations=50))
    values, vectors = torch.linalg.eigh(found.hessian.nan_to_num())
    width = values.clamp(min=1e-4).rsqrt().clamp(max=10.0)
    z = torch.randn(256, len(start), dim, generator=generator, dtype=torch.float64)
    x = found.point + torch.einsum("bij,bj,nbj->nbi", vectors, width, z)
    x = x.reshape(-1, dim)
    x = x[x.isfinite().all(-1)]
    with torch.no_grad():
        log_f = log_target(x)
    # Half-way between equal weights and f: single points would take all the weight in many dimensions.
    return x[:, None], (0.5 * log_f)[:, None].softmax(0)
