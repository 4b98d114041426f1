"""Rules about structure: independent dimensions, equal bijections, any exponential family."""

import mpmath
import pytest
import torch
from torch.distributions import (
    ExponentialFamily,
    Independent,
    LogNormal,
    Normal,
    TransformedDistribution,
    constraints,
)
from torch.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    SoftmaxTransform,
    TanhTransform,
)

from kullback import NoRouteError
from kullback.pairs.dispatch import kl_divergence, kl_method, kl_with_error


def normals(*shape: int) -> tuple[Normal, Normal]:
    ramp = torch.arange(1.0, 1 + torch.Size(shape).numel(), dtype=torch.float64).reshape(shape)
    return Normal(ramp, 1 + 1 / ramp), Normal(ramp.sqrt(), ramp)


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_independent_sums_over_its_dimensions(dims):
    p, q = normals(2, 3)
    each = kl_divergence(p, q)
    want = each.sum(tuple(range(-dims, 0))) if dims else each
    torch.testing.assert_close(kl_divergence(Independent(p, dims), Independent(q, dims)), want)


def test_nested_and_unequal_wrappers_are_the_same_distribution():
    p, q = normals(2, 3)
    want = kl_divergence(p, q).sum()
    torch.testing.assert_close(kl_divergence(Independent(Independent(p, 1), 1), Independent(q, 2)), want)
    torch.testing.assert_close(kl_divergence(Independent(p, 0), q), kl_divergence(p, q))
    torch.testing.assert_close(kl_divergence(p, Independent(q, 0)), kl_divergence(p, q))


def test_independent_broadcasts_batches_but_not_events():
    p, _ = normals(4, 3)
    one = Normal(torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    value = kl_divergence(Independent(p, 1), Independent(one, 1))
    torch.testing.assert_close(value, kl_divergence(p, one).sum(-1))
    assert kl_method(Independent(p, 1), Independent(one, 1)) == "closed form"


def test_equal_bijections_cancel_however_they_are_written():
    p, q = normals(3)
    bend = [AffineTransform(1.0, 2.0), TanhTransform()]
    squashed = TransformedDistribution(p, bend)
    again = TransformedDistribution(q, [ComposeTransform([AffineTransform(torch.ones(3), 2.0), TanhTransform()])])
    torch.testing.assert_close(kl_divergence(squashed, again), kl_divergence(p, q))
    torch.testing.assert_close(
        kl_divergence(LogNormal(p.loc, p.scale), TransformedDistribution(q, [ExpTransform()])), kl_divergence(p, q)
    )


@pytest.mark.parametrize("transform", [AbsTransform(), SoftmaxTransform()], ids=["abs", "softmax"])
def test_transforms_that_are_not_injective_have_no_route(transform):
    p, q = (TransformedDistribution(d, [transform]) for d in normals(3))
    with pytest.raises(NoRouteError, match="TransformedDistribution"):
        kl_divergence(p, q)
    assert kl_method(p, q) is None


@pytest.mark.parametrize("maps", [[ExpTransform()], [AffineTransform(1.0, 2.0), TanhTransform()]], ids=["one", "two"])
def test_equal_maps_of_numbers_cost_no_more_than_the_pair_before_them(maps):
    """One rounding, in the dtype of the parameters; a tensor in a map counts, and shapes that differ are broadcast."""
    p, q = Normal(torch.tensor([0.1, 0.2]), torch.tensor([1.0, 1.5])), Normal(torch.tensor([0.3, 0.2]), torch.ones(2))
    value = kl_divergence(TransformedDistribution(p, maps), TransformedDistribution(q, maps))
    assert torch.equal(value, kl_divergence(p, q))
    one = Normal(0.3, 1.0)
    value = kl_divergence(TransformedDistribution(p, maps), TransformedDistribution(one, maps))
    assert torch.equal(value, kl_divergence(p, one))
    wide = [*maps, AffineTransform(torch.zeros(2, dtype=torch.float64), 3.0)]
    value = kl_divergence(TransformedDistribution(p, wide), TransformedDistribution(q, wide))
    assert value.dtype is torch.float64
    torch.testing.assert_close(value.float(), kl_divergence(p, q), rtol=1e-7, atol=0)


def test_different_transforms_are_integrated():
    p, q = normals(3)
    value = kl_divergence(
        TransformedDistribution(p, [AffineTransform(0.0, 1.0)]),
        TransformedDistribution(q, [AffineTransform(0.0, 2.0)]),
    )
    torch.testing.assert_close(value, kl_divergence(p, Normal(2 * q.loc, 2 * q.scale)))


class Rayleigh(ExponentialFamily):
    """A user's family: density x/s² exp(−x²/2s²), natural parameter −1/2s², log-normaliser −log(−2θ)."""

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.positive

    def __init__(self, scale):
        self.scale = scale
        super().__init__(scale.shape, validate_args=False)

    @property
    def _natural_params(self):
        return (-0.5 / self.scale**2,)

    def _log_normalizer(self, theta):
        return -torch.log(-2 * theta)


def rayleigh_kl(s, t):
    """The divergence r − 1 − log r, r = (s/t)², and r − 1, by mpmath."""
    with mpmath.workdps(50):
        ratios = [(mpmath.mpf(a) / mpmath.mpf(b)) ** 2 for a, b in zip(s.tolist(), t.tolist(), strict=True)]
        values = [[float(r - 1 - mpmath.log(r)) for r in ratios], [float(r - 1) for r in ratios]]
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("step", [1e3, 2.0, 1e-1, 1e-3, 1e-6, 1e-9])
def test_a_users_exponential_family_is_answered_from_its_log_normaliser(step):
    s = torch.tensor([0.3, 1.7, 1e4], dtype=torch.float64, requires_grad=True)
    t = (s.detach() * (1 + step)).requires_grad_()
    result = kl_with_error(Rayleigh(s), Rayleigh(t))
    want, w = rayleigh_kl(s.detach(), t.detach())
    # θ itself is rounded when it is formed from s, which the divergence of close members amplifies.
    tolerance = 1e-10 + 1e-15 / step
    torch.testing.assert_close(result.value, want, rtol=tolerance, atol=0)
    assert bool((result.error >= 0).all())
    assert result.method == "integral"
    result.value.sum().backward()
    torch.testing.assert_close(s.grad, 2 * w / s.detach(), rtol=1e-8 + 1e-14 / step, atol=0)
    torch.testing.assert_close(t.grad, -2 * w / t.detach(), rtol=1e-8 + 1e-14 / step, atol=0)


class Shares(ExponentialFamily):
    """A Beta as a user would write it: its natural parameters are exact, its log-normaliser calls torch's lgamma."""

    arg_constraints = {}  # noqa: RUF012
    support = constraints.unit_interval

    def __init__(self, a, b):
        self.a, self.b = a, b
        super().__init__(a.shape, validate_args=False)

    @property
    def _natural_params(self):
        return self.a, self.b

    def _log_normalizer(self, a, b):
        return a.lgamma() + torch.special.gammaln(b) - torch.mvlgamma(a + b, 1)


def shares_kl(a, b, c, d):
    """The Bregman divergence of the logarithm of the beta function, by mpmath."""
    total, slope, log_gamma = a + b, mpmath.digamma(a + b), mpmath.loggamma
    value = log_gamma(c) + log_gamma(d) - log_gamma(c + d) - log_gamma(a) - log_gamma(b) + log_gamma(total)
    return value - (c - a) * (mpmath.digamma(a) - slope) - (d - b) * (mpmath.digamma(b) - slope)


def test_a_log_normaliser_of_gamma_functions_keeps_its_digits_near_and_far():
    """torch's trigamma is right to 5e-10, and no rule follows A″ from 358 degrees of freedom down to a sixth of one."""
    rows = [(358.5, 285.0, 21.5, 0.16), (2.5, 0.75, 2.5, 0.75 * (1 + 1e-6)), (1.5, 1.0, 1.5 * (1 - 1e-3), 1.0)]
    leaves = [torch.tensor(column, dtype=torch.float64, requires_grad=True) for column in zip(*rows, strict=True)]
    value = kl_divergence(Shares(*leaves[:2]), Shares(*leaves[2:]))
    slopes = torch.autograd.grad(value.sum(), leaves)
    with mpmath.workdps(60):
        for i, row in enumerate(rows):
            at = [mpmath.mpf(x) for x in row]
            assert value[i].item() == pytest.approx(float(shares_kl(*at)), rel=1e-10)
            for j, slope in enumerate(slopes):
                want = mpmath.diff(lambda x, j=j, at=at: shares_kl(*at[:j], x, *at[j + 1 :]), at[j])
                assert slope[i].item() == pytest.approx(float(want), rel=1e-8)


def test_different_exponential_families_are_not_mixed_up():
    class Other(Rayleigh):
        def _log_normalizer(self, theta):
            return -torch.log(-theta)

    with pytest.raises(NoRouteError):
        kl_divergence(Rayleigh(torch.ones(1)), Other(torch.ones(1)))
