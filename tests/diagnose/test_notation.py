"""Distributions written as text: what is read, and what is refused without being run."""

import pytest
import torch
from torch import distributions as d

from kullback import InputValueError
from kullback.diagnose.notation import names, parse_distribution


def test_numbers_become_float64_tensors():
    normal = parse_distribution("Normal(-1, scale=2.5e-3)")
    assert isinstance(normal, d.Normal)
    assert normal.loc.dtype == torch.float64
    assert (normal.loc.item(), normal.scale.item()) == (-1.0, 2.5e-3)


def test_lists_keywords_and_nesting():
    assert parse_distribution("Dirichlet([1, 2, 3])").concentration.tolist() == [1, 2, 3]
    assert parse_distribution("Bernoulli(logits=-800)").logits.item() == -800
    assert parse_distribution(" Categorical( logits=[0, -inf] ) ").logits.tolist() == [0, -float("inf")]
    joint = parse_distribution("Independent(Normal([0, 1], [1, 2]), 1)")
    assert joint.event_shape == (2,)
    mixture = parse_distribution("MixtureSameFamily(Categorical([0.3, 0.7]), Normal([0, 1], [1, 1]))")
    assert mixture.batch_shape == ()


def test_integers_where_torch_wants_them():
    assert parse_distribution("Multinomial(4, [0.5, 0.5])").total_count == 4
    assert parse_distribution("LKJCholesky(3, 1.5)").dim == 3
    assert parse_distribution("Binomial(5, 0.3)").total_count.item() == 5


def test_every_family_of_torch_can_be_named():
    assert {"Normal", "Wishart", "StudentT", "RelaxedBernoulli"} <= set(names())
    assert "register_kl" not in names()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Normal",
        "0",
        "Normal(0, 1",
        "Normal(0, 1) + Normal(0, 1)",
        "__import__('os').getcwd()",
        "torch.distributions.Normal(0, 1)",
        "Normal(*[0, 1])",
        "Normal(**{'loc': 0})",
        "Normal('0', 1)",
        "Distribution()",
        "ExponentialFamily()",
        "Normal(True, 1)",
        "Normal(0, 1, 2, 3)",
        "Normal(0, loc=1)",
        "Normal(0, 1, validate_args=0)",
        "Normal(lambda: 0, 1)",
        "Normal((0 for i in [1]), 1)",
        "Normal([[0], [1, 2]], 1)",
        "Normal(0, -1)",
        "Dirichlet([0, 1])",
        "LKJCholesky(2.5, 1)",
        "kl_divergence(0, 1)",
        "Normal(0, 1)\nNormal(0, 1)",
        "(" * 5000,
        "Normal(" + "-" * 20000 + "1, 1)",
        "N" * 200_000,
    ],
    ids=lambda text: text[:30] or "empty",
)
def test_everything_else_is_refused_with_a_sentence(text):
    with pytest.raises(InputValueError, match=r"[a-z]"):
        parse_distribution(text)


def test_a_misspelt_name_is_met_with_a_suggestion():
    with pytest.raises(InputValueError, match="perhaps Normal"):
        parse_distribution("Nromal(0, 1)")


def test_a_refused_parameter_is_named_with_its_constraint():
    with pytest.raises(InputValueError, match=r"expected: scale that satisfies GreaterThan\(lower_bound=0\.0\)$"):
        parse_distribution("Normal(0, -1)")
