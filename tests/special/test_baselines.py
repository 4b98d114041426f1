"""What the benchmarks race against: torch expressions that give the same answer, at the ends of the domain too."""

import pytest

from benchmarks.cases.special import CASES, EDGES, RACES
from benchmarks.gate import judge

# Functions for which no short torch expression is right at the edges: the ratio of the benchmark is a lower bound.
LOWER_BOUNDS = ["lgamma_bregman", "binet", "binet_bregman", "log_iv", "log_ive"]
BY_NAME = {built.name: built for built in CASES}


def verdict(built, size, contender):
    state = built.setup(built.sizes[size])
    return judge(built.contenders[contender].run(state), built.truth_of(state), rtol=built.rtol)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", RACES)
def test_both_sides_are_right(name, dtype):
    built = BY_NAME[f"special-{name}-{dtype}"]
    for size in ("64", EDGES):
        assert verdict(built, size, "kullback").right
    assert verdict(built, "64", "torch eager").right
    assert verdict(built, EDGES, "torch eager").right == (name not in LOWER_BOUNDS)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [name for name, race in RACES.items() if race.fastest])
def test_what_is_called_wrong_but_fastest_is_wrong(name, dtype):
    built = BY_NAME[f"special-{name}-{dtype}"]
    assert verdict(built, "64", "torch fastest").right
    assert not verdict(built, EDGES, "torch fastest").right
