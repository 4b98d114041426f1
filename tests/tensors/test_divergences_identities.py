"""Identities and bounds that hold for any two distributions."""

import itertools
import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kullback as kb
from tests.tensors.divergences import DIVERGENCES, SYMMETRIC

NUMBERS = st.one_of(st.floats(-30, 30, width=32), st.just(-math.inf), st.sampled_from([0.0, 1.0, -400.0]))


@st.composite
def rows(draw):
    size = draw(st.integers(1, 5))
    base = [draw(st.lists(NUMBERS, min_size=size, max_size=size)) for _ in range(2)]
    if draw(st.booleans()):  # next to each other
        gap = draw(st.sampled_from([1e-14, 1e-8, 1e-3]))
        base[1] = [v + gap * draw(st.floats(-1, 1)) for v in base[0]]
    tensors = [torch.tensor(b, dtype=torch.float64) for b in base]
    return tuple(torch.where(t.isinf().all(), torch.zeros_like(t), t) for t in tensors)


def at_most(smaller, larger):
    """Accuracy is promised down to 1e-28; below it squares underflow and the order of two roundings means nothing."""
    return bool(smaller <= larger.double() * (1 + 1e-13) + 1e-28)


def same(x, y):
    return bool(x == y) or at_most((x - y).abs(), 1e-12 * torch.maximum(x, y))


@settings(max_examples=30, deadline=None)
@given(rows())
@example((torch.tensor([0.0, -math.inf]).double(), torch.tensor([-math.inf, 0.0]).double()))
def test_bounds_and_identities(pair):
    p, q = (kb.Logits(t) for t in pair)
    js, tv, h = kb.js(p, q), kb.total_variation(p, q), kb.hellinger(p, q)
    assert at_most(js, torch.tensor(math.log(2)))
    assert at_most(tv, torch.tensor(1.0))
    assert at_most(h * h, tv)
    assert at_most(tv, math.sqrt(2) * h)
    assert same(kb.js_distance(p, q) ** 2, js)
    assert same(kb.scaled_js(p, q, 0.5), 4 * js)
    assert same(kb.scaled_js(p, q, 0.0), kb.kl(p, q))
    assert same(kb.scaled_js(p, q, 1.0), kb.kl(q, p))
    assert same(kb.skew_kl(p, q, 0.0), kb.kl(p, q))
    assert kb.skew_kl(p, q, 1.0) == 0
    assert same(kb.jeffreys(p, q), kb.kl(p, q) + kb.kl(q, p))
    assert same(0.5 * kb.skew_kl(p, q, 0.5) + 0.5 * kb.skew_kl(q, p, 0.5), js)
    if h < 0.999:
        assert same(kb.renyi(p, q, 0.5), -2 * torch.log1p(-h * h))
    if kb.chi2(p, q) < 1e100:
        assert same(kb.renyi(p, q, 2.0), torch.log1p(kb.chi2(p, q)))
    assert at_most(kb.kl(p, q), kb.renyi(p, q, 2.0))
    assert at_most(kb.skew_kl(p, q, 0.1), torch.tensor(-math.log(0.1)))
    assert at_most(2 * tv * tv, kb.kl(p, q))


@settings(max_examples=20, deadline=None)
@given(rows())
def test_renyi_grows_with_its_order(pair):
    p, q = (kb.Logits(t) for t in pair)
    orders = [0.0, 1e-12, 0.2, 0.5, 1 - 1e-12, 1.0, 1 + 1e-12, 3.0, 100.0, 1e9, math.inf]
    values = [kb.renyi(p, q, order) for order in orders]
    assert all(at_most(x, y) for x, y in itertools.pairwise(values))


@settings(max_examples=20, deadline=None)
@given(rows())
def test_never_negative_symmetric_where_promised_and_zero_for_equals(pair):
    p, q = (kb.Logits(t) for t in pair)
    for name, f in DIVERGENCES.items():
        value = f(p, q)
        assert value >= 0, name
        assert f(p, p) == 0, name
        if name in SYMMETRIC:
            assert same(value, f(q, p)), name


@pytest.mark.parametrize("beta", [1e-300, 1e-12, 1e-3, 0.5, 0.999, 1 - 1e-12])
def test_scaled_js_is_continuous_where_the_generalised_jsd_jumps(beta):
    p, q = (kb.Probs(torch.tensor(t, dtype=torch.float64)) for t in ([0.7, 0.2, 0.1], [0.1, 0.2, 0.7]))
    forward, backward = kb.kl(p, q), kb.kl(q, p)
    value = kb.scaled_js(p, q, beta)
    near, distance = (forward, beta) if beta < 0.5 else (backward, 1 - beta)
    assert (value - near).abs() <= 2 * distance + 1e-15
    middle = kb.Probs(beta * p.tensor + (1 - beta) * q.tensor)
    if 1e-4 < beta < 1 - 1e-4:
        gjsd = beta * kb.kl(p, middle) + (1 - beta) * kb.kl(q, middle)
        assert torch.allclose(beta * (1 - beta) * value, gjsd, rtol=1e-11)


def test_jensen_shannon_of_near_equal_rows_is_a_number():
    p = torch.tensor([1 / 3, 1 / 3, 1 / 3], dtype=torch.float64)
    for step in range(-4, 5):
        q = p.clone()
        q[0] = q[0] + step * 2.0**-54
        distance = kb.js_distance(kb.Probs(p), kb.Probs(q))
        assert distance >= 0
        assert (distance == 0) == bool((p == q).all())


def test_the_four_things_called_jsd():
    p, q = kb.Probs(torch.tensor([1.0, 0.0]).double()), kb.Probs(torch.tensor([0.0, 1.0]).double())
    assert kb.js(p, q).item() == pytest.approx(math.log(2), rel=1e-15)
    assert kb.js(p, q, base=2).item() == pytest.approx(1.0, rel=1e-15)
    assert kb.js_distance(p, q).item() == pytest.approx(math.sqrt(math.log(2)), rel=1e-15)
    assert kb.js_distance(p, q, base=2).item() == pytest.approx(1.0, rel=1e-15)
