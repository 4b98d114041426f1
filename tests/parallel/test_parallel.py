"""Vocabulary-parallel divergences on gloo ranks: values, gradients, masks, refusals, a rank that dies."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kullback import Logits, UnavailableError, parallel
from kullback.testing import assert_parallel_parity
from tests.parallel import ranks

TREE = Path(__file__).parents[2]


def run(check, number, folder):
    """Plain processes: what they import is torch and this package, not pytest."""
    commands = [
        [sys.executable, "-m", "tests.parallel.ranks", check, str(rank), str(number), str(folder)]
        for rank in range(number)
    ]
    processes = [subprocess.Popen(command, cwd=TREE, stderr=subprocess.PIPE, text=True) for command in commands]
    errors = [process.communicate()[1] for process in processes]
    found = [path.read_text() for path in sorted(folder.glob("result-*"))]
    assert not any(found), "\n".join(found)
    assert len(found) == number, "\n".join(errors)


def test_values_gradients_options_refusals_and_a_dead_rank(tmp_path):
    run("quick", 2, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 4])
def test_every_function_of_every_case(number, tmp_path):
    run("full", number, tmp_path)


@pytest.mark.slow
def test_parity_finds_gradients_that_are_too_large():
    with pytest.raises(AssertionError, match="2 times the right length"):
        assert_parallel_parity(ranks.too_large, ranks.whole, ranks=2)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_parity_of_kl(number):
    assert_parallel_parity(ranks.sharded, ranks.whole, ranks=number)


def test_without_a_group_the_error_says_how_to_make_one():
    with pytest.raises(UnavailableError, match="init_process_group"):
        parallel.kl(Logits(torch.zeros(2, 3)), Logits(torch.zeros(2, 3)))
