"""Panels and their rule: exact on polynomials, graded to any scale, honest about corners."""

from __future__ import annotations

import math

import pytest
import torch

from kullback.integrate import falling, graded_panels, integrate, ladder, place_nodes, split_panels, tightened

t = lambda *x: torch.tensor(x, dtype=torch.float64)  # noqa: E731


def test_polynomials_up_to_degree_31_are_exact() -> None:
    nodes = place_nodes(t(-1.0, 0.5, 2.0))
    for degree in (0, 7, 31):
        found = integrate(nodes.at**degree * nodes.log_weight.exp())
        want = (2.0 ** (degree + 1) - (-1.0) ** (degree + 1)) / (degree + 1)
        assert found.value.item() == pytest.approx(want, rel=1e-14)


def test_a_panel_of_no_width_weighs_nothing_and_has_no_nan_gradient() -> None:
    edge = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    edges = torch.stack([t(0.0)[0], edge, edge, t(1.0)[0]])
    nodes = place_nodes(edges)
    value = integrate(torch.exp(nodes.at) * nodes.log_weight.exp()).value
    assert value.item() == pytest.approx(math.e - 1, rel=1e-14)
    value.backward()
    assert edge.grad.item() == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("width", [1.0, 1e-4, 1e-8, 1e-12])
def test_grading_resolves_any_width(width: float) -> None:
    """∫ w/(π(w² + y²)) dy, a pole at distance w from the axis, on the range [−1e3, 1e3]."""
    rungs = ladder(t(0.0), t(width))
    span = falling(rungs, torch.where(rungs.at.abs() <= 1e3, 0.0, -math.inf).to(torch.float64))
    edges = graded_panels(span, 64)
    nodes = place_nodes(edges)
    found = integrate(width / math.pi / (width**2 + nodes.at**2) * nodes.log_weight.exp())
    want = (math.atan(edges[-1].item() / width) - math.atan(edges[0].item() / width)) / math.pi
    assert found.value.item() == pytest.approx(want, rel=1e-12)
    assert abs(found.value.item() - want) <= found.error.item()


@pytest.mark.parametrize("corner", [0.3, 1 / math.pi, 0.7071])
def test_the_error_contains_the_truth_at_a_corner(corner: float) -> None:
    edges = torch.linspace(0, 1, 8, dtype=torch.float64)
    exact = (corner**2 + (1 - corner) ** 2) / 2 + 100
    for _ in range(8):
        nodes = place_nodes(edges)
        found = integrate(((nodes.at - corner).abs() + 100) * nodes.log_weight.exp())
        assert abs(found.value.item() - exact) <= found.error.item()
        parts = torch.where(found.panel_error > 1e-13, 6, 1)
        edges = split_panels(edges, parts, int(parts.sum()))
    assert found.value.item() == pytest.approx(exact, rel=1e-13)


def test_batches_share_nothing() -> None:
    centres, widths = t(0.0, 0.5).reshape(2, 1), t(1.0, 1e-3).reshape(2, 1)
    rungs = ladder(centres, widths)
    log_size = -(((rungs.at - centres) / widths) ** 2) / 2 - torch.log(widths)
    nodes = place_nodes(graded_panels(falling(rungs, log_size), 24))
    density = torch.exp(-(((nodes.at - centres) / widths) ** 2) / 2) / widths / math.sqrt(2 * math.pi)
    torch.testing.assert_close(integrate(density * nodes.log_weight.exp()).value, t(1.0, 1.0), rtol=1e-12, atol=0)


@pytest.mark.parametrize("fall", [lambda y: y * y / 2, torch.abs, lambda y: torch.exp(y.abs()) - 1])
def test_a_tightened_range_leaves_nothing_out(fall) -> None:
    rungs = ladder(t(0.0), t(1.0))
    wide = falling(rungs, -fall(rungs.at))
    tight = tightened(wide, -fall(rungs.at))
    for outer, inner, sign in zip(wide.ends(), tight.ends(), (-1.0, 1.0), strict=True):
        assert 0 < sign * inner.item() <= sign * outer.item()
        assert fall(inner).item() >= 37.9
