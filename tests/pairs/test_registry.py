"""Registration and resolution: the most specific rule wins, whatever the order; doubt is an error that names both."""

import gc
import weakref

import pytest
import torch
from torch.distributions import Categorical, Distribution, Normal

from kullback import InputTypeError, KullbackWarning, NoRouteError, RegistrationError, ShapeError
from kullback.pairs import registry
from kullback.pairs.dispatch import kl_divergence, kl_method, kl_with_error
from kullback.pairs.registry import register_kl


class Base(Distribution):
    arg_constraints = {}  # noqa: RUF012

    def __init__(self):
        super().__init__(torch.Size(), validate_args=False)


class Left(Base):
    pass


class Right(Base):
    pass


class Both(Left, Right):
    pass


def constant(number):
    return lambda p, q: torch.tensor(float(number))


@pytest.fixture(autouse=True)
def _restored():
    before = dict(registry._rules)
    yield
    registry._rules.clear()
    registry._rules.update(before)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_most_specific_wins_whatever_the_order(order):
    entries = [(Base, Base, 1), (Left, Base, 2), (Left, Left, 3)]
    for index in order:
        p, q, number = entries[index]
        register_kl(p, q)(constant(number))
    assert kl_divergence(Left(), Left()) == 3
    assert kl_divergence(Left(), Right()) == 2
    assert kl_divergence(Right(), Left()) == 1


def test_ambiguity_is_an_error_that_names_both():
    register_kl(Left, Base)(constant(1))
    register_kl(Base, Left)(constant(2))
    with pytest.raises(RegistrationError, match=r"(?s)ambiguous.*KL\(Left \|\| Base\).*KL\(Base \|\| Left\)"):
        kl_divergence(Left(), Left())
    assert kl_divergence(Left(), Right()) == 1


def test_multiple_inheritance_from_two_rules_is_ambiguous():
    register_kl(Left, Base)(constant(1))
    register_kl(Right, Base)(constant(2))
    with pytest.raises(RegistrationError, match="ambiguous"):
        kl_divergence(Both(), Base())
    register_kl(Both, Base)(constant(3))
    assert kl_divergence(Both(), Base()) == 3


def test_duplicates_are_refused_without_override():
    register_kl(Left, Right)(constant(1))
    with pytest.raises(RegistrationError, match="override=True"):
        register_kl(Left, Right)(constant(2))
    register_kl(Left, Right, override=True)(constant(3))
    assert kl_divergence(Left(), Right()) == 3
    assert kl_method(Left(), Right()) == "user"
    assert kl_with_error(Left(), Right()).value == 3


def test_own_formula_of_the_library_can_be_overridden():
    register_kl(Normal, Normal, override=True)(constant(7))
    assert kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0)) == 7


@pytest.mark.parametrize("given", [int, "Normal", Normal(0.0, 1.0), None])
def test_only_distribution_classes_are_registered(given):
    with pytest.raises(InputTypeError, match="distribution class"):
        register_kl(given, Normal)


def test_missing_pair_names_the_pair_the_alternatives_and_what_to_write():
    with pytest.raises(NotImplementedError) as caught:
        kl_divergence(Normal(0.0, 1.0), Base())
    assert isinstance(caught.value, NoRouteError)
    for words in ("KL(Normal || Base)", "Normal", "register_kl", "estimate_kl(p, q)"):
        assert words in str(caught.value)
    assert kl_method(Normal(0.0, 1.0), Base()) is None


def test_a_density_without_support_is_told_to_name_one():
    class Triangle(Distribution):
        arg_constraints = {}  # noqa: RUF012

        def log_prob(self, value):
            return torch.log((1 - value.abs()).clamp_min(0))

    for p, q in ((Triangle(validate_args=False), Normal(0.0, 1.0)), (Normal(0.0, 1.0), Triangle(validate_args=False))):
        with pytest.raises(NoRouteError, match="Triangle has a log_prob but no support"):
            kl_divergence(p, q)


def test_things_that_are_no_distributions():
    with pytest.raises(InputTypeError, match="p is not one"):
        kl_divergence(torch.zeros(3), Normal(0.0, 1.0))
    with pytest.raises(InputTypeError, match="q is not one"):
        kl_divergence(Normal(0.0, 1.0), 3)


def test_event_shapes_are_never_broadcast():
    independent = torch.distributions.Independent
    p = independent(Normal(torch.zeros(3), torch.ones(3)), 1)
    q = independent(Normal(torch.zeros(1), torch.ones(1)), 1)
    with pytest.raises(ShapeError, match="event shapes"):
        kl_divergence(p, q)


def test_batch_shapes_that_do_not_broadcast():
    with pytest.raises(ShapeError, match="do not broadcast"):
        kl_divergence(Normal(torch.zeros(2), 1.0), Normal(torch.zeros(3), 1.0))


def test_only_functions_are_registered():
    with pytest.raises(InputTypeError, match="decorates a function"):
        register_kl(Left, Right)("a formula")
    assert kl_method(Left(), Right()) is None


def test_classes_made_in_a_function_can_be_collected():
    def use_once():
        class Mine(Normal):
            pass

        kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0))
        kl_divergence(Mine(0.0, 1.0), Normal(1.0, 1.0))
        return weakref.ref(Mine)

    mine = use_once()
    gc.collect()
    assert mine() is None


class Doubled(Normal):
    def log_prob(self, value):
        return 2 * super().log_prob(value)


class Summed(Normal):
    def log_prob(self, value):
        return super().log_prob(value).sum(-1)


class Rewritten(Categorical):
    def log_prob(self, value):
        return self.logits.gather(-1, value.unsqueeze(-1)).squeeze(-1)


def test_a_subclass_with_another_density_is_warned_of_once():
    before = torch.get_rng_state()
    with pytest.warns(KullbackWarning, match=r"Doubled.log_prob is not the density of Normal"):
        assert kl_divergence(Doubled(0.0, 1.0), Normal(1.0, 1.0)) == 0.5
    assert kl_divergence(Doubled(0.0, 1.0), Normal(1.0, 1.0)) == 0.5
    assert torch.equal(torch.get_rng_state(), before)


class Drawn(Normal):
    draws = 0

    def log_prob(self, value):
        return 2 * super().log_prob(value)

    def sample(self, sample_shape=()):
        Drawn.draws += 1
        return super().sample(sample_shape)


def test_the_generator_of_another_device_is_not_asked():
    here = torch.zeros((), device="meta")
    p, q = (distribution(here, here + 1, validate_args=False) for distribution in (Drawn, Normal))
    assert kl_divergence(p, q).device.type == "meta"
    assert Drawn.draws == 0


def test_a_subclass_that_writes_its_density_in_another_form_is_not_warned_of():
    assert kl_divergence(Summed(torch.zeros(3), 1.0), Normal(torch.ones(3), 1.0)).tolist() == [0.5] * 3
    assert kl_divergence(Rewritten(torch.ones(2, 3)), Categorical(torch.ones(3))).tolist() == [0.0, 0.0]
