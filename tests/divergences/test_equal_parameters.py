"""Second derivatives where p and q are equal: multiples of the Fisher information, which natural gradients use."""

import mpmath
import pytest
import torch
from torch.distributions import Gamma, NegativeBinomial, Normal, StudentT, VonMises

import kullback as kb

_RATIO = float(mpmath.besseli(1, 2) / mpmath.besseli(0, 2))
# The family, its parameters, the diagonal of the information.
FAMILIES = {
    "Normal": (Normal, (0.5, 1.5), (1 / 1.5**2, 2 / 1.5**2)),
    "Gamma": (Gamma, (2.0, 3.0), (float(mpmath.psi(1, 2)), 2 / 9)),
    "StudentT": (lambda loc, scale: StudentT(4.0, loc, scale), (0.1, 1.2), (5 / 7 / 1.44, 8 / 7 / 1.44)),
    "VonMises": (VonMises, (0.3, 2.0), (2 * _RATIO, 1 - _RATIO / 2 - _RATIO**2)),
    "NegativeBinomial": (lambda probs: NegativeBinomial(3.5, probs), (0.3,), (3.5 / (0.3 * 0.7**2),)),
}
# What they are of it: f''(1), or the order of Rényi's divergence.
DIVERGENCES = {
    "kl": (kb.kl, 1.0),
    "jeffreys": (kb.jeffreys, 2.0),
    "js": (kb.js, 0.25),
    "skew_kl": (lambda p, q: kb.skew_kl(p, q, 0.25), 0.5625),
    "scaled_js": (lambda p, q: kb.scaled_js(p, q, 0.25), 1.0),
    "chi2": (kb.chi2, 2.0),
    "renyi_half": (lambda p, q: kb.renyi(p, q, 0.5), 0.5),
    "renyi_two": (lambda p, q: kb.renyi(p, q, 2.0), 2.0),
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.sample(3)
def test_hessian_is_a_multiple_of_the_information(divergence: str, family: str) -> None:
    make, numbers, information = FAMILIES[family]
    function, multiple = DIVERGENCES[divergence]
    own, other = ([torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in numbers] for _ in range(2))
    value = function(make(*own), make(*other))
    assert value.item() == 0
    slopes = torch.autograd.grad(value, other, create_graph=True)
    for i, slope in enumerate(slopes):
        seconds = torch.autograd.grad(slope, [other[i], own[i]], retain_graph=True)
        assert seconds[0].item() == pytest.approx(multiple * information[i], rel=1e-8)
        assert seconds[1].item() == pytest.approx(-multiple * information[i], rel=1e-8)
