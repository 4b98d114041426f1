"""`benchmarks.fit`: all contenders minimise the divergence that `project` minimises."""

import pytest

from benchmarks.fit import FITTED, PROJECTED, steps_of_lbfgs
from kullback import project


def test_optimizers_reach_the_same_optimum():
    case = PROJECTED["LogNormal to Gamma(0.5, 3), reverse"]
    found = project(case.target, case.family, direction=case.direction)
    assert found.iterations < steps_of_lbfgs(case, found.kl.item()) < 100


def test_families_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    assert all(hasattr(stats, case.scipy) for case in FITTED.values())
    assert sum(case.search for case in FITTED.values()) >= 8
