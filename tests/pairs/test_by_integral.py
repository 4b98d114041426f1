"""Pairs without a formula of their own, by the engine, against the tables of `tests/golden/pairs`."""

import pytest
from torch import distributions as d

from kullback.pairs import registry
from tests.pairs.contract import GOLDEN, Case, test_gradient, test_value  # noqa: F401

pytestmark = pytest.mark.sample(3)
NAMES = [path.stem.split("_") for path in sorted(GOLDEN.glob("*.json"))]
PAIRS = [(getattr(d, name[0], None), getattr(d, name[1], None)) for name in NAMES if len(name) == 2]
CASES = [Case(p, q) for p, q in PAIRS if p and q and p is not q and registry.find(p, q) is None]
