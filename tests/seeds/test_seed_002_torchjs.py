"""Seed 002: the reference page of torch.js for `torch.distributions.kl_divergence`."""

import functools
import math

import mpmath
import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Distribution,
    Exponential,
    Gamma,
    Independent,
    Laplace,
    Normal,
    Uniform,
)

import kullback as kb
from tests.seeds.rooms import states

STATEMENTS = {
    "S002-01": "kl_divergence(p, q) takes two distributions and returns a tensor",
    "S002-02": "KL(P || Q) is the expected number of extra bits to encode samples from P with a code made for Q",
    "S002-03": "It is asymmetric: mind the order",
    "S002-04": "Variational inference: divergence between approximate and true posterior",
    "S002-05": "Generative models: VAEs, diffusion and other latent variable models",
    "S002-06": "Model comparison: how well one distribution approximates another",
    "S002-07": "Optimisation: fitting distributions to data by minimising KL",
    "S002-08": "Information theory: the information lost by an approximation",
    "S002-09": "Each pair has its own registered implementation",
    "S002-10": "Normal, Exponential, Bernoulli, Categorical, Laplace, Gamma, Beta and Dirichlet are built in",
    "S002-11": "It is never negative, and zero only if P = Q almost everywhere",
    "S002-12": "If P's support is not contained in Q's, KL is infinite",
    "S002-13": "Log-space computation prevents underflow and overflow",
    "S002-14": "Batched distributions with several parameter sets are handled automatically",
    "S002-15": "A pair that is not registered raises an error; register_kl adds support",
    "S002-16": "KL(P || P) is 0 in theory, but precision may give small non-zero values (here it is 0)",
    "S002-17": "p is the reference, from which samples are drawn; q approximates it",
    "S002-18": "The result is a scalar or a batch",
    "S002-19": "Example: Normal(0, 1) against Normal(1, 2)",
    "S002-20": "Example: the VAE loss is the mean KL of Normal(mean, exp(log_var / 2)) to Normal(0, 1)",
    "S002-21": "Example: categoricals of shape [batch, classes] give KL of shape [batch]",
}


def value(expected, rel=1e-12):
    return pytest.approx(expected, rel=rel, abs=0.0)


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def scalar(family, *parameters):
    return family(*(torch.tensor(parameter, dtype=torch.float64) for parameter in parameters))


# The parameters are binary fractions, so that mpmath sees the very numbers that the tensors hold.
PAIRS = {
    "Normal": (scalar(Normal, 0.5, 1.25), scalar(Normal, -1.0, 2.0)),
    "Exponential": (scalar(Exponential, 0.75), scalar(Exponential, 2.5)),
    "Bernoulli": (scalar(Bernoulli, 0.125), scalar(Bernoulli, 0.75)),
    "Categorical": (scalar(Categorical, [0.5, 0.25, 0.25]), scalar(Categorical, [0.125, 0.375, 0.5])),
    "Laplace": (scalar(Laplace, 0.0, 1.5), scalar(Laplace, 1.0, 0.75)),
    "Gamma": (scalar(Gamma, 2.5, 1.5), scalar(Gamma, 1.25, 0.5)),
    "Beta": (scalar(Beta, 2.5, 1.5), scalar(Beta, 1.25, 3.0)),
    "Dirichlet": (scalar(Dirichlet, [0.5, 2.0, 1.25]), scalar(Dirichlet, [1.5, 0.75, 2.0])),
}


def reference(name):
    """KL(p || q) of `PAIRS[name]` at 30 digits: by quadrature or summation of p log(p / q), not by a closed form."""
    with mpmath.workdps(30):
        return float(_REFERENCES[name]())


def _quadrature(log_p, log_q, points):
    return mpmath.quad(lambda x: mpmath.exp(log_p(x)) * (log_p(x) - log_q(x)), points)


def _normal():
    def log_density(m, s):
        return lambda x: -(((x - m) / s) ** 2) / 2 - mpmath.log(s) - mpmath.log(2 * mpmath.pi) / 2

    return _quadrature(log_density(0.5, 1.25), log_density(-1, 2), [-mpmath.inf, 0.5, mpmath.inf])


def _exponential():
    def log_density(rate):
        return lambda x: mpmath.log(rate) - rate * x

    return _quadrature(log_density(0.75), log_density(2.5), [0, mpmath.inf])


def _laplace():
    def log_density(m, b):
        return lambda x: -abs(x - m) / b - mpmath.log(2 * b)

    return _quadrature(log_density(0, 1.5), log_density(1, 0.75), [-mpmath.inf, 0, 1, mpmath.inf])


def _gamma():
    def log_density(a, b):
        return lambda x: a * mpmath.log(b) + (a - 1) * mpmath.log(x) - b * x - mpmath.loggamma(a)

    return _quadrature(log_density(2.5, 1.5), log_density(1.25, 0.5), [0, 1, mpmath.inf])


def _beta():
    def log_density(a, b):
        log_norm = mpmath.log(mpmath.beta(a, b))
        return lambda x: (a - 1) * mpmath.log(x) + (b - 1) * mpmath.log(1 - x) - log_norm

    return _quadrature(log_density(2.5, 1.5), log_density(1.25, 3.0), [0, 0.5, 1])


def _dirichlet():
    # E_p[log x_i] = psi(a_i) - psi(sum a), so KL = log B(b) - log B(a) + sum (a_i - b_i) E_p[log x_i].
    a, b = ([mpmath.mpf(x) for x in side.concentration.tolist()] for side in PAIRS["Dirichlet"])

    def log_norm(c):
        return sum(mpmath.loggamma(x) for x in c) - mpmath.loggamma(sum(c))

    means = [mpmath.psi(0, x) - mpmath.psi(0, sum(a)) for x in a]
    return log_norm(b) - log_norm(a) + sum((x - y) * mean for x, y, mean in zip(a, b, means, strict=True))


def _discrete(p, q):
    return sum(mpmath.mpf(x) * mpmath.log(mpmath.mpf(x) / y) for x, y in zip(p, q, strict=True))


_REFERENCES = {
    "Normal": _normal,
    "Exponential": _exponential,
    "Bernoulli": functools.partial(_discrete, (0.125, 0.875), (0.75, 0.25)),
    "Categorical": functools.partial(_discrete, (0.5, 0.25, 0.25), (0.125, 0.375, 0.5)),
    "Laplace": _laplace,
    "Gamma": _gamma,
    "Beta": _beta,
    "Dirichlet": _dirichlet,
}


@states("S002-01", "S002-18", "S002-19", needs=("kl", "kl_divergence"))
def test_the_first_example():
    p, q = scalar(Normal, 0.0, 1.0), scalar(Normal, 1.0, 2.0)
    got = kb.kl_divergence(p, q)
    assert isinstance(got, torch.Tensor)
    assert got.shape == ()
    assert got.item() == value(math.log(2) + 2 / 8 - 0.5)
    assert kb.kl(p, q).item() == got.item()


@states("S002-02", needs=("kl", "Probs", "entropy", "cross_entropy"))
def test_extra_bits():
    p, q = kb.Probs(double(0.5, 0.25, 0.125, 0.125)), kb.Probs(double(0.25, 0.25, 0.25, 0.25))
    # Code words of 1, 2, 3 and 3 bits suit p and take 1.75 bits on average; those of q have 2 bits each.
    assert kb.entropy(p, base=2).item() == value(1.75)
    assert kb.cross_entropy(p, q, base=2).item() == value(2.0)
    assert kb.kl(p, q, base=2).item() == value(0.25)
    assert kb.kl(p, q).item() == value(0.25 * math.log(2))
    # The other way round, the words of p take (1 + 2 + 3 + 3) / 4 = 2.25 bits where 2 would do.
    assert kb.cross_entropy(q, p, base=2).item() == value(2.25)
    assert kb.kl(q, p, base=2).item() == value(0.25)


@pytest.mark.parametrize("name", ["Exponential", "Bernoulli", "Categorical", "Gamma", "Beta", "Dirichlet"])
@states("S002-03", needs=("kl_divergence",))
def test_asymmetry(name):
    p, q = PAIRS[name]
    forward, backward, truth = kb.kl_divergence(p, q).item(), kb.kl_divergence(q, p).item(), reference(name)
    assert abs(forward / truth - 1) < 1e-12
    assert abs(backward / truth - 1) > 0.01


@states("S002-04", needs=("kl_divergence",))
def test_gradient_descent_finds_the_posterior():
    posterior = Normal(double(0.8), double(0.25))
    mean, log_std = double(0.0).requires_grad_(), double(0.0).requires_grad_()
    optimizer = torch.optim.LBFGS([mean, log_std], max_iter=100, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = kb.kl_divergence(Normal(mean, log_std.exp()), posterior).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert mean.item() == pytest.approx(0.8, abs=1e-6)
    assert log_std.exp().item() == pytest.approx(0.25, abs=1e-6)


@states("S002-05", needs=("kl_divergence",))
def test_the_diffusion_step_of_equal_variances():
    # KL(N(m, s) || N(m', s)) = (m - m')^2 / (2 s^2), also where the step is tiny beside the mean.
    mean, std = double(1.0, 1.0, 1.0), double(1.0, 1e-3, 1e3)
    other = mean + double(0.5, 2**-30, 2**-40)
    truth = (other - mean) ** 2 / (2 * std**2)
    torch.testing.assert_close(kb.kl_divergence(Normal(mean, std), Normal(other, std)), truth, rtol=1e-12, atol=0)


@states("S002-06", needs=("kl", "Probs", "cross_entropy"))
def test_differences_of_divergences_are_expected_log_likelihood_ratios():
    data, one, two = double(0.6, 0.3, 0.1), double(0.5, 0.3, 0.2), double(0.2, 0.3, 0.5)
    divergences = [kb.kl(kb.Probs(data), kb.Probs(model)).item() for model in (one, two)]
    likelihoods = [kb.cross_entropy(kb.Probs(data), kb.Probs(model)).item() for model in (one, two)]
    assert divergences[0] < divergences[1]
    log_ratio = (data * (one / two).log()).sum().item()
    assert divergences[1] - divergences[0] == value(log_ratio)
    assert likelihoods[1] - likelihoods[0] == value(log_ratio)


@states("S002-07", needs=("kl", "Counts", "Logits"))
def test_the_fit_to_counts_is_the_relative_frequency():
    counts, theta = double(7.0, 2.0, 1.0), double(0.0, 0.0, 0.0).requires_grad_()
    kb.kl(kb.Counts(counts), kb.Logits(theta)).backward()
    torch.testing.assert_close(theta.grad, 1 / 3 - counts / 10, rtol=1e-12, atol=1e-15)
    assert kb.kl(kb.Counts(counts), kb.Logits(counts.log())).item() == pytest.approx(0.0, abs=1e-30)


@states("S002-07", needs=("project",))
def test_the_best_normal_for_a_gamma_matches_its_moments():
    target = scalar(Gamma, 4.0, 2.0)
    fitted = kb.project(target, Normal, direction="forward").distribution
    assert fitted.mean.item() == value(2.0, rel=1e-6)
    assert fitted.variance.item() == value(1.0, rel=1e-6)


@states("S002-08", needs=("kl", "Probs"))
def test_merging_classes_loses_information_and_never_gains_any():
    generator = torch.Generator().manual_seed(0)
    p, q = torch.randn(2, 50, 6, generator=generator, dtype=torch.float64).softmax(-1)

    def merge(rows):
        return rows.unflatten(-1, (3, 2)).sum(-1)

    fine, coarse = kb.kl(kb.Probs(p), kb.Probs(q)), kb.kl(kb.Probs(merge(p)), kb.Probs(merge(q)))
    assert bool((coarse < fine).all())
    assert bool((coarse > 0).all())


@pytest.mark.parametrize("name", PAIRS)
@states("S002-09", needs=("kl_method",))
def test_each_common_pair_has_a_closed_form(name):
    assert kb.kl_method(*PAIRS[name]) == "closed form"


@pytest.mark.parametrize("name", PAIRS)
@states("S002-10", needs=("kl_divergence",))
def test_the_common_pairs(name):
    assert kb.kl_divergence(*PAIRS[name]).item() == value(reference(name))


@pytest.mark.parametrize("step", [2**-20, 2**-23])
@states("S002-11", needs=("kl_divergence",))
def test_nearly_equal_is_neither_negative_nor_zero(step):
    p, q = Normal(torch.tensor(0.0), torch.tensor(1.0)), Normal(torch.tensor(0.0), torch.tensor(1.0 + step))
    with mpmath.workdps(50):
        s = 1 + mpmath.mpf(step)
        truth = float(mpmath.log(s) + 1 / (2 * s**2) - mpmath.mpf(1) / 2)
    assert kb.kl_divergence(p, q).item() == value(truth, rel=1e-6)


@pytest.mark.parametrize("name", PAIRS)
@states("S002-11", needs=("kl_divergence",))
def test_never_negative(name):
    p, q = PAIRS[name]
    assert kb.kl_divergence(p, q).item() > 0
    assert kb.kl_divergence(q, p).item() > 0


@states("S002-12", needs=("kl_divergence",))
def test_support():
    narrow, wide = scalar(Uniform, 0.0, 1.0), scalar(Uniform, 0.0, 2.0)
    assert kb.kl_divergence(narrow, wide).item() == value(math.log(2))
    assert kb.kl_divergence(wide, narrow).item() == math.inf
    half_line, line = scalar(Exponential, 1.0), scalar(Normal, 0.0, 1.0)
    assert kb.kl_divergence(line, half_line).item() == math.inf
    # E[log p] = -1 and E[x^2] = 2 under Exponential(1)
    assert kb.kl_divergence(half_line, line).item() == value(-1 + 0.5 * math.log(2 * math.pi) + 1)
    some, all_ = scalar(Categorical, [0.5, 0.5, 0.0]), scalar(Categorical, [0.25, 0.25, 0.5])
    assert kb.kl_divergence(some, all_).item() == value(math.log(2))
    assert kb.kl_divergence(all_, some).item() == math.inf


@states("S002-13", needs=("kl_divergence",))
def test_neither_underflow_nor_overflow():
    up, down = (Categorical(logits=double(*logits)) for logits in ((0.0, -1000.0), (-1000.0, 0.0)))
    assert kb.kl_divergence(up, down).item() == value(1000.0)
    narrow, wide = scalar(Normal, 0.0, 1e-30), scalar(Normal, 0.0, 1e30)
    assert kb.kl_divergence(narrow, wide).item() == value(60 * math.log(10) - 0.5)


@states("S002-14", "S002-18", needs=("kl_divergence",))
def test_batches_broadcast():
    loc, scale = double(0.0, 1.0, 2.0)[:, None], double(0.5, 1.0, 2.0, 4.0)
    p, q = Normal(loc, torch.ones_like(loc)), Normal(torch.zeros_like(scale), scale)
    got = kb.kl_divergence(p, q)
    assert got.shape == (3, 4)
    truth = scale.log() + (1 + loc**2) / (2 * scale**2) - 0.5
    torch.testing.assert_close(got, truth, rtol=1e-12, atol=1e-16)
    assert got[0, 1].item() == 0.0
    rows = kb.kl_divergence(Independent(p.expand((3, 4)), 1), Independent(q.expand((3, 4)), 1))
    torch.testing.assert_close(rows, truth.sum(-1), rtol=1e-12, atol=0)


class Coin(Distribution):
    """A distribution nobody has a formula for."""

    arg_constraints = {}  # noqa: RUF012 - torch's protocol


class BentCoin(Coin):
    """Another one, for the test that registers it."""


@states("S002-15", needs=("kl_divergence",))
def test_a_missing_registration_says_what_to_do():
    coin = Coin(validate_args=False)
    with pytest.raises(NotImplementedError, match="register_kl") as caught:
        kb.kl_divergence(coin, scalar(Normal, 0.0, 1.0))
    assert "Coin" in str(caught.value)
    assert "Normal" in str(caught.value)


@states("S002-15", needs=("kl", "kl_divergence", "register_kl", "kl_method"))
def test_a_registration_adds_support_here_and_not_in_torch():
    @kb.register_kl(BentCoin, Normal)
    def _(p, q):
        return q.scale + 1

    coin, normal = BentCoin(validate_args=False), scalar(Normal, 0.0, 2.0)
    assert kb.kl_divergence(coin, normal).item() == 3.0
    assert kb.kl(coin, normal).item() == 3.0
    assert kb.kl_method(coin, normal) == "user"
    with pytest.raises(kb.RegistrationError):
        kb.register_kl(BentCoin, Normal)(lambda p, q: q.scale)
    with pytest.raises(NotImplementedError):
        torch.distributions.kl_divergence(coin, normal)


@pytest.mark.parametrize("name", PAIRS)
@states("S002-16", needs=("kl_divergence",))
def test_divergence_to_itself_is_exactly_zero(name):
    for distribution in PAIRS[name]:
        assert kb.kl_divergence(distribution, distribution).item() == 0.0
    p, _ = PAIRS[name]
    copy = type(p)(*(getattr(p, parameter).clone() for parameter in list(p.arg_constraints)[: _parameters_of(p)]))
    assert kb.kl_divergence(p, copy).item() == 0.0


def _parameters_of(distribution):
    """Bernoulli and Categorical list probs and logits, of which one is given."""
    return 1 if "logits" in distribution.arg_constraints else len(distribution.arg_constraints)


@states("S002-17", needs=("estimate_kl",))
def test_samples_of_the_first_argument_estimate_the_divergence():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4000, generator=generator, dtype=torch.float64)
    y = 1 + 2 * torch.randn(4000, generator=generator, dtype=torch.float64)
    estimate = kb.estimate_kl(kb.Samples(x), kb.Samples(y))
    forward, backward = math.log(2) - 0.25, 2 - math.log(2)  # KL(N(0, 1) || N(1, 2)) and its reverse
    assert estimate.stderr > 0
    assert abs(float(estimate) - forward) < 0.2 < abs(float(estimate) - backward)


@states("S002-05", "S002-20", needs=("kl_divergence",))
def test_the_vae_example():
    generator = torch.Generator().manual_seed(0)
    mean, log_var = torch.randn(2, 16, 8, generator=generator, dtype=torch.float64)
    prior = Normal(torch.zeros(8, dtype=torch.float64), torch.ones(8, dtype=torch.float64))
    got = kb.kl_divergence(Normal(mean, log_var.mul(0.5).exp()), prior)
    closed_form = -0.5 * (1 + log_var - mean**2 - log_var.exp())
    assert got.shape == (16, 8)
    assert got.mean().item() == value(closed_form.mean().item())
    assert got.sum().item() == value(closed_form.sum().item())


@states("S002-21", needs=("kl", "Logits", "kl_divergence"))
def test_the_batched_categorical_example():
    generator = torch.Generator().manual_seed(0)
    logits_p, logits_q = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    got = kb.kl_divergence(Categorical(logits=logits_p), Categorical(logits=logits_q))
    log_p, log_q = logits_p.log_softmax(-1), logits_q.log_softmax(-1)
    torch.testing.assert_close(got, (log_p.exp() * (log_p - log_q)).sum(-1), rtol=1e-12, atol=0)
    torch.testing.assert_close(got, kb.kl(kb.Logits(logits_p), kb.Logits(logits_q)), rtol=1e-12, atol=0)
