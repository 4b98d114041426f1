"""KL and its sisters of every ordered pair of laws of counts against sums with 50 digits, and their gradients."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributions as d

import kullback as kb

ROWS = json.loads((Path(__file__).parents[1] / "golden" / "counts.json").read_text(encoding="utf-8"))
# Relative; an entropy is relative to its size or to 1 nat, since it may be 0.
VALUE, GRADIENT = 1e-10, 1e-8
SIGNED = ("entropy", "cross_entropy")
SISTERS = {
    "kl": kb.kl,
    "js": kb.js,
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    "entropy": lambda p, _: kb.entropy(p),
    "cross_entropy": kb.cross_entropy,
    **{name: functools.partial(kb.renyi, alpha=float(name.split()[1])) for name in ROWS[0]["truth"] if " " in name},
}


def build(described: list[Any], *, grad: bool = False) -> tuple[d.Distribution, dict[str, torch.Tensor]]:
    name, given = described
    tensors = {k: torch.tensor(v, dtype=torch.float64, requires_grad=grad) for k, v in given.items()}
    return getattr(d, name)(**tensors, validate_args=False), tensors


def test_every_pair_is_there() -> None:
    assert len({(row["p"][0], row["q"][0]) for row in ROWS}) == 36


@pytest.mark.parametrize("name", SISTERS)
@pytest.mark.sample(3)
def test_values(name: str) -> None:
    bad = []
    for row in ROWS:
        got, want = SISTERS[name](build(row["p"])[0], build(row["q"])[0]).item(), float(row["truth"][name])
        size = max(abs(want), 1.0) if name in SIGNED else abs(want)
        if got != want if math.isinf(want) else not abs(got - want) <= VALUE * size + 1e-15:
            bad.append((row["p"], row["q"], got, want))
    assert not bad


def test_errors_contain_the_truth() -> None:
    for row in ROWS:
        found, want = kb.kl_with_error(build(row["p"])[0], build(row["q"])[0]), float(row["truth"]["kl"])
        off = 0.0 if found.value == want else abs(found.value - want)
        assert off <= found.error + 8e-16 * max(want, 1.0), (row["p"], row["q"], found)


@pytest.mark.parametrize("name", SISTERS)
@pytest.mark.sample(3)
def test_gradients(name: str) -> None:
    bad = []
    for row in ROWS:
        for key, text in row.get("gradient", {}).get(name, {}).items():
            (p, given_p), (q, given_q) = build(row["p"], grad=True), build(row["q"], grad=True)
            side, _, parameter = key.partition(".")
            value, variable = SISTERS[name](p, q), {"p": given_p, "q": given_q}[side][parameter]
            (found,) = torch.autograd.grad(value, variable, allow_unused=True, materialize_grads=True)
            got, want = found.flatten()[0].item(), float(text)
            if not abs(got - want) <= GRADIENT * abs(want) + 1e-15:
                bad.append((row["p"], row["q"], key, got, want))
    assert not bad


def test_an_infinite_element_has_no_gradient() -> None:
    """Where p reaches beyond q, log-odds of −800 are a chance of 0 in numbers, but not a slope without a number."""
    logits, probs = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (-800.0, 0.625))
    value = kb.kl(d.Geometric(probs), d.Binomial(torch.tensor(1e6, dtype=torch.float64), logits=logits))
    assert value.item() == math.inf
    assert [g.item() for g in torch.autograd.grad(value, [probs, logits])] == [0.0, 0.0]
