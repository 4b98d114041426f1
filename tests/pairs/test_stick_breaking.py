"""KL(Dirichlet ‖ LogisticNormal) and back, and of two LogisticNormals."""

import math

from torch.distributions import Beta, Dirichlet, LogisticNormal, Normal, TransformedDistribution
from torch.distributions.transforms import SigmoidTransform

from kullback.pairs import kl_with_error
from tests.pairs.contract import *  # noqa: F403

# The slope to one location is 0 by symmetry, and the rounding of what cancels.
CASES = [Case(Dirichlet, LogisticNormal, gradient_floor=0.1)]  # noqa: F405


def t(values: object) -> Tensor:  # noqa: F405
    return torch.tensor(values, dtype=torch.float64)  # noqa: F405


P, Q = Dirichlet(t([2.0, 3.0, 1.5, 4.0])), LogisticNormal(t([0.0, 0.5, -0.3]), t([1.0, 0.8, 1.3]))


@pytest.mark.parametrize(("p", "q"), [(P, Q), (Q, P)])  # noqa: F405
def test_torch_means_the_same_distributions(p: Distribution, q: Distribution) -> None:  # noqa: F405
    """Against an average of torch's own log-densities: which map LogisticNormal uses is torch's choice."""
    torch.manual_seed(0)  # noqa: F405
    draws = p.sample((40000,))
    ratios = p.log_prob(draws) - q.log_prob(draws)
    found = kl_with_error(p, q)
    assert found.method == kl_method(p, q) == "integral"  # noqa: F405
    assert abs(found.value - ratios.mean()) < 4 * ratios.std() / math.sqrt(40000)


def test_two_pieces_are_one_fraction() -> None:
    dirichlet, normal = Dirichlet(t([2.5, 0.7])), LogisticNormal(t([0.4]), t([1.2]))
    beta, fraction = Beta(t(2.5), t(0.7)), TransformedDistribution(Normal(t(0.4), t(1.2)), [SigmoidTransform()])
    for pair, line in (((dirichlet, normal), (beta, fraction)), ((normal, dirichlet), (fraction, beta))):
        torch.testing.assert_close(kl_divergence(*pair), kl_divergence(*line), rtol=1e-11, atol=0)  # noqa: F405


def test_the_integral_batches_and_differentiates() -> None:
    loc = t([[0.1, -0.2], [1.0, 2.0]]).requires_grad_()
    concentration = t([1.0, 2.0, 3.0]).requires_grad_()
    scale = torch.ones(2, dtype=torch.float64)  # noqa: F405
    value = kl_divergence(LogisticNormal(loc, scale), Dirichlet(concentration))  # noqa: F405
    assert value.shape == (2,)

    def of_first(first: Tensor) -> Tensor:  # noqa: F405
        return kl_divergence(LogisticNormal(first, scale), Dirichlet(concentration.detach()))  # noqa: F405

    assert torch.autograd.gradcheck(of_first, (loc.detach()[0].clone().requires_grad_(),), rtol=1e-5)  # noqa: F405
    value.sum().backward()
    assert concentration.grad.isfinite().all()


def test_of_two_logistic_normals_is_the_divergence_of_the_normals() -> None:
    loc = t([[0.5, -1.0], [2.0, 1e3]])
    scale = t([1.5, 1e-3])
    p, q = LogisticNormal(loc, scale), LogisticNormal(loc * (1 + 1e-9), scale * (1 - 1e-9))
    want = kl_divergence(Normal(loc, scale), Normal(loc * (1 + 1e-9), scale * (1 - 1e-9))).sum(-1)  # noqa: F405
    torch.testing.assert_close(kl_divergence(p, q), want, rtol=1e-14, atol=0)  # noqa: F405
    assert kl_method(p, q) == "closed form"  # noqa: F405
    assert kl_divergence(p, p).tolist() == [0.0, 0.0]  # noqa: F405
