"""Recorded formulas: the same answers as the long way, for every kind of call, and no answer that is not theirs."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributions as td
from torch.autograd import forward_ad

import kullback
from kullback import kl_divergence
from kullback.kernels import native
from kullback.pairs import dispatch, quick, registry

pytestmark = pytest.mark.skipif(native.library() is None, reason="the native library is not built here")


def draw(seed: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) + 0.1


# (p, q) from two tensors for p and two for q
PAIRS = {
    "Laplace-Laplace": lambda a, b, c, d: (td.Laplace(a, b), td.Laplace(c, d)),
    "Normal-Gumbel": lambda a, b, c, d: (td.Normal(a, b), td.Gumbel(c, d)),
    "Beta-Normal": lambda a, b, c, d: (td.Beta(a, b), td.Normal(c, d)),
    "Uniform-Beta": lambda a, b, c, d: (td.Uniform(a / 4, b / 4 + 0.5), td.Beta(c, d)),
    "Pareto-Gamma": lambda a, b, c, d: (td.Pareto(a, b + 3), td.Gamma(c, d)),
    "Geometric-Geometric": lambda a, b, c, d: (td.Geometric(a / 2), td.Geometric(logits=c - d)),
    "Binomial-Binomial": lambda a, b, c, d: (td.Binomial(5, logits=a - b), td.Binomial(5, logits=c - d)),
    "LogNormal-LogNormal": lambda a, b, c, d: (td.LogNormal(a, b), td.LogNormal(c, d)),
    "ContinuousBernoulli-Uniform": lambda a, b, c, d: (td.ContinuousBernoulli(a / 2), td.Uniform(-c, 1 + d)),
    "HalfNormal-HalfNormal": lambda a, b, c, d: (td.HalfNormal(a * b), td.HalfNormal(c * d)),
}


def long_way(p: td.Distribution, q: td.Distribution) -> torch.Tensor:
    return dispatch._rounded(p, q)[0]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("shape", [(), (1,), (64,), (3, 5), (5000,)])
def test_values_equal_those_of_the_long_way(name, shape):
    tensors = [draw(seed, *shape) for seed in range(4)]
    p, q = PAIRS[name](*tensors)
    registry.quick.pop((type(p), type(q)), None)  # the short way is that of the parameters that came first
    kl_divergence(p, q)
    torch.testing.assert_close(kl_divergence(p, q), long_way(p, q), rtol=1e-12, atol=0)
    assert registry.quick[type(p), type(q)].short(p, q) is not NotImplemented
    narrow = PAIRS[name](*(t.float() for t in tensors))
    found = kl_divergence(*narrow)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, long_way(*narrow), rtol=1.2e-7, atol=0)


@pytest.mark.parametrize("name", PAIRS)
def test_gradients_once_and_twice(name):
    def derivatives(divergence):
        tensors = [draw(seed, 6).requires_grad_() for seed in range(4)]
        value = divergence(*PAIRS[name](*tensors)).sum()
        first = torch.autograd.grad(value, tensors, create_graph=True, allow_unused=True)
        weighted = sum((g * draw(9, 6)).sum() for g in first if g is not None)
        return [*first, *torch.autograd.grad(weighted, tensors, allow_unused=True)]

    for found, wanted in zip(derivatives(kl_divergence), derivatives(long_way), strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", PAIRS)
def test_first_order_backward_is_native_and_the_same(name):
    def gradients(divergence):
        tensors = [draw(seed, 6, dtype=torch.float64).requires_grad_() for seed in range(4)]
        divergence(*PAIRS[name](*tensors)).sum().backward()
        return [t.grad for t in tensors]

    for found, wanted in zip(gradients(kl_divergence), gradients(long_way), strict=True):
        assert (found is None) == (wanted is None)
        if wanted is not None:
            torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-14)


LAYOUTS = {
    "broadcast": lambda: (td.Laplace(draw(0, 3, 1), draw(1, 3, 1)), td.Laplace(draw(2, 4), draw(3, 4))),
    "strided": lambda: (td.Laplace(draw(0, 4, 3).T, draw(1, 3, 4)), td.Laplace(draw(2, 3, 4), draw(3, 4, 3).T)),
    "one number": lambda: (td.Laplace(0.0, draw(1, 5)), td.Laplace(draw(2, 5), 1.5)),
    "two dtypes": lambda: (td.Laplace(draw(0, 5).float(), 1.0), td.Laplace(draw(2, 5), draw(3, 5))),
    "half": lambda: (
        td.Laplace(draw(0, 5).half(), draw(1, 5).half()),
        td.Laplace(draw(2, 5).half(), draw(3, 5).half()),
    ),
    "expanded": lambda: (td.Laplace(draw(0), draw(1)).expand((4, 2)), td.Laplace(draw(2, 4, 2), draw(3, 4, 2))),
    "empty": lambda: (td.Laplace(draw(0, 0), draw(1, 0)), td.Laplace(draw(2, 0), draw(3, 0))),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_and_dtypes(name):
    p, q = LAYOUTS[name]()
    found, wanted = kl_divergence(p, q), long_way(p, q)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=0)


def test_the_given_parameter_is_read_whatever_torch_has_cached():
    logits = torch.tensor([-800.0, 3.0, 1e-9], dtype=torch.float64)
    p, q = td.Geometric(logits=logits), td.Geometric(logits=logits + 1e-9)
    before = kl_divergence(p, q)
    assert p.probs is not None
    assert q.probs is not None
    assert torch.equal(kl_divergence(p, q), before)
    probs = td.Geometric(probs=torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64))
    assert torch.equal(kl_divergence(probs, q), long_way(probs, q))


def test_one_tensor_given_for_two_parameters_stays_two_parameters():
    same = draw(0, 5)
    registry.quick.pop((td.Cauchy, td.Cauchy), None)
    kl_divergence(td.Cauchy(same, same), td.Cauchy(same, same))
    p, q = td.Cauchy(draw(1, 5), draw(2, 5)), td.Cauchy(draw(3, 5), draw(4, 5))
    torch.testing.assert_close(kl_divergence(p, q), long_way(p, q), rtol=1e-13, atol=0)


def test_infinite_by_support_and_finite_where_it_is_not():
    inside = td.Exponential(draw(0, 4)), td.Pareto(draw(1, 4), draw(2, 4))
    assert torch.equal(kl_divergence(*inside), torch.full((4,), math.inf, dtype=torch.float64))
    rate = draw(0, 4).requires_grad_()
    value = kl_divergence(td.Exponential(rate), td.Uniform(torch.zeros(4), torch.ones(4)))
    value.sum().backward()
    assert torch.equal(value, torch.full((4,), math.inf, dtype=torch.float64))
    assert torch.equal(rate.grad, torch.zeros(4, dtype=torch.float64))
    low = torch.tensor([-2.0, 0.5])
    mixed = kl_divergence(td.Uniform(low, torch.ones(2)), td.Uniform(torch.zeros(2), torch.ones(2)))
    assert mixed[0] == math.inf
    assert mixed[1] == pytest.approx(math.log(2), rel=1e-6)


def test_unequal_counts_are_answered_on_the_long_way():
    p, q = (td.Binomial(torch.tensor([5.0, 4.0]), probs=torch.tensor([0.3, x])) for x in (0.4, 0.6))
    kl_divergence(p, q)
    wide = td.Binomial(torch.tensor([5.0, 9.0]), probs=torch.tensor([0.3, 0.6]))
    assert torch.equal(kl_divergence(p, wide), long_way(p, wide))
    assert bool(kl_divergence(p, wide).isfinite().all())


def test_followed_calls_take_the_long_way():
    p, q = PAIRS["Laplace-Laplace"](*(draw(seed, 5) for seed in range(4)))
    kl_divergence(p, q)
    mapped = torch.func.vmap(lambda x: kl_divergence(td.Laplace(x, 1.0, validate_args=False), td.Laplace(0.0, 2.0)))
    x = draw(7, 5)
    torch.testing.assert_close(mapped(x), kl_divergence(td.Laplace(x, 1.0), td.Laplace(0.0, 2.0)))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        value = kl_divergence(td.Laplace(dual, torch.ones_like(x)), td.Laplace(torch.zeros_like(x), torch.ones_like(x)))
        assert forward_ad.unpack_dual(value).tangent is not None


def test_an_override_and_a_subclass_are_obeyed():
    class Mine(td.Laplace):
        @property
        def scale(self):
            return 2 * self.__dict__["_scale"]

        @scale.setter
        def scale(self, value):
            self.__dict__["_scale"] = value

    p, q = PAIRS["Laplace-Laplace"](*(draw(seed, 5) for seed in range(4)))
    doubled = td.Laplace(p.loc, 2 * p.scale)
    torch.testing.assert_close(kl_divergence(Mine(p.loc, p.scale), q), kl_divergence(doubled, q), rtol=1e-14, atol=0)
    known = registry.find(td.Laplace, td.Laplace)
    try:
        kullback.register_kl(td.Laplace, td.Laplace, override=True)(lambda p, q: torch.full_like(p.loc, 77.0))
        assert torch.equal(kl_divergence(p, q), torch.full((5,), 77.0, dtype=torch.float64))
    finally:
        registry.remove(td.Laplace, td.Laplace)
        registry.add(known)
    assert bool((kl_divergence(p, q) >= 0).all())


def test_a_formula_that_is_no_elementwise_function_is_not_recorded():
    p, q = td.StudentT(draw(0, 4) + 2, draw(1, 4), draw(2, 4)), td.StudentT(draw(3, 4) + 2, draw(4, 4), draw(5, 4))
    first = kl_divergence(p, q)
    ways = registry.quick[td.StudentT, td.StudentT]
    assert ways.short is quick._declines
    assert torch.equal(kl_divergence(p, q), first)


CHOICES = [td.Bernoulli, td.Geometric, td.ContinuousBernoulli]


@pytest.mark.parametrize("law", CHOICES)
def test_what_torch_cached_beside_the_given_parameter_does_not_stop_the_short_way(law):
    registry.quick.pop((law, law), None)
    p, q = law(probs=draw(0, 6) / 2), law(probs=draw(1, 6) / 2)
    first = kl_divergence(p, q)
    assert p.logits is not None
    assert q.logits is not None
    short = registry.quick[law, law].short
    assert torch.equal(short(p, q), first)
    # Made from log-odds, with probabilities that torch rounded to 1: those are not what was given.
    odds = [torch.full((6,), 60.0 + k, dtype=torch.float64) for k in range(2)]
    p, q = (law(logits=x) for x in odds)
    assert p.probs is not None
    assert q.probs is not None
    assert short(p, q) is NotImplemented
    value = kl_divergence(p, q)
    assert bool((value > 0).all())
    assert torch.equal(value, kl_divergence(*(law(logits=x) for x in odds)))


@pytest.mark.parametrize("law", CHOICES)
def test_each_choice_of_parameters_is_answered_whichever_came_first(law):
    registry.quick.pop((law, law), None)
    probs, odds = [draw(seed, 6) / 2 for seed in (0, 1)], [draw(seed, 6) * 40 for seed in (2, 3)]
    makers = [lambda k: law(probs=probs[k]), lambda k: law(logits=odds[k])]
    for of_p, of_q in [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0), (1, 1)]:
        p, q = makers[of_p](0), makers[of_q](1)
        value = kl_divergence(p, q)
        torch.testing.assert_close(value, long_way(p, q), rtol=1e-12, atol=0)
        # The choice that came last is the one with a short way.
        assert torch.equal(registry.quick[law, law].short(p, q), kl_divergence(p, q))


def test_an_expanded_law_with_both_parameters_is_left_to_the_long_way():
    registry.quick.pop((td.Geometric, td.Geometric), None)
    kl_divergence(td.Geometric(probs=draw(0, 4) / 2), td.Geometric(probs=draw(1, 4) / 2))
    p, q = td.Geometric(logits=torch.tensor([60.0])), td.Geometric(logits=torch.tensor([61.0]))
    assert p.probs is not None
    assert q.probs is not None
    wide = p.expand((4,)), q.expand((4,))
    assert registry.quick[td.Geometric, td.Geometric].short(*wide) is NotImplemented
    assert torch.equal(kl_divergence(*wide), kl_divergence(p, q).expand(4))


def test_many_elements_with_gradients_go_to_a_pairs_own_kernel():
    tensors = [draw(seed, quick._MANY).requires_grad_() for seed in range(4)]
    p, q = td.Gamma(*tensors[:2]), td.Gamma(*tensors[2:])
    kl_divergence(p, q)
    way = registry.quick[td.Gamma, td.Gamma]._known[False, False]
    assert way(p, q) is None
    with torch.no_grad():
        assert way(p, q) is not None
    few = [t[:-1].detach().requires_grad_() for t in tensors]
    value = way(td.Gamma(*few[:2]), td.Gamma(*few[2:]))
    found = torch.autograd.grad(value.sum(), few)
    wanted = torch.autograd.grad(kl_divergence(p, q)[:-1].sum(), tensors)
    for x, y in zip(found, wanted, strict=True):
        torch.testing.assert_close(x, y[:-1], rtol=1e-13, atol=0)
    # A program that is more than one kernel stays a program however many there are.
    p, q = td.Laplace(*tensors[:2]), td.Laplace(*tensors[2:])
    kl_divergence(p, q)
    assert registry.quick[td.Laplace, td.Laplace]._known[False, False](p, q) is not None


@pytest.mark.parametrize("law", [td.Normal, td.Gamma, td.Beta, td.Gumbel, td.Binomial, td.Bernoulli])
def test_a_prior_of_numbers_is_answered_as_its_expansion(law):
    many, one = (draw(0, 3, 4), draw(1, 3, 4)), (draw(2, 1)[0], draw(3, 1)[0])

    def made(a, b):
        if law is td.Binomial:
            return law(total_count=5, probs=a / 2)
        return law(logits=a) if law is td.Bernoulli else law(a, b)

    p, q = made(*many), made(*one)
    if law in {td.Bernoulli, td.Binomial}:
        assert q.logits.shape == q.probs.shape == ()  # torch keeps the other one, too
    kl_divergence(p, p)
    for second in (q, made(*(t.float() for t in one))):
        wanted = kl_divergence(p, made(*(t.to(torch.float64).expand(3, 4).clone() for t in one)))
        if second is not q:
            wanted = kl_divergence(p, second.expand((3, 4)))
        value = kl_divergence(p, second)
        assert value.shape == (3, 4)
        torch.testing.assert_close(value, wanted, rtol=1e-14, atol=0)
    leaf = one[0].clone().requires_grad_()
    (slope,) = torch.autograd.grad(kl_divergence(p, made(leaf, one[1])).sum(), leaf)
    assert slope.isfinite()


INFINITE = {
    "Normal-Uniform": lambda a, b, c, d: (td.Normal(a, b), td.Uniform(c, c + d)),
    "Gamma-Pareto": lambda a, b, c, d: (td.Gamma(a, b), td.Pareto(c, d)),
    "Pareto-Uniform": lambda a, b, c, d: (td.Pareto(a, b), td.Uniform(c, c + d)),
    "Laplace-Beta": lambda a, b, c, d: (td.Laplace(a, b), td.Beta(c, d)),
    "Gumbel-Pareto": lambda a, b, c, d: (td.Gumbel(a, b), td.Pareto(c, d)),
    "LogNormal-Uniform": lambda a, b, c, d: (td.LogNormal(a, b), td.Uniform(c, c + d)),
    "Poisson-Binomial": lambda a, b, c, d: (td.Poisson(a * b), td.Binomial(5, probs=c * d / 2)),
}


@pytest.mark.parametrize("name", INFINITE)
def test_infinity_has_the_dtype_of_all_parameters_and_a_zero_gradient_to_each(name):
    tensors = [draw(seed, 4).requires_grad_() for seed in range(4)]
    value = kl_divergence(*INFINITE[name](*tensors))
    assert value.tolist() == [math.inf] * 4
    for gradient in torch.autograd.grad(value.sum(), tensors):
        assert gradient.tolist() == [0.0] * 4
    for wide in range(4):
        mixed = [draw(seed, 4, dtype=torch.float64 if seed == wide else torch.float32) for seed in range(4)]
        assert kl_divergence(*INFINITE[name](*mixed)).dtype == torch.float64
    narrow = kl_divergence(*INFINITE[name](*(draw(seed, 4, dtype=torch.float32) for seed in range(4))))
    assert (narrow.dtype, narrow.tolist()) == (torch.float32, [math.inf] * 4)


@pytest.mark.parametrize("name", INFINITE)
@pytest.mark.parametrize("grad", [False, True])
def test_infinity_is_no_answer_where_a_parameter_is_no_number(name, grad):
    kl_divergence(*INFINITE[name](*(draw(seed, 4) for seed in range(4))))
    for lost in range(4):
        tensors = [draw(seed, 4) for seed in range(4)]
        tensors[lost][2] = math.nan
        tensors = [t.requires_grad_(grad) for t in tensors]
        td.Distribution.set_default_validate_args(False)
        try:
            value = kl_divergence(*INFINITE[name](*tensors))
        finally:
            td.Distribution.set_default_validate_args(True)
        assert value.isnan().tolist() == [False, False, True, False]
        assert bool(value[[0, 1, 3]].isinf().all())
