"""Users' classes with only `log_prob` and `support`: values, errors, derivatives, lies."""

from __future__ import annotations

import math

import pytest
import torch
from torch import distributions as d
from torch.distributions import constraints

import kullback as kb
from kullback.divergences.kl import integral


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], dtype=torch.float64)


class Hidden(d.Distribution):
    """A distribution of which only log_prob and support can be seen."""

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012

    def __init__(self, inner: d.Distribution, scale: float = 1.0) -> None:
        self._inner, self._scale = inner, scale
        super().__init__(inner.batch_shape, validate_args=False)

    @property
    def support(self) -> constraints.Constraint:
        return self._inner.support

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        return self._inner.log_prob(x) + math.log(self._scale)


class HiddenMixture(Hidden):
    support = constraints.real


MIXTURE = d.MixtureSameFamily(d.Categorical(t(0.3, 0.7)), d.Normal(t(-30.0, 50.0), t(0.5, 2.0)))
CASES = [
    (d.Normal(t(1000.0), t(1.0)), d.Laplace(t(990.0), t(30.0))),
    (d.Cauchy(t(3.0), t(0.2)), d.StudentT(t(1.5), t(0.0), t(1.0))),
    (d.Gamma(t(0.3), t(7.0)), d.LogNormal(t(0.0), t(2.0))),
    (d.Weibull(t(20.0), t(5.0)), d.Gamma(t(2.0), t(0.1))),
    (d.ContinuousBernoulli(t(0.3)), d.Beta(t(0.6), t(2.0))),
    (d.Poisson(t(300.0)), d.NegativeBinomial(t(10.0), t(0.9))),
    (d.Binomial(30, t(0.4)), d.Poisson(t(11.0))),
]


@pytest.mark.parametrize(("p", "q"), CASES)
def test_as_the_known_class(p: d.Distribution, q: d.Distribution) -> None:
    want = kb.kl_with_error(p, q).value.item()
    for pair in ((Hidden(p), q), (p, Hidden(q)), (Hidden(p), Hidden(q))):
        found = kb.kl_with_error(*pair)
        assert found.value.item() == pytest.approx(want, rel=1e-9, abs=0)
        assert abs(found.value.item() - want) <= found.error.item() + 1e-9 * want
        assert found.method in ("integral", "series")
    assert kb.kl_method(Hidden(p), q) in ("integral", "series")


def test_a_flat_mass_function_is_as_wide_as_its_support() -> None:
    """Its mark once reached to 2^39, and as many integers were to be summed."""

    class Die(d.Distribution):
        arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012
        support = constraints.integer_interval(0, 9)

        def log_prob(self, x: torch.Tensor) -> torch.Tensor:
            return torch.full_like(x, -math.log(10.0))

    known = d.Categorical(torch.full((10,), 0.1, dtype=torch.float64))
    assert kb.js(Die(validate_args=False), d.Poisson(t(4.0))).item() == pytest.approx(
        kb.js(known, d.Poisson(t(4.0))).item(), rel=1e-12
    )


class OfCounts(d.Distribution):
    """A mass function of 1, 2, 3, …"""

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012
    support = constraints.positive_integer

    def __init__(self, slope: torch.Tensor, power: torch.Tensor, log_total: float) -> None:
        self.slope, self.power, self._log_total = slope, power, log_total
        super().__init__(validate_args=False)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        return -self.slope * x - self.power * torch.log(x) - self._log_total


@pytest.mark.parametrize(
    ("power", "log_zeta", "want"),
    [
        (5.0, 0.03626225964922792, 0.5494491289615534),
        pytest.param(4.0, 0.07910987306733563, 0.43603871872755995, marks=pytest.mark.slow),
    ],
)
def test_a_sum_that_falls_as_a_power_says_what_is_beyond(power: float, log_zeta: float, want: float) -> None:
    """Millions of integers were lost one by one beside the sum, and 2e-14 is beyond them.

    By mpmath it is kζ'(k)/ζ(k) − log ζ(k) + log(2)·ζ(k − 1)/ζ(k), k the power.
    """
    value, error = integral(OfCounts(t(0.0), t(power), log_zeta), OfCounts(t(math.log(2.0)), t(0.0), 0.0))
    assert abs(value.item() - want) <= error.item() < 1e-13


def test_several_peaks() -> None:
    q = d.Cauchy(t(0.0), t(5.0))
    assert kb.kl(HiddenMixture(MIXTURE), q).item() == pytest.approx(kb.kl(MIXTURE, q).item(), rel=1e-9)


def test_a_batch_and_its_elements() -> None:
    inner, q = d.Gamma(t(0.3, 2.0, 9.0), t(1.0)), d.LogNormal(t(0.0), t(1.0))
    together = kb.kl(Hidden(inner), q)
    torch.testing.assert_close(together, kb.kl(inner, q), rtol=1e-9, atol=0)
    alone = kb.kl(Hidden(d.Gamma(t(2.0), t(1.0))), q)
    assert alone.item() == pytest.approx(together[1].item(), rel=1e-12)


def test_rows_of_a_refined_batch_belong_to_their_elements() -> None:
    """As many panels as there are elements may be left, and be those of one element."""
    inner, q = d.Gamma(t(0.3, 2.0), t(1.0)), d.Laplace(t(0.1, 3.0), t(0.02, 1.0))
    for count in (2, 3, 4):
        many = [side.expand((count, 2)) for side in (inner, q)]
        want = kb.kl(*many)
        torch.testing.assert_close(kb.kl(Hidden(many[0]), many[1]), want, rtol=1e-9, atol=0)


def test_derivatives_go_through_log_prob() -> None:
    def value(loc: torch.Tensor, kind: type) -> torch.Tensor:
        inner = d.Normal(loc, t(1.0), validate_args=False)
        return kb.kl(Hidden(inner) if kind is Hidden else inner, d.Laplace(t(0.0), t(1.0)))

    loc = t(0.4).requires_grad_()
    want = torch.autograd.grad(value(loc, d.Normal), loc)[0]
    assert torch.autograd.grad(value(loc, Hidden), loc)[0].item() == pytest.approx(want.item(), rel=1e-9)
    assert torch.func.grad(value)(t(0.4), Hidden).item() == pytest.approx(want.item(), rel=1e-9)
    many = torch.vmap(lambda x: value(x, Hidden))(t(0.4, 0.5))
    torch.testing.assert_close(many, torch.stack([value(x, Hidden) for x in t(0.4, 0.5)]), rtol=1e-9, atol=0)


class Arcsine(d.Distribution):
    """1/(π√((x − 2)(5 − x))): near an end rounding loses x − 2 and 5 − x, and with them 1e-8 of the mass."""

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012
    support = constraints.interval(2.0, 5.0)

    def log_prob(self, x: torch.Tensor) -> torch.Tensor:
        return -torch.log(math.pi * torch.sqrt((x - 2) * (5 - x)))


def test_what_rounding_loses_at_an_end_is_in_the_error() -> None:
    found = kb.kl_with_error(Arcsine(torch.Size(), validate_args=False), d.Uniform(t(2.0), t(5.0)))
    assert abs(found.value.item() - math.log(4 / math.pi)) < found.error.item() < 1e-5


def test_infinite_or_unsure() -> None:
    assert kb.kl(Hidden(d.Normal(t(0.0), t(1.0))), d.Exponential(t(1.0))).item() == math.inf
    assert kb.kl(d.Cauchy(t(0.0), t(1.0)), Hidden(d.Normal(t(0.0), t(1.0)))).item() == math.inf
    # E x² is infinite, but nobody can see that in a log_prob: the error says so.
    assert (
        kb.kl_with_error(Hidden(d.StudentT(t(2.0), t(0.0), t(1.0))), d.Normal(t(0.0), t(1.0))).error.item() == math.inf
    )


def test_a_log_prob_that_is_not_normalised_is_named() -> None:
    for pair in (
        (Hidden(d.Normal(t(0.0), t(1.0)), 1.5), d.Cauchy(t(0.0), t(1.0))),
        (d.Normal(t(0.0), t(1.0)), Hidden(d.Cauchy(t(0.0), t(1.0)), 1.5)),
    ):
        with pytest.raises(kb.InputValueError, match=r"(?s)Hidden.log_prob is not normalised.*1\.5"):
            kb.kl(*pair)


def test_nan_inside_the_support_is_named() -> None:
    class Lying(Hidden):
        def log_prob(self, x: torch.Tensor) -> torch.Tensor:
            return torch.where(x > 0.1, math.nan, super().log_prob(x))

    with pytest.raises(kb.InputValueError, match=r"Lying\.log_prob is NaN inside its support"):
        kb.kl(Lying(d.Normal(t(0.0), t(1.0))), d.Cauchy(t(0.0), t(1.0)))


def test_a_registered_density() -> None:
    with pytest.raises(kb.RegistrationError, match="torch's own"):
        kb.register_density(d.Normal, "loc", "scale")
    with pytest.raises(kb.InputTypeError, match="distribution class"):
        kb.register_density(3, "loc")  # type: ignore[arg-type]


class InATuple(Hidden):
    """A class that keeps its batch shape as a plain tuple, as some of Pyro's do."""

    @property
    def batch_shape(self) -> torch.Size:
        return (3,)  # type: ignore[return-value]


def test_a_batch_shape_that_is_a_plain_tuple() -> None:
    p, q = d.Normal(t(0.0, 1.0, 2.0), t(1.0)), d.Normal(t(1.0), t(2.0))
    torch.testing.assert_close(kb.kl(InATuple(p), InATuple(q)), kb.kl(p, q), rtol=1e-8, atol=0)
