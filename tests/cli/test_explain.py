"""`kullback explain`."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from kullback.cli.main import main


def test_both_directions_method_formula_and_error(capsys):
    assert main(["explain", "Normal(0, 1)", "Normal(1, 2)"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("KL(p ‖ q) = 0.4431471806 nats\n")
    assert "KL(p ‖ q)              0.4431471806  0.6393262398" in out
    assert "KL(q ‖ p)               1.306852819   1.885390082" in out
    forward, backward = (line for line in out.splitlines() if "closed form" in line)
    assert "(Δμ/σ_q)²" in forward
    assert "(Δμ/σ_p)²" in backward, "the formula names p and q as the direction has them"
    assert out.count("error about") == 2
    assert "KL(p ‖ q) = H(p, q) − H(p): 0.443147 = 1.86209 − 1.41894 nats" in out


def test_a_missing_route_is_exit_status_1(capsys):
    assert main(["explain", "LKJCholesky(2, 1)", "Wishart(3, [[1, 0], [0, 1]])"]) == 1
    assert "No closed form" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("p", "q", "reason"),
    [
        ("Cauchy(0, 1)", "Normal(0, 1)", "its tails are too heavy for q"),
        ("StudentT(2)", "Normal(0, 1)", "its tails are too heavy for q"),
        ("Normal(0, 1)", "Exponential(1)", "p has mass where q has none, for example at x = -"),
        ("VonMises(0, 1e200)", "Uniform(0, 1)", "p has mass where q has none"),
        ("Categorical([0.5, 0.5])", "Categorical([1, 0])", "p has mass where q has none"),
        ("Uniform([0, 1], 2)", "Pareto(1, 1)", "p has mass where q has none, for example at x = 0."),
    ],
)
def test_an_infinity_has_its_reason(p, q, reason, capsys):
    assert main(["explain", p, q]) == 0
    out = capsys.readouterr().out
    assert "KL(p ‖ q) is infinite" in out
    assert reason in out


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Beta(2, 3)", "p = Beta(concentration1: 2, concentration0: 3)"),
        ("RelaxedBernoulli(0.5, logits=2)", "logits: 2"),
        ("Multinomial(3, [0.5, 0.5])", "probs: [0.5, 0.5]"),
        (
            "0.5*Normal(0, 2) + 0.5*Normal(1, 2)",
            "p = MixtureSameFamily(Categorical(probs: [0.5, 0.5]), Normal(loc: [0, 1], scale: [2, 2]))",
        ),
    ],
)
def test_parameters_are_written_as_given(text, written, capsys):
    assert main(["explain", text, text]) == 0
    assert written in capsys.readouterr().out


def test_a_batch_gets_a_summary_and_its_worst_rows(capsys):
    assert main(["explain", "Normal([0, 1, 2], 1)", "Normal(0, 1)"]) == 0
    out = capsys.readouterr().out
    assert "mean 0.8333333333 nats over 3 rows" in out
    assert out.index("\n2            2") < out.index("\n1          0.5")


def test_json_is_complete_and_strict(capsys):
    assert main(["explain", "Cauchy(0, 1)", "Normal(0, 1)", "--json", "--bits"]) == 0
    out = capsys.readouterr().out
    assert out.isascii()
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["unit"] == "bits"
    assert found["kl"]["value"] == "inf"
    assert found["reverse_kl"]["value"] == pytest.approx(0.2592445325 / np.log(2), rel=1e-9, abs=0)
    assert {"terms", "rows", "findings", "measures"} <= found.keys()


def test_html_and_plots_are_written(tmp_path, capsys):
    html, plot = tmp_path / "r.html", tmp_path / "r.svg"
    assert main(["explain", "Gamma(2, 1)", "LogNormal(0, 1)", "--html", str(html), "--plot", str(plot)]) == 0
    assert capsys.readouterr().err == f"wrote {html}\nwrote {plot}\n"
    assert "KL(p ‖ q)" in html.read_text(encoding="utf-8")
    assert main(["explain", "Gamma(2, 1)", "LogNormal(0, 1)", "--html", str(tmp_path / "no" / "r.html")]) == 2
    assert main(["explain", "Gamma(2, 1)", "LogNormal(0, 1)", "--plot", str(tmp_path / "r.exe")]) == 2


def test_the_threshold_is_exit_status_3():
    assert main(["explain", "Normal(0, 1)", "Normal(1, 1)", "--fail-above", "0.4"]) == 3
    assert main(["explain", "Normal(0, 1)", "Normal(1, 1)", "--fail-above", "0.6"]) == 0


def test_piped_text_has_no_margin(capsys):
    assert main(["explain", "Beta(2, 3)", "Kumaraswamy(2, 3)"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) > 80
    assert not any(line.endswith("…") for line in out.splitlines())
    assert main(["explain", "Beta(2, 3)", "Kumaraswamy(2, 3)", "--width", "60"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60


def test_a_terminal_gets_a_picture(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["explain", "Normal(0, 1)", "StudentT(3)"]) == 0
    out = capsys.readouterr().out
    assert "\x1b[" in out
    assert sum(0x2801 <= ord(char) <= 0x28FF for char in out) > 120
    assert out.index("Densities") < out.index("KL(q ‖ p)  "), "the picture comes first"


@pytest.mark.parametrize("bad", ["Nromal(0, 1)", "Normal(0, -1)", "Normal(0", "Normal()", "missing.npy"])
def test_bad_input_is_exit_status_2_and_one_line(bad, capsys):
    assert main(["explain", bad, "Normal(0, 1)" if "npy" not in bad else bad]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kullback: ")
    assert captured.err.count("\n") == 1


def test_usage_errors_suggest_and_exit_with_2(capsys):
    assert main(["explian", "a", "b"]) == 2
    assert "Did you mean 'explain'?" in capsys.readouterr().err
    assert main(["explain", "Normal(0, 1)"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["explain", "Normal(0, 1)", "Normal(0, 1)", "--jsn"]) == 2
    assert "--json" in capsys.readouterr().err


def test_debug_shows_the_traceback(capsys):
    assert main(["explain", "Normal(0", "Normal(0, 1)", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_without_arguments_help_is_shown(capsys):
    assert main([]) == 0
    assert "kullback explain teacher.npy student.npy --as logits" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "kullback 0.1.0\n"


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "utf-8"])
def test_any_encoding(encoding, monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert main(["explain", "Normal(0, 1)", "Normal(1, 2)"]) == 0
    assert main(["explain", "Normal(‖", "Normal(1, 2)"]) == 2
    assert main(["pairs", "--p", "Normal", "--q", "Exponential"]) == 0
    sys.stdout.flush()
    out = sys.stdout.buffer.getvalue().decode(encoding)
    assert "0.4431471806" in out
    assert ("KL(p ‖ q)" if encoding == "utf-8" else "KL(p || q)") in out


def test_python_can_run_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "kullback", "--version"], check=True, capture_output=True, env=os.environ, text=True
    )
    assert done.stdout == "kullback 0.1.0\n"


def save(path, array):
    np.save(path, array)
    return str(path)


def test_files_with_labels(tmp_path, capsys):
    rows = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    p, q = save(tmp_path / "p.npy", rows), save(tmp_path / "q.npy", rows + 3 * (np.arange(50) == 7))
    names = tmp_path / "names.txt"
    names.write_text("\n".join(f"token{i}" for i in range(50)), encoding="utf-8")
    assert main(["explain", p, q, "--as", "logits", "--labels", str(names)]) == 0
    out = capsys.readouterr().out
    assert "over 4 rows" in out
    assert "token7" in out
    np.savez(tmp_path / "both.npz", p=rows, q=rows)
    assert main(["explain", f"{tmp_path}/both.npz:p", f"{tmp_path}/both.npz:q", "--as", "logits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kl"]["value"] == [0, 0, 0, 0]


def test_a_file_that_does_not_say_what_it_holds_is_asked_about(tmp_path, capsys):
    p = save(tmp_path / "p.npy", np.array([[0.25, 0.75]]))
    assert main(["explain", p, p]) == 2
    assert "--as probs" in capsys.readouterr().err
    assert main(["explain", p, "Normal(0, 1)"]) == 2
    assert "One argument is a file" in capsys.readouterr().err


def test_tables_safetensors_and_samples_beside_a_distribution(tmp_path, capsys):
    p, q = tmp_path / "p.csv", tmp_path / "q.csv"
    p.write_text("a,b\n0.2,0.8\n0.5,0.5\n")
    q.write_text("a,b\n0.3,0.7\n0.4,0.6\n")
    assert main(["explain", str(p), str(q), "--as", "probs"]) == 0
    assert "mean 0.02307154487 nats over 2 rows" in capsys.readouterr().out
    save_file({"a": LOGITS, "b": LOGITS.flip(0)}, tmp_path / "m.safetensors")
    both = [f"{tmp_path}/m.safetensors:{name}" for name in "ab"]
    assert main(["explain", *both, "--as", "logits", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kl"]["value"]) == 2
    x = save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=500))
    assert main(["explain", x, "Normal(0, 1)", "--as", "samples"]) == 0
    assert "KL(p ‖ q) ≈" in capsys.readouterr().out
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    argv = [sys.executable, "-m", "kullback", "explain", x, "Normal(0, 1)", "--as", "samples"]
    done = subprocess.run(argv, check=True, capture_output=True, env=environment, text=True)
    assert done.stdout.startswith("KL(p || q) ~ ")
    assert " +- " in done.stdout.splitlines()[0]
    assert "?" not in done.stdout
    assert main(["explain", "Normal(0, 1)", x, "--as", "samples", "--fail-above", "5"]) == 0


def test_a_table_with_a_row_that_is_too_long_is_refused(tmp_path, capsys):
    path = tmp_path / "p.csv"
    path.write_text("a,b\n0.2,0.8,0.1\n0.5,0.5\n")
    assert main(["explain", str(path), str(path), "--as", "probs"]) == 2
    assert "row 1 has 3 cells and the first line 2" in capsys.readouterr().err


def test_an_expression_in_place_of_a_command(capsys):
    assert main(["Normal(0, 1)", "Normal(1, 2)"]) == 2
    assert "Did you mean kullback explain" in capsys.readouterr().err


LOGITS = torch.tensor([[2.0, -1.0, 0.5], [0.0, 1.0, 3.0]])
PROBS = LOGITS.softmax(-1)
MASKED = LOGITS.masked_fill(LOGITS < 0, -torch.inf)


# The wrong calls that fill issue trackers: the kind of tensor, the reduction, the direction, zeros and masks.


@pytest.mark.parametrize(
    ("given", "reading", "code", "remedy"),
    [
        ((PROBS, LOGITS), "probs", "looks-like-logits", "Logits(x)"),
        ((PROBS, PROBS), "log-probs", "looks-like-probs", "Probs(x)"),
        ((LOGITS.log_softmax(-1), PROBS), "probs", "looks-like-log-probs", "LogProbs(x)"),
        ((PROBS, PROBS), "logits", "looks-like-probs", "Probs(x)"),
        ((0.93 * PROBS, PROBS), "probs", "does-not-sum-to-1", "Counts(x)"),
        ((LOGITS.softmax(0), LOGITS.softmax(0)), "probs", "wrong-dimension", "dim=0"),
        ((LOGITS, LOGITS.flip(0)), "logits", "torch-reductions", 'reduction="mean"'),
        ((PROBS, torch.eye(3)[:2]), "probs", "looks-swapped", "kl(q, p)"),
        ((MASKED, 2 * MASKED), "logits", "shared-mask", "NaN"),
    ],
)
def test_wrong_calls_are_diagnosed_from_the_output(tmp_path, capsys, given, *, reading, code, remedy):
    paths = [save(tmp_path / f"{name}.npy", tensor.numpy()) for name, tensor in zip("pq", given, strict=True)]
    assert main(["explain", *paths, "--as", reading]) == 0
    out = capsys.readouterr().out
    assert f"[{code}]" in out
    assert remedy in out
