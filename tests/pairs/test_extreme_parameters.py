"""Infinite, zero and smallest parameters, where torch's validation allows them: never NaN, never negative."""

import itertools
import math

import pytest
import torch
from torch import distributions as d

import kullback as kb
from kullback.pairs.parameters import tensors_of
from kullback.pairs.table import examples

TINY = torch.finfo(torch.float32).tiny
NO_NUMBERS = (d.LowRankMultivariateNormal, d.MultivariateNormal, d.Wishart)  # matrices have tests of their own


def variants(example):
    """The family at one extreme parameter at a time, as far as its constructor takes it."""
    kind = type(example)
    found = [example]
    if kind in NO_NUMBERS:
        return found
    names = [name for name in example.arg_constraints if isinstance(getattr(example, name, None), torch.Tensor)]
    others = [name for name in names if name not in ("probs", "logits")]
    choices = [[given, *others] for given in ("probs", "logits") if given in names] or [others]
    fixed = {name: getattr(example, name) for name in ("total_count", "dim") if hasattr(example, name)}
    for choice in choices:
        given = {**fixed, **{name: getattr(example, name) for name in choice}}
        for name, extreme in itertools.product(choice, (0.0, math.inf, -math.inf, TINY)):
            value = given[name].clone()
            value[(..., 0) if value.dim() else ...] = extreme
            try:
                found.append(kind(**{**given, name: value}, validate_args=True))
            except (ValueError, TypeError):
                continue
    return found


VARIANTS = {kind: variants(example) for kind, example in examples().items()}


def check(p, q):
    value = kb.kl(p, q)
    assert bool((value >= 0).all()), (p, vars(p), q, vars(q), value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", VARIANTS, ids=lambda kind: kind.__name__)
def test_one_family(kind):
    for p, q in itertools.product(VARIANTS[kind], repeat=2):
        check(p, q)
    for p in VARIANTS[kind]:
        if all(parameter.isfinite().all() for parameter in tensors_of(p)):
            assert kb.kl(p, p) == 0, (p, vars(p))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", VARIANTS, ids=lambda kind: kind.__name__)
def test_all_pairs_of_families(kind):
    for other, of_other in VARIANTS.items():
        if examples()[other].event_shape == examples()[kind].event_shape:
            for p, q in itertools.product(VARIANTS[kind], of_other):
                if kb.kl_method(p, q) is not None:
                    check(p, q)


@pytest.mark.parametrize("kind", [d.Normal, d.Laplace, d.Cauchy])
def test_an_infinite_scale(kind):
    loc, scale = torch.tensor([0.0, 1.0]).requires_grad_(), torch.tensor([math.inf, 2.0]).requires_grad_()
    p, q = kind(loc, 1.0), kind(torch.zeros(2), scale)
    value = kb.kl(p, q)
    assert value.isfinite().tolist() == [False, True]
    value.sum().backward()
    assert loc.grad[0] == scale.grad[0] == 0
    assert scale.grad[1] != 0
    assert kb.kl(kind(0.0, scale), kind(0.0, scale)).tolist() == [0.0, 0.0]
    assert kb.kl(d.Independent(p, 1), d.Independent(q, 1)) == math.inf
    assert kb.kl_with_error(p, q).value[0] == math.inf


@pytest.mark.parametrize("kind", [d.Normal, d.Laplace, d.Gumbel])
def test_an_infinite_scale_under_vmap(kind):
    loc, scale = torch.zeros(3, dtype=torch.float64), torch.tensor([1.0, math.inf, 2.0], dtype=torch.float64)

    def as_p(loc, scale):
        return kb.kl(kind(loc, scale), kind(loc.new_tensor(0.3), loc.new_tensor(1.2)))

    def as_q(loc, scale):
        return kb.kl(kind(loc.new_tensor(0.3), loc.new_tensor(1.2)), kind(loc, scale))

    def as_both(loc, scale):
        return kb.kl(kind(loc, scale), kind(loc, scale))

    for function in (as_p, as_q, as_both):
        value = torch.vmap(function)(loc, scale)
        assert value[1] == (0 if function is as_both else math.inf)
        alone = torch.stack([function(loc[0], one) for one in scale[::2]])
        torch.testing.assert_close(value[::2], alone, rtol=1e-8, atol=0)
        slopes = torch.vmap(torch.func.grad(function, argnums=(0, 1)))(loc, scale)
        for index, slope in enumerate(slopes):
            assert slope[1] == 0
            one = torch.func.grad(function, argnums=index)(loc[2], scale[2])
            torch.testing.assert_close(slope[2], one, rtol=1e-8, atol=0)


NO_DENSITY = {
    "FisherSnedecor": (d.FisherSnedecor(math.inf, 4.0), d.Normal(0.0, 1.0)),
    "VonMises": (d.VonMises(math.inf, 1.0), d.Normal(0.0, 1.0)),
    "Cauchy": (d.Normal(0.0, 1.0), d.Cauchy(math.inf, 1.0)),
    "Beta": (d.ContinuousBernoulli(0.3), d.Beta(math.inf, 2.0)),
    "Pareto": (d.Exponential(1.0), d.Pareto(1.0, math.inf)),
}


@pytest.mark.parametrize(("p", "q"), NO_DENSITY.values(), ids=NO_DENSITY)
def test_an_integral_with_an_infinite_parameter_is_infinite(p, q):
    assert kb.kl(p, q) == math.inf


def test_an_infinite_value_has_no_gradient_however_small_the_parameter():
    scale, shape = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.2, 2e-308))
    for q in (d.Weibull(scale, shape), d.Kumaraswamy(shape, scale)):
        value = kb.kl(d.Normal(0.0, 1.0), q)
        assert value == math.inf
        assert torch.autograd.grad(value, (scale, shape)) == (0.0, 0.0)


SMALLEST = torch.finfo(torch.float64).tiny
NO_SLOPE = {
    "an integral": (d.GeneralizedPareto, (0.3, SMALLEST, 0.3), d.Normal, (0.3, 1.2)),
    "an integral of powers": (d.Weibull, (1.2, SMALLEST), d.LogNormal, (0.3, 1.2)),
    "a closed form": (d.Uniform, (0.3, 2.0), d.Exponential, (math.inf,)),
    "a kernel": (d.Weibull, (1.2, 1.2), d.Weibull, (1.2, math.inf)),
}


@pytest.mark.parametrize(("p", "first", "q", "second"), NO_SLOPE.values(), ids=NO_SLOPE)
def test_elements_with_an_extreme_parameter_have_no_gradient(p, first, q, second):
    """Next to usual ones, whose gradients are theirs alone."""
    usual = 0.4, 1.5, 0.6
    leaves = [
        [torch.tensor([x, y], dtype=torch.float64, requires_grad=True) for x, y in zip(parameters, usual, strict=False)]
        for parameters in (first, second)
    ]
    value = kb.kl(p(*leaves[0]), q(*leaves[1]))
    slopes = torch.autograd.grad(value.sum(), leaves[0] + leaves[1])
    alone = [[leaf.detach()[1].requires_grad_() for leaf in side] for side in leaves]
    expected = torch.autograd.grad(kb.kl(p(*alone[0]), q(*alone[1])), alone[0] + alone[1])
    for slope, one in zip(slopes, expected, strict=True):
        assert slope[0] == 0
        torch.testing.assert_close(slope[1], one, rtol=1e-10, atol=0)


RARE = {
    "Bernoulli": d.Bernoulli(logits=torch.tensor(-800.0)),
    "Binomial": d.Binomial(3, logits=torch.tensor(-800.0)),
    "Categorical": d.Categorical(logits=torch.tensor([0.0, -800.0])),
}
NEVER = {
    "Poisson": d.Poisson(torch.tensor(0.0)),
    "Bernoulli": d.Bernoulli(torch.tensor(0.0)),
    "Binomial": d.Binomial(5, torch.tensor(0.0)),
}


@pytest.mark.parametrize("q", NEVER.values(), ids=NEVER)
@pytest.mark.parametrize("p", RARE.values(), ids=RARE)
def test_a_success_too_rare_for_a_number_is_still_possible(p, q):
    assert kb.kl(p, q) == math.inf


def test_one_trial_is_a_one_hot_vector():
    p, q = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.9, 0.0]]).double(), torch.tensor([0.6, 0.3, 0.1]).double()
    expected = kb.kl(d.Categorical(p), d.Categorical(q))
    for first, second in ((d.OneHotCategorical(p), d.Multinomial(1, q)), (d.Multinomial(1, p), d.OneHotCategorical(q))):
        torch.testing.assert_close(kb.kl(first, second), expected, rtol=1e-14, atol=0)
        assert kb.kl_method(first, second) == "closed form"
    assert kb.kl(d.OneHotCategorical(p), d.Multinomial(1, p)).tolist() == [0.0, 0.0]
    straight = d.OneHotCategoricalStraightThrough(logits=p.log())
    torch.testing.assert_close(kb.kl(straight, d.Multinomial(1, q)), expected, rtol=1e-14, atol=0)
    assert kb.kl(d.Multinomial(2, p), d.OneHotCategorical(q)).tolist() == [math.inf] * 2
    assert kb.kl(d.OneHotCategorical(p), d.Multinomial(0, q)).tolist() == [math.inf] * 2


def test_method_and_result_agree_and_no_infinite_pair_has_a_formula():
    known = examples().values()
    for p, q in itertools.product(known, known):
        if p.event_shape == q.event_shape and kb.kl_method(p, q) is not None and not p.event_shape:
            assert kb.kl_with_error(p, q).method == kb.kl_method(p, q), (p, q)
    unit = d.Beta(torch.tensor(2.0), torch.tensor(3.0))
    assert kb.kl_method(d.VonMises(torch.tensor(0.0), torch.tensor(2.0)), unit) == "infinite"
    assert kb.kl_method(d.Normal(0.0, 1.0), d.VonMises(torch.tensor(0.0), torch.tensor(2.0))) == "infinite"
    bit = d.Bernoulli(torch.tensor(0.3))
    assert kb.kl_method(d.Poisson(torch.tensor(2.0)), bit) == "infinite"
    assert kb.kl_method(d.Poisson(torch.tensor(0.0)), bit) == "closed form"
    pairs = {(pair.p, pair.q): pair.method for pair in kb.coverage()}
    assert pairs["Poisson", "Bernoulli"] == pairs["VonMises", "Beta"] == "infinite"
