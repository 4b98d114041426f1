"""Pairs that are infinite whatever the parameters."""

import math

import pytest
import torch

from kullback.divergences.kl import integral as kl_by_integral
from kullback.pairs import kl_divergence, kl_method, kl_with_error
from kullback.pairs.integrals import INFINITE_PAIRS
from kullback.pairs.parameters import tensors_of
from kullback.pairs.table import examples


@pytest.mark.parametrize(("p", "q"), INFINITE_PAIRS, ids=lambda family: family.__name__)
def test_infinite_with_zero_gradient_as_the_tails_say(p: type, q: type) -> None:
    one, other = examples()[p], examples()[q]
    assert kl_method(one, other) == "infinite"
    assert kl_divergence(one.expand((2, 1)), other.expand((3,))).tolist() == [[math.inf] * 3] * 2
    assert kl_with_error(one, other).certified
    # The tail rules of the integral, element by element, come to the same.
    assert kl_by_integral(one, other)[0] == math.inf
    names = [name for name in p.arg_constraints if isinstance(getattr(one, name), torch.Tensor)]
    leaves = {name: getattr(one, name).clone().requires_grad_() for name in names}
    moved = p(**leaves)
    assert tensors_of(moved)
    kl_divergence(moved, other).backward()
    assert all(leaf.grad is not None and leaf.grad.item() == 0 for leaf in leaves.values())
