"""Pictures of vector and matrix distributions, from draws: the log-ratio, whose mean is KL, and one coordinate.

They are for looking at; values come from `kl_with_error`. `of_distributions.py` calls `draw_vectors`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.distributions import Beta, Distribution, LKJCholesky

from kullback.diagnose.curves import is_discrete
from kullback.diagnose.explanation import Term
from kullback.report.page import Figure, Series

_DRAWS = 4000
_FEWEST_DRAWS = 200
_MAX_ELEMENTS = 1 << 23
_BINS = 48
# The share of draws at each side that histograms leave out, so that a heavy tail does not flatten the rest.
_LEFT_OUT = 0.005
_MAX_BARS = 12


def draw_vectors(
    p: Distribution, q: Distribution, batch: torch.Size, index: tuple[int, ...], terms: Sequence[Term]
) -> list[Figure]:
    """What dimensions add, the log-ratio of densities under p and under q, and the coordinate that differs most."""
    figures = [_by_dimension(terms)] if terms else []
    count = min(_DRAWS, _MAX_ELEMENTS // max(batch.numel() * p.event_shape.numel(), 1))
    if count < _FEWEST_DRAWS:
        return figures
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            drawn = [draw(d.expand(batch), count) for d in (p, q)]
        ratios = [_element(_log_ratio(p, q, x), index) for x in drawn]
    except (NotImplementedError, ValueError, RuntimeError):  # a class that cannot be sampled or evaluated
        return figures
    found = _log_ratios(ratios)
    if found is not None:
        figures.append(found)
    own = [_element(x, index).reshape(count, -1) for x in drawn]
    figures.append(_coordinate(own, p.event_shape, discrete=is_discrete(p)))
    return figures


def draw(d: Distribution, count: int) -> Tensor:
    """So many draws."""
    return _draw_cholesky(d, count) if isinstance(d, LKJCholesky) else d.sample(torch.Size([count]))


def _draw_cholesky(d: LKJCholesky, count: int) -> Tensor:
    """Row i is √y·u with u uniform on the sphere and y ~ Beta(i/2, η + (dim − 1 − i)/2).

    torch 2.13 draws y from Beta(i − ½, …), which is another distribution than its log_prob from dim = 3 on.
    """
    shape = count, *d.batch_shape
    found = d.concentration.new_zeros((*shape, d.dim, d.dim))
    found[..., 0, 0] = 1
    for i in range(1, d.dim):
        first = torch.full_like(d.concentration, i / 2)
        y = Beta(first, d.concentration + (d.dim - 1 - i) / 2).sample(torch.Size([count]))
        direction = torch.nn.functional.normalize(torch.randn((*shape, i), dtype=found.dtype), dim=-1)
        found[..., i, :i] = y.sqrt().unsqueeze(-1) * direction
        found[..., i, i] = (1 - y).sqrt()
    return found


def _by_dimension(terms: Sequence[Term]) -> Figure:
    shown = terms[:_MAX_BARS]
    labels = [term.label for term in shown]
    series = [
        Series("adds to KL(p ‖ q)", labels, [term.contribution for term in shown], "bars", 0),
        Series("adds to KL(q ‖ p)", labels, [term.reverse for term in shown], "bars", 1),
    ]
    return Figure("Dimensions that add most to KL(p ‖ q)", series)


def _log_ratio(p: Distribution, q: Distribution, x: Tensor) -> Tensor:
    return (p.log_prob(x) - q.log_prob(x)).detach()


def _element(values: Tensor, index: tuple[int, ...]) -> Tensor:
    """One batch element of each draw."""
    for at in index:
        values = values[:, at]
    return values.double().cpu()


def _log_ratios(ratios: Sequence[Tensor]) -> Figure | None:
    finite = [values[values.isfinite()] for values in ratios]
    if min(map(len, finite)) < _FEWEST_DRAWS or float(torch.cat(finite).std()) == 0:
        return None
    edges = _edges(finite)
    series = [
        _histogram("under p; its mean is KL(p ‖ q)", finite[0], edges, 0),
        _histogram("under q; its mean is −KL(q ‖ p)", finite[1], edges, 1),
    ]
    return Figure("log p(x)/q(x) of draws x", series, x_label="log p(x)/q(x)", marks=[(0.0, "p = q at")])


def _coordinate(own: Sequence[Tensor], event: torch.Size, *, discrete: bool) -> Figure:
    x, y = own
    spread = (x.std(0) + y.std(0)).clamp_min(1e-300)
    apart = ((x.mean(0) - y.mean(0)).abs() + (x.std(0) - y.std(0)).abs()) / spread
    at = int(apart.nan_to_num(0.0).argmax())
    place = torch.unravel_index(torch.tensor(at), event)
    name = f"x[{', '.join(str(int(i)) for i in place)}]"
    first, second = x[:, at], y[:, at]
    title = f"Draws of {name}, the coordinate that differs most"
    if discrete:
        outcomes = torch.unique(torch.cat([first, second]))[: 2 * _BINS]
        shares = [(values[:, None] == outcomes).double().mean(0).tolist() for values in (first, second)]
        series = [
            Series(who, outcomes.tolist(), share, "bars", at)
            for at, (who, share) in enumerate(zip("pq", shares, strict=True))
        ]
        return Figure(title, series, x_label=name)
    edges = _edges([first, second])
    return Figure(title, [_histogram("p", first, edges, 0), _histogram("q", second, edges, 1)], x_label=name)


def _edges(sides: Sequence[Tensor]) -> Tensor:
    low = min(float(torch.quantile(values, _LEFT_OUT)) for values in sides)
    high = max(float(torch.quantile(values, 1 - _LEFT_OUT)) for values in sides)
    if not high - low > 1e-12 * max(abs(low), abs(high)):
        low, high = low - 0.5, high + 0.5
    return torch.linspace(low, high, _BINS + 1, dtype=torch.float64)


def _histogram(name: str, values: Tensor, edges: Tensor, color: int) -> Series:
    """The density of draws as a line: a share per bin, divided by its width."""
    counts = torch.histogram(values.contiguous(), edges).hist
    density = counts / (len(values) * (edges[1:] - edges[:-1]))
    middle = (edges[1:] + edges[:-1]) / 2
    return Series(name, middle.tolist(), density.tolist(), "line" if color else "area", color, dashed=bool(color))
