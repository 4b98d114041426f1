"""Vocabulary-parallel divergences on gloo ranks: values, gradients, masks, refusals, a rank that dies."""

import pytest
import torch
import torch.multiprocessing as mp

from kullback import Logits, UnavailableError, parallel
from kullback.testing import assert_parallel_parity
from tests.parallel import ranks


def run(work, number, folder):
    mp.spawn(work, (number, str(folder)), nprocs=number, join=True)
    found = {path.name: path.read_text() for path in sorted(folder.glob("result-*"))}
    assert not any(found.values()), "\n".join(found.values())
    return found


def test_values_gradients_options_and_refusals_on_three_ranks(tmp_path):
    assert len(run(ranks.all_checks, 3, tmp_path)) == 3


def test_a_dead_rank_is_an_error_on_the_others(tmp_path):
    assert len(run(ranks.one_rank_dies, 2, tmp_path)) == 1


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
