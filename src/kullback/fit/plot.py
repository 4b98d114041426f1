"""Pictures of a projection with matplotlib, which is the extra `plot`. Called by `Projection.plot`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import KullbackError, NoRouteError, explain_problem
from kullback._core.extras import import_extra
from kullback.fit.nodes import is_discrete, pilot_samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kullback.fit.project import Direction
    from kullback.fit.projection import Projection

_TARGET, _FORWARD, _REVERSE = "#7f7f7f", "#0072b2", "#d55e00"
_CURVE_POINTS = 500
_GRID = 140


def draw(projection: Projection) -> Figure:
    """The target, the fit, and the fit of the other direction where the target has both."""
    figure = _new_figure()
    ax = figure.subplots()
    fits = _fits(projection)
    event = fits[0][1].event_shape
    if fits[0][1].batch_shape != () or len(event) > 1 or (len(event) == 1 and event[0] != 2):
        raise NoRouteError(
            explain_problem(
                "A picture shows one distribution of one or two dimensions.",
                got=f"batch_shape {tuple(fits[0][1].batch_shape)}, event_shape {tuple(event)}",
                expected="an event_shape of () or (2,)",
            )
        )
    if len(event) == 1:
        _draw_plane(ax, projection, fits)
    elif is_discrete(fits[0][1]):
        _draw_bars(ax, projection, fits)
    else:
        _draw_curves(ax, projection, fits)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"{projection.family}", loc="left", fontsize=10)
    return figure


def _new_figure() -> Figure:
    pyplot = import_extra("matplotlib.pyplot", extra="plot", purpose="Plots need")
    return cast("Figure", pyplot.figure(figsize=(6.4, 3.6), layout="constrained"))


def _fits(projection: Projection) -> list[tuple[str, Distribution, str]]:
    """Name, distribution and colour of every fit."""
    from kullback.fit.project import project

    own = _FORWARD if projection.direction == "forward" else _REVERSE
    fits = [(f"{projection.direction}, KL {projection.kl.sum().item():.3g}", projection.distribution, own)]
    target = projection._target
    if target is None or target.distribution is None:
        return fits
    other: Direction = "reverse" if projection.direction == "forward" else "forward"
    try:
        found = project(target.distribution, projection.family, direction=other, quiet=True)
    except (KullbackError, NotImplementedError):
        return fits
    color = _REVERSE if other == "reverse" else _FORWARD
    return [*fits, (f"{other}, KL {found.kl.sum().item():.3g}", found.distribution, color)]


def _range(draws: list[Tensor]) -> tuple[float, float]:
    both = torch.cat([each.flatten().to(torch.float64) for each in draws])
    low, high = torch.quantile(both[: 1 << 16], torch.tensor([0.005, 0.995], dtype=torch.float64)).tolist()
    margin = 0.15 * (high - low) or 1.0
    return low - margin, high + margin


def _draws(projection: Projection, fits: list[tuple[str, Distribution, str]]) -> list[Tensor]:
    target = projection._target
    draws = [pilot_samples(each, 1024) for _, each, _ in fits]
    if target is not None and target.distribution is not None:
        draws.append(pilot_samples(target.distribution, 1024))
    elif target is not None and target.points is not None:
        draws.append(target.points.x.detach())
    return draws


def _draw_curves(ax: Any, projection: Projection, fits: list[tuple[str, Distribution, str]]) -> None:
    low, high = _range(_draws(projection, fits))
    x = torch.linspace(low, high, _CURVE_POINTS, dtype=torch.float64)
    target = projection._target
    if target is not None and target.kind == "samples" and target.points is not None:
        points = target.points
        ax.hist(
            points.x.detach().reshape(-1).numpy(),
            bins=min(60, max(8, int(math.sqrt(len(points.x))))),
            weights=points.w.detach().expand(points.x.reshape(len(points.x), -1).shape).reshape(-1).numpy(),
            density=True,
            range=(low, high),
            color=_TARGET,
            alpha=0.4,
            label="samples",
        )
    elif target is not None and target.distribution is not None:
        ax.fill_between(x, _density(target.distribution, x), color=_TARGET, alpha=0.4, label="target")
    elif target is not None and target.log_density is not None:
        y = (target.log_density(x) - (projection.log_normalizer or 0.0)).exp().detach()
        ax.fill_between(x, y, color=_TARGET, alpha=0.4, label="target")
    for name, each, color in fits:
        ax.plot(x, _density(each, x), color=color, linewidth=1.8, label=name)
    ax.set_ylim(bottom=0)
    ax.legend(frameon=False, fontsize=9)


def _density(d: Distribution, x: Tensor) -> Tensor:
    """The density, and 0 outside the support."""
    support: Any = d.support
    inside = support.check(x)
    anchor = pilot_samples(d, 1)[0].to(x)
    with torch.no_grad():
        density = d.log_prob(torch.where(inside, x, anchor)).exp().to(torch.float64)
    return torch.where(inside & density.isfinite(), density, 0.0)


def _draw_bars(ax: Any, projection: Projection, fits: list[tuple[str, Distribution, str]]) -> None:
    target = projection._target
    low, high = _range(_draws(projection, fits))
    x = torch.arange(max(0, math.floor(low)), math.ceil(high) + 1, dtype=torch.float64)
    if target is not None and target.distribution is not None:
        ax.bar(x, _density(target.distribution, x), color=_TARGET, alpha=0.4, label="target")
    elif target is not None and target.points is not None:
        values, w = target.points.x.detach().reshape(-1), target.points.w.detach().reshape(-1)
        heights = torch.stack([w[values == each].sum() for each in x])
        ax.bar(x, heights, color=_TARGET, alpha=0.4, label="data")
    for name, each, color in fits:
        ax.plot(x, _density(each, x), "o-", color=color, markersize=4, linewidth=1, label=name)
    ax.legend(frameon=False, fontsize=9)


def _draw_plane(ax: Any, projection: Projection, fits: list[tuple[str, Distribution, str]]) -> None:
    draws = [each.reshape(-1, 2) for each in _draws(projection, fits)]
    (left, right), (bottom, top) = (_range([each[:, axis] for each in draws]) for axis in (0, 1))
    across = torch.linspace(left, right, _GRID, dtype=torch.float64)
    up = torch.linspace(bottom, top, _GRID, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(across, up, indexing="xy"), dim=-1)
    target = projection._target
    if target is not None and target.kind == "samples":
        ax.plot(draws[-1][:, 0], draws[-1][:, 1], ".", color=_TARGET, markersize=2, alpha=0.5)
    elif target is not None:
        function = target.log_density or (target.distribution.log_prob if target.distribution else None)
        assert function is not None
        with torch.no_grad():
            density = function(grid).exp()
        ax.contourf(across, up, density, levels=12, cmap="Greys")
    for name, each, color in fits:
        with torch.no_grad():
            log_q = each.log_prob(grid)
        peak = float(log_q.max())
        # The contours of a normal distribution at one and two standard deviations.
        ax.contour(across, up, log_q, levels=[peak - 2.0, peak - 0.5], colors=color, linewidths=1.5, linestyles="solid")
        ax.plot([], [], color=color, label=name)
    ax.legend(frameon=False, fontsize=9)
