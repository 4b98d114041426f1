"""Distributions written as text: what is read, and what is refused without being run."""

import contextlib
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import distributions as d

from kullback import InputValueError, kl
from kullback.diagnose.constraint_words import words
from kullback.diagnose.expression import parse_expression
from kullback.diagnose.notation import _example, names, parse_distribution


def test_numbers_become_float64_tensors():
    normal = parse_distribution("Normal(-1, scale=2.5e-3)")
    assert isinstance(normal, d.Normal)
    assert normal.loc.dtype == torch.float64
    assert (normal.loc.item(), normal.scale.item()) == (-1.0, 2.5e-3)


def test_lists_keywords_and_nesting():
    assert parse_distribution("Dirichlet([1, 2, 3])").concentration.tolist() == [1, 2, 3]
    assert parse_distribution("Bernoulli(logits=-800)").logits.item() == -800
    assert parse_distribution(" Categorical( logits=[0, -inf] ) ").logits.tolist() == [0, -math.inf]
    joint = parse_distribution("Independent(Normal([0, 1], [1, 2]), 1)")
    assert joint.event_shape == (2,)
    mixture = parse_distribution("MixtureSameFamily(Categorical([0.3, 0.7]), Normal([0, 1], [1, 1]))")
    assert mixture.batch_shape == ()
    lognormal = parse_distribution("TransformedDistribution(Normal(0, 1), [AffineTransform(1, 2), ExpTransform()])")
    assert kl(lognormal, parse_distribution("LogNormal(1, 2)")).item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/2", 0.5),
        ("-2**2", -4.0),
        ("2*pi", math.tau),
        ("(1 + 2)*3 - 1", 8.0),
        ("sqrt(2)", math.sqrt(2)),
        ("log(e)", 1.0),
        ("π", math.pi),
        ("−1", -1.0),
        (".5e-3", 5e-4),
        ("[1, [2], []]", [1.0, [2.0], []]),
    ],
)
def test_arithmetic(text, value):
    assert parse_expression(text) == value


@pytest.mark.parametrize(
    "text",
    ["N(0, 1)", "Gaussian(0, 1)", "normal(0, 1)", "torch.distributions.Normal(0, 1)", "Normal(loc: 0, scale: 1)"],
)
def test_short_names_any_case_and_what_torch_prints(text):
    assert kl(parse_distribution(text), d.Normal(0.0, 1.0)).item() == 0


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Normal(mu=1, sigma=2)", "Normal(1, 2)"),
        ("Laplace(0, b=3)", "Laplace(0, 3)"),
        ("Gamma(alpha=2, beta=3)", "Gamma(2, 3)"),
        ("Beta(a=2, b=3)", "Beta(2, 3)"),
        ("Uniform(a=2, b=3)", "Uniform(2, 3)"),
        ("Pareto(1, a=2)", "Pareto(1, 2)"),
        ("Binomial(n=10, p=0.3)", "Binomial(10, 0.3)"),
        ("StudentT(nu=3)", "StudentT(3)"),
        ("MVN([0, 0], cov=[[1, 0], [0, 1]])", "MVN([0, 0], [[1, 0], [0, 1]])"),
    ],
)
def test_usual_names_of_parameters(text, same):
    assert kl(parse_distribution(text), parse_distribution(same)).item() == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Normal(0, var=4)", r"scale=sqrt\(…\)"),
        ("Exponential(beta=2)", "no parameter 'beta'"),
        ("NegativeBinomial(3, p=0.5)", "no parameter 'p'"),
        ("Normal(loc=0, mu=1, scale=1)", "loc twice"),
        ("[0.2, 0.8]", r"Categorical\(\[0.2, 0.8\]\)"),
    ],
)
def test_ambiguous_names_of_parameters_are_refused(text, why):
    with pytest.raises(InputValueError, match=why):
        parse_distribution(text)


def test_mixtures():
    mixture = parse_distribution("0.3*Normal(0, 1) + 0.7*Normal(4, 1)")
    assert isinstance(mixture, d.MixtureSameFamily)
    assert mixture.mixture_distribution.probs.tolist() == pytest.approx([0.3, 0.7])
    assert mixture.component_distribution.loc.tolist() == [0, 4]
    thirds = parse_distribution("1/3*N(0, 1) + 1/3*N(1, 1) + N(2, 1)/3")
    assert thirds.mixture_distribution.probs.tolist() == pytest.approx([1 / 3] * 3)
    nested = parse_distribution("0.5*(0.4*N(0, 1) + 0.6*N(1, 1)) + 0.5*N(2, 1)")
    assert nested.mixture_distribution.probs.tolist() == pytest.approx([0.2, 0.3, 0.5])
    families = parse_distribution("0.3*Normal(0, 1) + 0.7*StudentT(3, 0, 1) + 0*Cauchy(0, 1)")
    assert families.weights.tolist() == [0.3, 0.7]
    assert [type(part) for part in families.parts] == [d.Normal, d.StudentT]
    assert parse_distribution("0.5*Bernoulli(0.2) + 0.5*Bernoulli(logits=1)").log_prob(
        torch.tensor(1.0)
    ).exp().item() == (pytest.approx(0.1 + 0.5 / (1 + math.exp(-1))))
    batch = parse_distribution("0.5*N([0, 1, 2], 1) + 0.5*N([3, 4, 5], 1)")
    assert batch.batch_shape == (3,)
    assert batch.component_distribution.loc.tolist() == [[0, 3], [1, 4], [2, 5]]
    vectors = parse_distribution("0.5*MVN([0, 0], [[1, 0], [0, 1]]) + 0.5*MVN([1, 1], [[2, 0], [0, 2]])")
    assert vectors.event_shape == (2,)
    assert vectors.component_distribution.covariance_matrix[1].tolist() == [[2, 0], [0, 2]]
    assert isinstance(parse_distribution("1*N(0, 1)"), d.Normal)


def test_integers_where_torch_wants_them():
    assert parse_distribution("Multinomial(4, [0.5, 0.5])").total_count == 4
    assert parse_distribution("LKJCholesky(3, 1.5)").dim == 3
    assert parse_distribution("Binomial(5, 0.3)").total_count.item() == 5


@pytest.mark.parametrize("name", names())
def test_every_family_of_torch_can_be_written_as_its_example_says(name):
    parse_distribution(_example(names()[name]).strip('"'))


REFUSED = {
    "": "empty",
    "Normal": "no parameters in parentheses",
    "0": "it is the number 0",
    "[1]": "it is a list",
    "Normal(0, 1": "the parenthesis opened at character 7 is not closed",
    "Normal(0, 1))": "no '\\(' opens the '\\)' at character 13",
    "Normal([0, 1)": "the bracket opened at character 8 is not closed",
    "Normal(0 1)": "a comma or '\\)' belongs there",
    "Normal(0, 1) + Normal(0, 1)": "need weights",
    "0.3*Normal(0, 1) + 0.6*Normal(0, 1)": "sum to 0.9",
    "1.5*Normal(0, 1) + -0.5*Normal(0, 1)": "at least 0",
    "0.5*Normal(0, 1) + 0.5*Poisson(1)": "all densities or all mass functions",
    "0.5*Dirichlet([1, 1]) + 0.5*Normal(0, 1)": "of one family",
    "0.5*Normal([0, 1], 1) + 0.5*Laplace([0, 1, 2], 1)": "different shapes",
    "__import__('os').getcwd()": "has no meaning here",
    "os.system(0)": "no distribution 'os.system'",
    "Normal(*[0, 1])": "not expected",
    "Normal('0', 1)": "has no meaning here",
    "Normal(0, 1) if 1 else 2": "not expected",
    "Distribution()": "no distribution 'Distribution'",
    "ExponentialFamily()": "no distribution 'ExponentialFamily'",
    "Normal(True, 1)": "'True' is no number",
    "Normal(0, 1, 2, 3)": "at most 2 parameters",
    "Normal(0, loc=1)": "given loc twice",
    "Normal(scale=1, scale=2)": "given scale twice",
    "Normal(0, 1, validate_args=0)": "no parameter 'validate_args'",
    "Normal(0, scal=1)": "Did you mean scale",
    "Normal()": "Normal also needs loc and scale",
    "Normal([[0], [1, 2]], 1)": "different lengths",
    "Normal(0, -1)": r"scale of Normal must be greater than 0\.\n  got:      scale = -1",
    "Normal(nan, 1)": "loc of Normal must be a number, not NaN",
    "Uniform(1, 0)": "low of Uniform must be less than 0|Uniform",
    "Beta(-1, 1)": "must be greater than 0",
    "Dirichlet([0, 1])": "greater than 0",
    "Categorical([-1, 2])": "sum 1",
    "MultivariateNormal([0, 0], [[1, 2], [2, 1]])": "positive definite",
    "LKJCholesky(2.5, 1)": "whole number",
    "LKJCholesky(1e300, 1)": "whole number from 0 to 200",
    "LKJCholesky(1000000000, 1)": "whole number from 0 to 200",
    "Multinomial(1e12, [0.5, 0.5])": "whole number",
    "Independent(3, 1)": "base_distribution of Independent is a distribution",
    "Normal(Normal(0, 1), 1)": "loc of Normal is a number",
    "Wishart(3)": "Wishart",
    "LowRankMultivariateNormal([0, 0], [[], [0]], [1, 1])": "LowRankMultivariateNormal",
    "Normal(" + "9" * 400 + ", 1)": "larger than any float64",
    "Normal(1/0, 1)": "no number from 1, 0",
    "Normal(10**400, 1)": "no number",
    "Normal((-8)**0.5, 1)": "no number",
    "kl_divergence(0, 1)": "no distribution 'kl_divergence'",
    "Normal(0, 1)\nNormal(0, 1)": "not expected",
    "(" * 5000: "nested deeper",
    "Normal(" + "-" * 9000 + "1, 1)": "nested deeper",
    "[" * 9000: "nested deeper",
    "Normal(" + "1+" * 9000 + "1, 1)": "more than 5000 numbers",
    "N" * 200_000: "too long",
    "Normal([" + "0," * 1500 + "], 1)": "more than 1000 entries",
    f"Normal([{'[0],' * 900}], [{'1,' * 900}])": "when broadcast",
}


@pytest.mark.parametrize(("text", "why"), REFUSED.items(), ids=[text[:30] or "empty" for text in REFUSED])
def test_everything_else_is_refused_with_a_sentence(text, why):
    with pytest.raises(InputValueError, match=why) as caught:
        parse_distribution(text)
    assert len(str(caught.value)) < 1000
    assert "__init__" not in str(caught.value)


def test_a_misspelt_name_is_met_with_a_suggestion():
    with pytest.raises(InputValueError, match="Did you mean Normal"):
        parse_distribution("Nromal(0, 1)")
    with pytest.raises(InputValueError, match="Did you mean Normal"):
        parse_distribution("Gausian(0, 1)")


def test_constraints_in_words():
    assert words("Interval(lower_bound=0.0, upper_bound=1.0)") == "between 0 and 1"
    assert words("IntegerGreaterThan(lower_bound=0)") == "a whole number, at least 0"
    assert words("SomeThingNew(x=1)") == "some thing new"


PIECES = [
    "Normal",
    "N",
    "Dirichlet",
    "Independent",
    "Wishart",
    "LKJCholesky",
    "Binomial",
    "Multinomial",
    "Beta",
    "(",
    ")",
]
PIECES += [
    "[",
    "]",
    ",",
    "=",
    ":",
    "+",
    "-",
    "*",
    "/",
    "**",
    "0",
    "1",
    "2.5",
    "1e300",
    "inf",
    "nan",
    "pi",
    "loc",
    "probs",
]
PIECES += [" ", "\0", "‖", "'", "\\", "lambda", "0.5*", "Normal(0,1)", "[1,2]", "[[1,0],[0,1]]"]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text(max_size=40))
def test_no_text_does_anything_but_describe_or_be_refused(text):
    with contextlib.suppress(InputValueError):
        assert isinstance(parse_distribution(text), d.Distribution)
