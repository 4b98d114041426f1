"""policy_kl: expected gradients by enumeration on- and off-policy, Schulman's table, extremes, refusals."""

import math

import pytest
import torch

from kullback.losses import exact_policy_kl, policy_kl, reduce_tokens, topk_policy_kl
from tests.losses.enumeration import sequence_kl, two_steps

THETA = torch.tensor([0.5, -0.3, 0.1], dtype=torch.float64)
REFERENCE = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log()
TRUE_GRADIENT = torch.tensor([0.29181488, -0.2327031, -0.05911178], dtype=torch.float64)


def expected_gradient(behaviour_logits=None, **options):
    theta = THETA.clone().requires_grad_()
    log_prob = theta.log_softmax(-1)
    behaviour = None if behaviour_logits is None else behaviour_logits.log_softmax(-1)
    values = policy_kl(log_prob, REFERENCE, behaviour_log_prob=behaviour, **options)
    chance = (log_prob if behaviour is None else behaviour).detach().exp()
    if options.get("use") == "reward":
        ratio = (log_prob - (log_prob.detach() if behaviour is None else behaviour)).exp()
        values = ratio * values.detach()
    (chance * values).sum().backward()
    return (chance * values).sum().detach(), theta.grad


@pytest.mark.parametrize("behaviour", [None, torch.tensor([-1.0, 0.7, 0.2], dtype=torch.float64)])
@pytest.mark.parametrize(("estimator", "use"), [("k1", "loss"), ("k2", "loss"), ("k3", "loss"), ("k1", "reward")])
def test_expected_gradient_is_that_of_the_reverse_kl(estimator, use, behaviour):
    value, gradient = expected_gradient(behaviour, estimator=estimator, use=use)
    torch.testing.assert_close(gradient, TRUE_GRADIENT, rtol=0, atol=1e-8)
    if estimator != "k2":
        assert value.item() == pytest.approx(0.2396422817, abs=1e-10)


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_expected_second_derivative_is_that_of_the_reverse_kl(estimator):
    behaviour = torch.tensor([-1.0, 0.7, 0.2], dtype=torch.float64).log_softmax(-1)

    def objective(theta):
        log_prob = theta.log_softmax(-1)
        return (
            behaviour.exp() * policy_kl(log_prob, REFERENCE, estimator=estimator, behaviour_log_prob=behaviour)
        ).sum()

    def truth(theta):
        log_prob = theta.log_softmax(-1)
        return (log_prob.exp() * (log_prob - REFERENCE)).sum()

    want = torch.autograd.functional.hessian(truth, THETA)
    torch.testing.assert_close(torch.autograd.functional.hessian(objective, THETA), want)
    torch.testing.assert_close(torch.func.hessian(objective)(THETA), want)


def test_metric_has_no_gradient_and_is_weighted_off_policy():
    log_prob = THETA.log_softmax(-1).requires_grad_()
    behaviour = torch.tensor([-1.0, 0.7, 0.2], dtype=torch.float64).log_softmax(-1)
    for estimator in ("k1", "k3"):
        values = policy_kl(log_prob, REFERENCE, estimator=estimator, use="metric", behaviour_log_prob=behaviour)
        assert not values.requires_grad
        assert (behaviour.exp() * values).sum().item() == pytest.approx(0.2396422817, abs=1e-10)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_wrong_estimators_in_the_reward_are_refused(estimator):
    with pytest.raises(ValueError, match=r'estimator="k1", use="reward"'):
        policy_kl(REFERENCE, REFERENCE, estimator=estimator, use="reward")


@pytest.mark.parametrize("off_policy", [False, True])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3", "exact"])
def test_two_step_sequences(estimator, off_policy):
    generator = torch.Generator().manual_seed(3)
    tables = [torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in [(3,), (3, 3)] * 3]
    leaves = [table.clone().requires_grad_() for table in tables[:2]]
    log_prob, reference = two_steps(*leaves), two_steps(*tables[2:4])
    behaviour = two_steps(*tables[4:]) if off_policy else None
    options = {"behaviour_log_prob": behaviour, "level": "sequence"}
    if estimator == "exact":
        logits = torch.stack([leaves[0].expand(9, 3), leaves[1].repeat_interleave(3, 0)], 1)
        other = torch.stack([tables[2].expand(9, 3), tables[3].repeat_interleave(3, 0)], 1)
        values = exact_policy_kl(logits, other, log_prob=log_prob, **options)
        topk = topk_policy_kl(logits.log_softmax(-1), other.log_softmax(-1), log_prob=log_prob, **options)
        torch.testing.assert_close(topk, values)
    else:
        values = policy_kl(log_prob, reference, estimator=estimator, **options)
    chance = (log_prob if behaviour is None else behaviour).sum(-1).exp().detach()
    found = torch.autograd.grad((chance * values.sum(-1)).sum(), leaves, retain_graph=True)
    want = sequence_kl(log_prob, reference)
    torch.testing.assert_close(found, torch.autograd.grad(want, leaves))
    if estimator != "k2":
        torch.testing.assert_close((chance * values.sum(-1)).sum(), want)


@pytest.mark.parametrize(
    ("shift", "table"),
    [
        (0.1, {"k1": (0, 20.0), "k2": (0.0025, 1.417745), "k3": (0, 1.416575)}),
        (1.0, {"k1": (0, 2.0), "k2": (0.25, 1.732051), "k3": (0, 1.695030)}),
    ],
)
def test_schulmans_table(shift, table):
    """Bias and standard deviation over the true KL of N(0, 1) against N(shift, 1), by quadrature."""
    x = torch.linspace(-12, 12, 48001, dtype=torch.float64)
    chance = torch.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    log_q, log_p = -x * x / 2, -((x - shift) ** 2) / 2
    for estimator, (bias, deviation) in table.items():
        values = policy_kl(log_q, log_p, estimator=estimator, use="metric")
        mean = (chance * values).sum()
        spread = ((chance * values**2).sum() - mean**2).sqrt()
        truth = shift**2 / 2
        assert (mean / truth - 1).item() == pytest.approx(bias, abs=1e-6)
        assert (spread / truth).item() == pytest.approx(deviation, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_extreme_ratios_stay_finite_and_are_reported(estimator, dtype, level):
    log_prob = torch.tensor([[-1e4, -100.0, -1.0, -1.0, 0.0]], dtype=dtype, requires_grad=True)
    reference = torch.tensor([[0.0, -1.0, -1.0, -100.0, -1e4]], dtype=dtype)
    behaviour = torch.tensor([[0.0, -1.0, -2.0, -1e4, -1e4]], dtype=dtype)
    for other in (None, behaviour):
        values, report = policy_kl(
            log_prob, reference, estimator=estimator, behaviour_log_prob=other, level=level, report=True
        )
        assert values.dtype == torch.float32
        assert values.isfinite().all()
        (gradient,) = torch.autograd.grad(values.sum(), log_prob)
        assert gradient.float().isfinite().all() or dtype == torch.float16  # whose largest number is 65504
        if other is None:
            assert report.clip_rate.item() == pytest.approx(0.4 if estimator == "k3" else 0.0)
    if estimator == "k3" and level == "token" and dtype == torch.float32:
        values = policy_kl(log_prob, reference, estimator="k3")
        (gradient,) = torch.autograd.grad(values.sum(), log_prob)
        # Beyond the limit the gradient keeps its direction ℓ.
        assert gradient[0].tolist() == pytest.approx([-1e4, -99.0, 0.0, 99.0, 1e4])


def test_k3_is_never_negative_and_exact_near_zero():
    log_prob = torch.tensor([-1.0, -1.0], dtype=torch.float32)
    reference = log_prob + torch.tensor([1e-3, 0.0])
    values = policy_kl(log_prob, reference, use="metric")
    difference = (reference - log_prob).double()
    torch.testing.assert_close(values.double(), torch.expm1(difference) - difference, rtol=1e-4, atol=0)
    half = policy_kl(log_prob.bfloat16(), reference.bfloat16(), use="metric")
    assert (half >= 0).all()


def test_impossible_tokens():
    log_prob = torch.tensor([-1.0, -math.inf, -1.0], requires_grad=True)
    reference = torch.tensor([-math.inf, -1.0, -2.0])
    values = policy_kl(log_prob, reference)
    assert values[:2].tolist() == [math.inf, 0.0]
    (gradient,) = torch.autograd.grad(values.sum(), log_prob)
    assert gradient.tolist() == [0.0, 0.0, 1.0]


def test_masks_weights_and_averages():
    log_prob = torch.randn(3, 4, dtype=torch.float64)
    reference = torch.randn(3, 4, dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, False, False, False], [False] * 4])
    bad = torch.where(mask, log_prob, math.nan).requires_grad_()
    values = policy_kl(log_prob, reference)
    kept = torch.where(mask, values, 0.0)
    averages = {
        "sum": kept.sum(),
        "mean": kept.sum() / 5,
        "sequence_mean": (kept[0].sum() / 4 + kept[1].sum()) / 2,
        "sequence_sum": kept.sum() / 2,
        "constant": kept.sum() / (3 * 16),
    }
    for reduction, want in averages.items():
        denominator = 16 if reduction == "constant" else None
        got = policy_kl(bad, reference, mask=mask, reduction=reduction, denominator=denominator)
        torch.testing.assert_close(got, want)
        (gradient,) = torch.autograd.grad(got, bad)
        assert gradient.isfinite().all()
        assert (gradient[~mask] == 0).all()
    level = policy_kl(bad, reference, mask=mask, level="sequence")
    assert level.isfinite().all()
    weighted = policy_kl(log_prob, reference, weight=torch.tensor([[1.0], [2.0], [0.0]]), reduction="mean")
    torch.testing.assert_close(weighted, (values[0].sum() + 2 * values[1].sum()) / 12)
    assert reduce_tokens(kept, mask=mask & False, reduction="sequence_mean").item() == 0.0


def test_standard_error():
    torch.manual_seed(0)
    log_prob, reference = torch.randn(2, 400, 5, dtype=torch.float64)
    _, report = policy_kl(log_prob, reference, estimator="k1", use="metric", report=True)
    means = (log_prob - reference).mean(-1)
    assert report.mean.item() == pytest.approx(means.mean().item())
    assert report.stderr.item() == pytest.approx(means.std().item() / 20, rel=1e-6)
    _, flat = policy_kl(log_prob[:, 0], reference[:, 0], estimator="k1", use="metric", report=True)
    assert flat.stderr.item() == pytest.approx((log_prob - reference)[:, 0].std().item() / 20, rel=1e-6)


def test_exact_kl_of_logits_and_of_the_largest():
    logits, other = torch.randn(2, 2, 3, 7, dtype=torch.float64)
    logits.requires_grad_()
    values = exact_policy_kl(logits, other)
    p, q = logits.log_softmax(-1), other.log_softmax(-1)
    torch.testing.assert_close(values, (p.exp() * (p - q)).sum(-1))
    top = topk_policy_kl(p[..., :3], q[..., :3])
    assert ((top >= 0) & (top <= values)).all()
    leaf = logits[:1, :1].detach().requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: exact_policy_kl(x, other[:1, :1], reduction="mean"), leaf)
    assert torch.autograd.gradgradcheck(
        lambda x: topk_policy_kl(x.log_softmax(-1)[..., :3], q[:1, :1, :3], reduction="mean"), leaf
    )
    compiled = torch.compile(lambda a: exact_policy_kl(a, other, reduction="mean"), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(logits), values.mean())
    with pytest.raises(TypeError, match="needs the sampled tokens"):
        exact_policy_kl(logits, other, level="sequence")
    whole = topk_policy_kl(p.float(), q.float())
    torch.testing.assert_close(whole, values.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.sample(3)
def test_transforms(estimator, level):
    log_prob, reference, behaviour = -torch.rand(3, 4, 5, dtype=torch.float64) * 3

    def values(a):
        return policy_kl(a, reference, estimator=estimator, behaviour_log_prob=behaviour, level=level)

    def row(a, r, b):
        return policy_kl(a, r, estimator=estimator, behaviour_log_prob=b, level=level)

    torch.testing.assert_close(torch.vmap(row)(log_prob, reference, behaviour), values(log_prob))
    leaf = log_prob.clone().requires_grad_()
    compiled = torch.compile(values, fullgraph=True, backend="aot_eager")
    want = torch.autograd.grad(values(leaf).sum(), leaf)
    torch.testing.assert_close(torch.autograd.grad(compiled(leaf).sum(), leaf), want)
    torch.testing.assert_close(torch.func.grad(lambda a: values(a).sum())(log_prob), want[0])


def test_errors():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="one shape"):
        policy_kl(x, torch.zeros(3))
    with pytest.raises(ValueError, match="would not reach the policy"):
        policy_kl(x, x.clone().requires_grad_())
    with pytest.raises(ValueError, match="denominator"):
        policy_kl(x, x, reduction="constant")
    with pytest.raises(ValueError, match=r"NaN in ref_log_prob(?s:.*)\(0, 0\)"):
        policy_kl(x, x * math.nan)
    with pytest.raises(TypeError, match="floating-point"):
        policy_kl(x.long(), x)
