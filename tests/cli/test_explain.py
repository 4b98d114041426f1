"""`kullback explain`."""

import pytest

from kullback.cli.main import main


def test_both_directions_method_and_error(capsys):
    assert main(["explain", "Normal(0, 1)", "Normal(1, 2)"]) == 0
    out = capsys.readouterr().out
    assert "KL(p ‖ q) = 0.4431471806 nats = 0.6393262398 bits" in out
    assert "KL(q ‖ p) = 1.306852819 nats" in out
    assert out.count("closed form") == 2
    assert out.count("error: about") == 2


def test_infinity_and_a_missing_route_are_said_plainly(capsys):
    assert main(["explain", "Cauchy(0, 1)", "Uniform(0, 1)"]) == 0
    out = capsys.readouterr().out
    assert "KL(p ‖ q) = inf" in out
    assert main(["explain", "LKJCholesky(2, 1)", "Wishart(3, [[1, 0], [0, 1]])"]) == 0
    assert "No closed form" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("p", "q", "reason"),
    [
        ("Cauchy(0, 1)", "Normal(0, 1)", "its tails are too heavy for q"),
        ("StudentT(2)", "Normal(0, 1)", "its tails are too heavy for q"),
        ("Normal(0, 1)", "Exponential(1)", "p has mass where q has none, for example at x = -"),
        ("VonMises(0, 1)", "Uniform(0, 1)", "p has mass where q has none, for example at x = "),
        ("VonMises(0, 1e200)", "Uniform(0, 1)", "p has mass where q has none\n"),
        ("Categorical([0.5, 0.5])", "Categorical([1, 0])", "p has mass where q has none\n"),
        ("Uniform([0, 1], 2)", "Pareto(1, 1)", "p has mass where q has none, for example at x = 0."),
        ("StudentT([1, 3])", "Normal(0, 1)", "its tails are too heavy for q\n  closed form"),
    ],
)
def test_an_infinity_has_its_reason(p, q, reason, capsys):
    assert main(["explain", p, q]) == 0
    direction, _, reverse = capsys.readouterr().out.partition("KL(q ‖ p)")
    assert direction.count("infinite: ") == 1
    assert reason in direction
    assert "infinite" not in reverse or "q has mass where p has none" in reverse


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Beta(2, 3)", "Beta(concentration1: 2, concentration0: 3)"),
        ("RelaxedBernoulli(0.5, logits=2)", "logits: 2"),
        ("Multinomial(3, [0.5, 0.5])", "probs: [0.5, 0.5]"),
        (
            "MixtureSameFamily(Categorical([0.5, 0.5]), Normal([0, 1], 2))",
            "= MixtureSameFamily(Categorical(probs: [0.5, 0.5]), Normal(loc: [0, 1], scale: [2, 2]))",
        ),
    ],
)
def test_parameters_are_written_as_given(text, written, capsys):
    assert main(["explain", text, text]) == 0
    assert written in capsys.readouterr().out


def test_batches_are_listed(capsys):
    assert main(["explain", "Normal([0, 1], 1)", "Normal(0, 1)"]) == 0
    assert "[0, 0.5] nats" in capsys.readouterr().out


@pytest.mark.parametrize("bad", ["Nromal(0, 1)", "Normal(0, -1)", "Normal(0"])
def test_bad_input_is_exit_code_2_and_a_message_without_traceback(bad, capsys):
    assert main(["explain", bad, "Normal(0, 1)"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kullback: ")
    assert "Traceback" not in captured.err
