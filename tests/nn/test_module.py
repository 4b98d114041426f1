"""`KLDivLoss` is torch's module: signature, attributes, repr, deprecated arguments, pickling."""

import copy
import inspect
import itertools
import pickle
import warnings

import pytest
import torch

import kullback
from kullback import KullbackWarning
from kullback.nn import KLDivLoss, functional
from tests.nn.torch_cases import REDUCTIONS, make, torchs_kl_div

LOG_Q, P = make(((4, 7), (4, 7), True, "sum", False))


def all_told(function, *args, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return function(*args, **options), caught


def parameters(function):
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values()]


def test_signatures_are_torchs():
    assert parameters(functional.kl_div) == parameters(torch.nn.functional.kl_div)
    assert parameters(KLDivLoss) == parameters(torch.nn.KLDivLoss)
    assert parameters(KLDivLoss.forward) == parameters(torch.nn.KLDivLoss.forward)


@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_attributes_repr_and_calls(reduction, log_target):
    ours, torchs = (kind(reduction=reduction, log_target=log_target) for kind in (KLDivLoss, torch.nn.KLDivLoss))
    assert isinstance(ours, torch.nn.KLDivLoss)
    assert (ours.reduction, ours.log_target) == (torchs.reduction, torchs.log_target)
    assert repr(ours) == repr(torchs) == "KLDivLoss()"
    assert ours.state_dict() == {}
    target = P.log() if log_target else P
    for criterion in (ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        found, _ = all_told(criterion, LOG_Q, target)
        expected, _ = all_told(torchs, LOG_Q, target)
        torch.testing.assert_close(found, expected)
    assert kullback.nn.KLDivLoss is KLDivLoss


FLAGS = [(a, b) for a, b in itertools.product((None, True, False, 0, 1), repeat=2) if (a, b) != (None, None)]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("size_average", "reduce"), FLAGS)
def test_deprecated_flags_mean_what_they_mean_in_torch(size_average, reduce, reduction):
    flags = {"size_average": size_average, "reduce": reduce, "reduction": reduction}
    found, caught = all_told(functional.kl_div, LOG_Q, P, **flags)
    torch.testing.assert_close(found, torchs_kl_div(LOG_Q, P, **flags))
    deprecations = [w for w in caught if "size_average and reduce args will be deprecated" in str(w.message)]
    assert [(w.category, w.filename) for w in deprecations] == [(UserWarning, __file__)]
    criterion, caught = all_told(KLDivLoss, **flags)
    expected, _ = all_told(torch.nn.KLDivLoss, **flags)
    assert criterion.reduction == expected.reduction
    assert [w.filename for w in caught] == [__file__]
    assert f"please use reduction='{criterion.reduction}' instead" in str(caught[0].message)


@pytest.mark.parametrize("place", ["size_average", "reduce"])
def test_a_string_in_a_flag_is_told(place):
    criterion, caught = all_told(KLDivLoss, **{place: "batchmean"})
    assert criterion.reduction == "mean"
    texts = [str(w.message) for w in caught if w.category is KullbackWarning]
    assert len(texts) == 1
    assert f"{place}='batchmean'" in texts[0]
    assert "KLDivLoss(reduction='batchmean')" in texts[0]
    found, caught = all_told(functional.kl_div, LOG_Q, P, **{place: "sum"})
    torch.testing.assert_close(found, torchs_kl_div(LOG_Q, P))
    assert sum("is not a reduction" in str(w.message) for w in caught) == 1


def test_the_old_name_of_mean():
    found, caught = all_told(functional.kl_div, LOG_Q, P, reduction="elementwise_mean")
    torch.testing.assert_close(found, torchs_kl_div(LOG_Q, P))
    assert "'elementwise_mean' is deprecated" in str(caught[0].message)


def test_no_advice_of_torchs_own_comes_through():
    _, caught = all_told(KLDivLoss(), LOG_Q, P)
    assert [w.category for w in caught] == [KullbackWarning]


def test_subclasses_are_asked_as_torch_asks_them():
    class Tagged(torch.Tensor):
        pass

    class Watcher:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function, kwargs["reduction"]

    loss = functional.kl_div(LOG_Q.as_subclass(Tagged), P, reduction="sum")
    assert type(loss) is Tagged
    torch.testing.assert_close(loss.as_subclass(torch.Tensor), torchs_kl_div(LOG_Q, P, reduction="sum"))
    assert functional.kl_div(Watcher(), P, reduction="sum") == (functional.kl_div, "sum")


def test_what_is_not_here_says_where_it_is():
    with pytest.raises(AttributeError, match=r"write torch\.nn\.functional\.log_softmax"):
        functional.log_softmax  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'kl_dvi'"):
        functional.kl_dvi  # noqa: B018
