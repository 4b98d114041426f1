"""Formulas that others registered with torch: answered with method "torch", before and after installing."""

from typing import ClassVar

import pytest
import torch
from torch import distributions as d
from torch.distributions import constraints
from torch.distributions import kl as torch_kl

import kullback as kb


class TruncatedNormal(d.Normal):
    """A user's subclass with a formula of its own."""


class Delta(d.Distribution):
    """An atom, as Pyro has it."""

    arg_constraints: ClassVar = {"v": constraints.real}
    support = constraints.real

    def __init__(self, v, event_dim=0):
        self.v = v
        batch, event = v.shape[: v.dim() - event_dim], v.shape[v.dim() - event_dim :]
        super().__init__(batch, event, validate_args=False)

    def log_prob(self, value):
        inside = (value == self.v).to(self.v.dtype).log()
        return inside.sum(tuple(range(-len(self.event_shape), 0))) if self.event_shape else inside


class Masked(d.Distribution):
    """A distribution of which some batch elements do not count, as Pyro has it."""

    arg_constraints: ClassVar = {}

    def __init__(self, base, mask):
        self.base_dist, self.mask = base, mask
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)

    def log_prob(self, value):
        return torch.where(self.mask, self.base_dist.log_prob(value), 0.0)


def kl_truncated(p, q):
    return torch.full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), 7.0)


def kl_delta(p, q):
    return -q.log_prob(p.v)


def kl_masked(p, q):
    return torch.where(p.mask & q.mask, torch.distributions.kl_divergence(p.base_dist, q.base_dist), 0.0)


def kl_independent_joint(p, q):
    if isinstance(p.base_dist, Delta) and p.reinterpreted_batch_ndims == 1:
        return -q.log_prob(p.base_dist.v)
    raise NotImplementedError


def kl_ninety(p, q):
    return torch.full(torch.broadcast_shapes(p.batch_shape, q.batch_shape), 90.0)


@pytest.fixture
def register():
    """torch.distributions.register_kl, undone afterwards."""
    before = dict(torch_kl._KL_REGISTRY)
    yield lambda p, q, formula: torch.distributions.register_kl(p, q)(formula)
    kb.uninstall_from_torch()
    torch_kl._KL_REGISTRY.clear()
    torch_kl._KL_REGISTRY.update(before)
    torch_kl._KL_MEMOIZE.clear()


@pytest.fixture(params=[False, True], ids=["before installing", "installed"])
def install(request):
    return kb.install_into_torch if request.param else lambda: None


def both(p, q):
    """kullback's answer, which must be torch's."""
    ours, theirs = kb.kl(p, q), torch.distributions.kl_divergence(p, q)
    torch.testing.assert_close(ours, theirs)
    return ours


def test_a_formula_for_a_subclass_holds_inside_structures(register, install):
    register(TruncatedNormal, d.Normal, kl_truncated)
    install()
    p, q = TruncatedNormal(torch.zeros(2), 1.0), d.Normal(torch.ones(2), 1.0)
    assert both(p, q).tolist() == [7.0, 7.0]
    assert both(d.Independent(p, 1), d.Independent(q, 1)) == 14.0
    maps = [d.TanhTransform(), d.AffineTransform(1.0, 2.0)]
    assert both(d.TransformedDistribution(p, maps), d.TransformedDistribution(q, maps)).tolist() == [7.0, 7.0]
    inner = d.Independent(d.TransformedDistribution(p, maps), 1), d.Independent(d.TransformedDistribution(q, maps), 1)
    assert both(*inner) == 14.0
    assert kb.kl_method(p, q) == kb.kl_method(d.Independent(p, 1), d.Independent(q, 1)) == "torch"
    assert kb.kl_with_error(p, q).method == kb.kl_with_error(*inner).method == "torch"
    # The other order has no formula of theirs: torch and kullback take the one of Normal.
    assert kb.kl(q, p).tolist() == [0.5, 0.5]


def test_a_replacement_of_a_pair_of_torch_stays(register, install):
    p, q = d.Normal(torch.zeros(3), 1.0), d.Normal(torch.ones(3), 1.0)
    assert kb.kl(p, q).tolist() == [0.5] * 3  # a formula that is remembered must not outlive the replacement
    install()
    register(d.Normal, d.Normal, kl_ninety)
    install()
    assert both(p, q).tolist() == [90.0] * 3
    assert both(d.Independent(p, 1), d.Independent(q, 1)) == 270.0
    maps = [d.ExpTransform()]
    assert both(d.TransformedDistribution(p, maps), d.TransformedDistribution(q, maps)).tolist() == [90.0] * 3
    kb.uninstall_from_torch()
    assert torch_kl._KL_REGISTRY[d.Normal, d.Normal] is kl_ninety


def test_a_replacement_answers_for_subclasses(register):
    p, q = d.Chi2(torch.tensor(3.0)), d.Chi2(torch.tensor(4.0))
    assert kb.kl(p, q) < 1
    register(d.Gamma, d.Gamma, kl_ninety)
    assert kb.kl(p, q) == 90.0


def test_a_formula_that_is_taken_back_is_forgotten(register):
    key = d.Normal, d.Normal
    before = torch_kl._KL_REGISTRY[key]
    p, q = d.Normal(0.0, 1.0), d.Normal(1.0, 1.0)
    register(*key, kl_ninety)
    assert kb.kl(p, q) == 90.0
    torch_kl._KL_REGISTRY[key] = before
    torch_kl._KL_MEMOIZE.clear()
    assert kb.kl(p, q) == 0.5


def test_register_kl_of_kullback_comes_first(register, install, monkeypatch):
    from kullback.pairs import registry

    monkeypatch.setattr(registry, "_rules", dict(registry._rules))
    register(TruncatedNormal, d.Normal, kl_ninety)
    kb.register_kl(TruncatedNormal, d.Normal)(kl_truncated)
    install()
    assert kb.kl(TruncatedNormal(0.0, 1.0), d.Normal(0.0, 1.0)) == 7.0
    assert kb.kl_method(TruncatedNormal(0.0, 1.0), d.Normal(0.0, 1.0)) == "user"


def test_classes_like_those_of_pyro(register, install):
    register(Delta, d.Distribution, kl_delta)
    register(Masked, Masked, kl_masked)
    register(d.Independent, d.MultivariateNormal, kl_independent_joint)
    install()
    generator = torch.Generator().manual_seed(5)
    v, loc = torch.randn(2, 4, 3, generator=generator)
    normal, joint = d.Normal(loc, 2.0), d.MultivariateNormal(loc, torch.eye(3))
    torch.testing.assert_close(both(Delta(v), normal), -normal.log_prob(v))
    torch.testing.assert_close(both(Delta(v, 1), joint), -joint.log_prob(v))
    torch.testing.assert_close(both(Delta(v, 1), d.Independent(normal, 1)), -normal.log_prob(v).sum(-1))
    torch.testing.assert_close(both(d.Independent(Delta(v), 1), joint), -joint.log_prob(v))
    torch.testing.assert_close(both(d.Independent(Delta(v), 1), d.Independent(normal, 1)), -normal.log_prob(v).sum(-1))
    mask = torch.rand(4, 3, generator=generator) < 0.5
    p, q = Masked(d.Normal(v, 1.0), mask), Masked(normal, torch.ones(4, 3, dtype=torch.bool))
    torch.testing.assert_close(both(p, q), torch.where(mask, kb.kl(d.Normal(v, 1.0), normal), 0.0))
    inside = both(d.Independent(p, 1), d.Independent(q, 1))
    torch.testing.assert_close(inside, torch.where(mask, kb.kl(d.Normal(v, 1.0), normal), 0.0).sum(-1))
    assert kb.kl_method(p, q) == kb.kl_method(Delta(v), normal) == "torch"
    # An entry for structures of theirs does not take over what kullback answers itself.
    assert kb.kl_method(d.Independent(normal, 1), joint) == "closed form"
    with pytest.raises(kb.NoRouteError):
        kb.kl(d.Independent(p, 1), joint)


def test_gradients_and_compilation_go_through_their_formula(register):
    register(Delta, d.Distribution, kl_delta)
    v = torch.tensor([0.3, -1.0], requires_grad=True)
    kb.kl(Delta(v), d.Normal(0.0, 1.0)).sum().backward()
    torch.testing.assert_close(v.grad, v.detach())

    register(TruncatedNormal, d.Normal, lambda p, q: (p.loc - q.loc) ** 2 + 7)
    loc = torch.tensor([1.0, 2.0])
    compiled = torch.compile(
        lambda x: kb.kl(TruncatedNormal(x, 1.0, validate_args=False), d.Normal(x, 1.0, validate_args=False)),
        fullgraph=True,
        backend="eager",
    )
    assert compiled(loc).tolist() == [7.0, 7.0]


def test_coverage_lists_them(register):
    register(Delta, d.Distribution, kl_delta)
    register(d.Normal, d.Normal, kl_ninety)
    found = {(pair.p, pair.q): pair for pair in kb.coverage()}
    assert found["Delta", "Distribution"].method == found["Normal", "Normal"].method == "torch"
    assert "kl_delta" in found["Delta", "Distribution"].source


def _decline():
    raise NotImplementedError("only for equal ones")


WRONG = {
    "float": (lambda p, q: 1.0, kb.InputTypeError, "a float, 1.0"),
    "shape": (lambda p, q: torch.zeros(2, 3), kb.ShapeError, r"shape \(2, 3\)"),
    "scalar": (lambda p, q: torch.zeros(()), kb.ShapeError, r"broadcast batch shape \(2,\)"),
    "negative": (lambda p, q: torch.tensor([0.0, -0.5]), kb.InputValueError, r"-0.5 at batch index \(1,\)"),
    "declined": (lambda p, q: _decline(), kb.NoRouteError, "does not answer"),
}


@pytest.mark.parametrize(("formula", "error", "says"), WRONG.values(), ids=WRONG)
def test_what_a_formula_of_a_user_returns_is_checked(formula, error, says, monkeypatch):
    from kullback.pairs import registry

    monkeypatch.setattr(registry, "_rules", dict(registry._rules))
    kb.register_kl(TruncatedNormal, TruncatedNormal)(formula)
    p, q = TruncatedNormal(torch.zeros(2), 1.0), TruncatedNormal(torch.zeros(2), 1.0)
    for call in (kb.kl, kb.kl_with_error):
        with pytest.raises(error, match=says) as caught:
            call(p, q)
        assert "KL(TruncatedNormal || TruncatedNormal)" in str(caught.value)
    with pytest.raises(error):
        kb.kl(d.Independent(p, 1), d.Independent(q, 1))


def test_a_negative_rounding_is_no_mistake(monkeypatch):
    from kullback.pairs import registry

    monkeypatch.setattr(registry, "_rules", dict(registry._rules))
    kb.register_kl(TruncatedNormal, TruncatedNormal)(lambda p, q: p.loc - q.loc)
    assert kb.kl(TruncatedNormal(0.0, 1.0), TruncatedNormal(1e-7, 1.0)) < 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_default_dtype_of_half_precision(dtype):
    from kullback.pairs.table import examples

    expected = kb.coverage()
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    examples.cache_clear()
    try:
        assert kb.coverage() == expected
        kb.install_into_torch()
        kb.uninstall_from_torch()
    finally:
        torch.set_default_dtype(before)
        examples.cache_clear()


def test_a_number_from_a_formula_of_torch_stands_for_every_element(register):
    register(TruncatedNormal, TruncatedNormal, lambda p, q: 0.0)
    p = TruncatedNormal(torch.zeros(3), 1.0)
    torch.testing.assert_close(kb.kl(p, p), torch.zeros(3), rtol=0, atol=0)
