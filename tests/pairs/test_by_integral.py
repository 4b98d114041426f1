"""Pairs without a formula of their own: the whole battery by the engine, against the tables of `golden/pairs`."""

import pytest
import torch
from torch import distributions as d

from kullback.pairs import kl_divergence, kl_method, registry
from tests.pairs.contract import *  # noqa: F403
from tests.pairs.contract import GOLDEN, Case

pytestmark = pytest.mark.sample(3)
NAMES = [path.stem.split("_") for path in sorted(GOLDEN.glob("*.json"))]
PAIRS = [(getattr(d, name[0], None), getattr(d, name[1], None)) for name in NAMES if len(name) == 2]
CASES = [Case(p, q) for p, q in PAIRS if p and q and p is not q and registry.find(p, q) is None]


def test_subclasses_are_read_as_what_they_are() -> None:
    chi2, gamma, inverse = (
        kind(*(torch.tensor(x, dtype=torch.float64) for x in given))
        for kind, given in ((d.Chi2, [3.0]), (d.Gamma, [1.5, 0.5]), (d.InverseGamma, [3.2, 0.7]))
    )
    assert kl_divergence(chi2, inverse) == kl_divergence(gamma, inverse)
    assert kl_divergence(inverse, chi2) == kl_divergence(inverse, gamma)
    assert kl_method(chi2, inverse) == kl_method(inverse, chi2) == "integral"
