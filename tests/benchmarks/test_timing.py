"""Clocks, interleaving and statistics; time itself is simulated."""

import gc

import pytest

from benchmarks.timing import inner_loops, interleave, ratio, seconds_per_call, spread


class World:
    """A clock that only runs when a contender does, and remembers who ran."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def __call__(self):
        return self.now

    def contender(self, name, seconds):
        def run():
            self.calls.append(name)
            self.now += seconds

        return run


def test_median_and_quartiles():
    assert spread([4.0, 1.0, 3.0, 2.0, 5.0]) == (3.0, 2.0, 4.0)
    assert spread([4.0, 1.0, 3.0, 2.0, 5.0]).iqr == 2.0
    assert spread([7.0]) == (7.0, 7.0, 7.0)


def test_ratio_is_taken_round_by_round():
    # The machine is ten times slower in the second round; the ratio does not notice.
    assert ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == (2.0, 2.0, 2.0)
    assert ratio([2.0, 6.0, 4.0], [1.0, 2.0, 1.0]).median == 3.0


def test_ratio_refuses_samples_of_different_rounds():
    with pytest.raises(ValueError, match="shorter"):
        ratio([1.0, 2.0], [1.0])


def test_small_contenders_are_looped_until_a_sample_is_long_enough():
    world = World()
    loops = inner_loops(world.contender("a", 1e-4), min_seconds=5e-3, clock=world)
    assert loops == 64
    assert inner_loops(world.contender("b", 1.0), min_seconds=5e-3, clock=world) == 1


def test_a_sample_is_the_mean_over_its_loops_without_garbage_collection():
    world, enabled = World(), []
    run = world.contender("a", 0.25)
    assert seconds_per_call(lambda: (run(), enabled.append(gc.isenabled())), 4, clock=world) == 0.25
    assert world.calls == ["a"] * 4
    assert enabled == [False] * 4
    assert gc.isenabled()


def test_rounds_visit_everybody_and_start_with_the_next_one():
    world, ticks = World(), []
    thunks = {name: world.contender(name, seconds) for name, seconds in (("a", 1.0), ("b", 2.0), ("c", 4.0))}
    samples = interleave(thunks, repeats=4, clock=world, tick=ticks.append)
    assert "".join(ticks) == "abcbcacababc"
    assert "".join(world.calls) == "abc" + "".join(ticks)  # first one call each to choose the inner loops
    assert samples == {"a": [1.0] * 4, "b": [2.0] * 4, "c": [4.0] * 4}


def test_no_further_round_beyond_the_budget_but_five():
    world = World()
    thunks = {name: world.contender(name, 1.0) for name in "ab"}
    assert len(interleave(thunks, repeats=20, clock=world, budget=13.0)["a"]) == 7
    assert len(interleave(thunks, repeats=20, clock=world, budget=1.0)["b"]) == 5
    assert len(interleave(thunks, repeats=3, clock=world, budget=1.0)["b"]) == 3


def test_nobody_to_time():
    assert interleave({}, repeats=3) == {}
