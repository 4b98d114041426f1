"""The auditor names what known estimators minimise; controllers follow the KL."""

import functools
import math

import pytest
import torch

from kullback.losses import (
    AdaptiveKLController,
    FixedKLController,
    TargetKLStopper,
    audit_policy_kl,
    policy_kl,
)


def k1(log_prob, ref):
    return log_prob - ref


def k2(log_prob, ref):
    return (log_prob - ref) ** 2 / 2


def k3(log_prob, ref):
    return torch.exp(ref - log_prob) - (ref - log_prob) - 1


def corrected_k3(log_prob, ref, behaviour):
    return torch.exp(log_prob - behaviour) * k3(log_prob, ref)


@pytest.mark.parametrize(
    ("function", "use", "on", "off"),
    [
        (k1, "loss", "nothing", "something else"),
        (k2, "loss", "reverse KL", "something else"),
        (k3, "loss", "forward KL", "something else"),
        (k1, "reward", "reverse KL", "reverse KL"),
        (k3, "reward", "something else", "something else"),
        (corrected_k3, "loss", "reverse KL", "reverse KL"),
    ],
)
def test_known_estimators(function, use, on, off):
    audit = audit_policy_kl(function, use=use)
    assert audit.objective == audit.on_policy.objective == on
    assert audit.off_policy.objective == off
    if function is k3 and use == "reward":
        assert (audit.on_policy.reverse, audit.on_policy.forward) == pytest.approx((1.0, -1.0))
        assert "reverse KL -1 × forward KL" in str(audit)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_ours(estimator):
    for level in ("token", "sequence"):
        audit = audit_policy_kl(functools.partial(policy_kl, estimator=estimator, level=level))
        assert audit.on_policy.objective == audit.off_policy.objective == "reverse KL"
        assert audit.on_policy.scale == pytest.approx(1.0)
        assert audit.finite
        assert (audit.sequence.objective == "reverse KL") == (level == "sequence")
        if estimator != "k2":
            assert audit.value == pytest.approx(audit.true_value)


def test_scale_sign_overflow_and_a_reduced_loss():
    assert audit_policy_kl(lambda a, b: -0.04 * k2(a, b).mean()).on_policy.scale == pytest.approx(-0.04)
    assert "maximised" in str(audit_policy_kl(lambda a, b: -k2(a, b)))
    assert not audit_policy_kl(k3).finite
    assert audit_policy_kl(lambda a, b: k2(a, b).detach()).objective == "nothing"
    assert "NaN" in str(audit_policy_kl(lambda a, b: k3(a, b) * math.nan))
    with pytest.raises(TypeError, match="returns a tensor"):
        audit_policy_kl(lambda a, b: 1.0)


def test_controllers():
    controller = AdaptiveKLController(0.1, target=6.0, horizon=1000)
    assert controller.update(6.0, 100) == pytest.approx(0.1)
    assert controller.update(7.2, 100) == pytest.approx(0.1 * 1.02)
    assert controller.update(torch.tensor(-3.0), 100) == pytest.approx(0.1 * 1.02 * 0.98)
    assert controller.update(0.0, 10**9) == 0.0
    other = AdaptiveKLController(5.0, target=1.0, horizon=1)
    other.load_state_dict(controller.state_dict())
    assert other.state_dict() == controller.state_dict()
    fixed = FixedKLController(0.3)
    assert fixed.update(100.0) == 0.3
    stopper = TargetKLStopper(0.01)
    assert stopper.should_stop(0.0151)
    restored = TargetKLStopper(1.0)
    restored.load_state_dict(stopper.state_dict())
    assert restored.stopped == 1
    with pytest.raises(ValueError, match="NaN"):
        controller.update(math.nan)
    with pytest.raises(ValueError, match="target is a number > 0"):
        AdaptiveKLController(0.1, target=0.0, horizon=10)
    with pytest.raises(ValueError, match="not a state of FixedKLController"):
        fixed.load_state_dict({"target": 1.0})
