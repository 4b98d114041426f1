"""Seed 000: the codemia article "KL Divergence for two probability distributions in PyTorch".

Its code blocks are lost; where a statement has no number of its own, the inputs below are ours.
"""

import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from torch.distributions import Categorical, Normal

import kullback as kb
from tests.seeds.rooms import states

STATEMENTS = {
    "S000-01": "KL measures how one distribution diverges from another",
    "S000-02": "Two ways: tensors (kl_div), or distribution objects (kl_divergence)",
    "S000-03": "For discrete distributions it is the sum over x of P(x) log(P(x) / Q(x))",
    "S000-04": "The order matters: KL(P || Q) is not KL(Q || P), although the tensors look symmetric",
    "S000-05": "The functional API expects log-probabilities first and, by default, probabilities as the target",
    "S000-06": "kl_div(log_q, p) is KL(P || Q) although log_q comes first",
    "S000-07": "Batch averaging is a reduction",
    "S000-08": "sum, mean and batchmean have very different scales: choose deliberately",
    "S000-09": "A manual calculation confirms a library call and its direction",
    "S000-10": "Clamp or smooth zero probabilities if needed, because log(0) is undefined",
    "S000-11": "Distribution classes: use kl_divergence",
    "S000-12": "Distribution objects are the right choice for VAEs, whose distributions are parameterised",
    "S000-13": "KL is numerically fragile when probabilities approach zero",
    "S000-14": "Safeguard: normalise tensors so that they sum to one",
    "S000-15": "Safeguard: clamp values away from zero before logs",
    "S000-16": "Safeguard: use log-softmax outputs",
    "S000-17": "The pattern for model outputs (log-softmax and softmax) is more stable than logs of small numbers",
    "S000-18": "Scores or counts must be normalised first",
    "S000-19": "Elements must be non-negative and sum to one, or the result loses its interpretation",
    "S000-20": "Pitfall: reversing P and Q",
    "S000-21": "Pitfall: raw probabilities as the first argument of kl_div",
    "S000-22": "Pitfall: comparing losses of different reductions",
    "S000-23": "Pitfall: logs of zero or nearly zero probabilities without stabilisation",
    "S000-24": "Pitfall: tensor code where distribution objects would be clearer and safer",
    "S000-25": "The target of kl_div is usually probabilities (and log-probabilities if asked)",
}

P = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
Q = torch.tensor([0.25, 0.25, 0.5], dtype=torch.float64)
# log 2 / 2 + 0.3 log 1.2 + 0.2 log 0.4, and 0.25 log 0.5 + 0.25 log(5/6) + 0.5 log 2.5
KL_PQ = 0.5 * math.log(2) + 0.3 * math.log(1.2) + 0.2 * math.log(0.4)
KL_QP = 0.25 * math.log(0.5) + 0.25 * math.log(0.25 / 0.3) + 0.5 * math.log(2.5)


def value(expected, rel=1e-12):
    return pytest.approx(expected, rel=rel, abs=0.0)


def manual(a, b):
    """KL of each row of logits, term by term."""
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    return (log_p.exp() * (log_p - log_q)).sum(-1)


def rows(seed, *shape):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@states("S000-01", needs=("kl", "Probs"))
def test_it_is_zero_for_equal_distributions_and_grows_with_the_difference():
    mixed = [kb.kl(kb.Probs(P), kb.Probs(P + t * (Q - P))).item() for t in (0.0, 1e-6, 0.1, 0.5, 1.0)]
    assert mixed[0] == 0.0
    assert mixed == sorted(mixed)
    assert len(set(mixed)) == len(mixed)


@states("S000-02", "S000-24", needs=("kl", "Probs", "nn", "kl_divergence"))
def test_tensors_and_distribution_objects_agree():
    answers = [
        kb.kl(kb.Probs(P), kb.Probs(Q)),
        kb.kl(Categorical(P), Categorical(Q)),
        kb.kl_divergence(Categorical(P), Categorical(Q)),
        kb.nn.functional.kl_div(Q.log(), P, reduction="sum"),
    ]
    assert [answer.item() for answer in answers] == [value(KL_PQ)] * 4


@states("S000-24", needs=("kl_divergence",))
def test_distribution_objects_refuse_what_tensors_would_broadcast():
    one_class, three_classes = Categorical(torch.ones(1)), Categorical(P)
    with pytest.raises(ValueError, match="class"):
        kb.kl_divergence(one_class, three_classes)


@states("S000-03", needs=("kl", "Probs"))
def test_the_discrete_formula():
    assert kb.kl(kb.Probs(P), kb.Probs(Q)).item() == value(KL_PQ)


@states("S000-04", "S000-20", needs=("kl", "Probs"))
def test_the_order_matters_and_is_the_order_of_the_arguments():
    p, q = kb.Probs(P), kb.Probs(Q)
    assert kb.kl(p, q).item() == value(KL_PQ)
    assert kb.kl(q, p).item() == value(KL_QP)
    assert kb.kl(q=q, p=p).item() == value(KL_PQ)
    assert abs(KL_PQ - KL_QP) > 0.01


@states("S000-05", "S000-06", needs=("nn",))
def test_the_drop_in_takes_log_q_then_p():
    kl_div = kb.nn.functional.kl_div
    assert kl_div(Q.log(), P, reduction="sum").item() == value(KL_PQ)
    assert kl_div(input=P.log(), target=Q, reduction="sum").item() == value(KL_QP)
    assert torch.equal(kl_div(Q.log(), P, reduction="none") > 0, P > Q)


@states("S000-06", needs=("kl", "Probs", "LogProbs", "nn"))
def test_the_drop_in_is_kl_with_its_arguments_exchanged():
    assert kb.kl(kb.Probs(P), kb.LogProbs(Q.log())).item() == value(KL_PQ)
    assert kb.nn.functional.kl_div(Q.log(), P, reduction="sum").item() == value(KL_PQ)


@states("S000-07", needs=("kl", "Logits", "nn"))
def test_batch_averaging():
    a, b = rows(0, 6, 5), rows(1, 6, 5)
    per_row = kb.kl(kb.Logits(a), kb.Logits(b))
    torch.testing.assert_close(per_row, manual(a, b), rtol=1e-12, atol=0)
    mean = kb.kl(kb.Logits(a), kb.Logits(b), reduction="mean")
    assert mean.item() == value(manual(a, b).mean().item())
    drop_in = kb.nn.functional.kl_div(b.log_softmax(-1), a.softmax(-1), reduction="batchmean")
    assert drop_in.item() == value(mean.item())


@states("S000-08", "S000-22", needs=("nn",))
def test_the_scales_of_the_reductions():
    log_q, p = rows(0, 6, 5).log_softmax(-1), rows(1, 6, 5).softmax(-1)
    got = {name: kb.nn.functional.kl_div(log_q, p, reduction=name) for name in ("none", "sum", "batchmean")}
    with pytest.warns(kb.KullbackWarning, match="mean"):  # divides by the classes too: told, as torch does
        got["mean"] = kb.nn.functional.kl_div(log_q, p, reduction="mean")
    total = (p * (p.log() - log_q)).sum().item()
    assert got["none"].shape == (6, 5)
    assert got["none"].sum().item() == value(total)
    assert got["sum"].item() == value(total)
    assert got["batchmean"].item() == value(total / 6)
    assert got["mean"].item() == value(total / 30)


@states("S000-08", "S000-22", needs=("kl", "Logits"))
def test_the_mean_of_kl_is_over_rows_and_never_over_classes():
    a, b = rows(0, 6, 5), rows(1, 6, 5)
    total = kb.kl(kb.Logits(a), kb.Logits(b), reduction="sum").item()
    assert total == value(manual(a, b).sum().item())
    assert kb.kl(kb.Logits(a), kb.Logits(b), reduction="mean").item() == value(total / 6)
    with pytest.raises(ValueError, match="reduction"):
        kb.kl(kb.Logits(a), kb.Logits(b), reduction="batchmeen")


@states("S000-09", needs=("kl", "Probs"))
def test_the_manual_calculation_agrees():
    p, q = rows(2, 7, 4).softmax(-1), rows(3, 7, 4).softmax(-1)
    by_hand = (p * (p / q).log()).sum(-1)
    reversed_ = (q * (q / p).log()).sum(-1)
    torch.testing.assert_close(kb.kl(kb.Probs(p), kb.Probs(q)), by_hand, rtol=1e-12, atol=0)
    assert not torch.allclose(kb.kl(kb.Probs(p), kb.Probs(q)), reversed_, rtol=1e-2)


@states("S000-10", "S000-23", needs=("kl", "Probs", "nn"))
def test_zeros_need_no_care_where_the_mathematics_is_clear():
    zero_in_p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    # 0 log 0 = 0: log 2 / 2 + log 2 / 2; and p > 0 = q is infinite, never NaN.
    assert kb.kl(kb.Probs(zero_in_p), kb.Probs(Q)).item() == value(math.log(2))
    assert kb.kl(kb.Probs(zero_in_p), kb.Probs(zero_in_p)).item() == 0.0
    assert kb.kl(kb.Probs(Q), kb.Probs(zero_in_p)).item() == math.inf
    assert kb.nn.functional.kl_div(zero_in_p.log(), zero_in_p, reduction="sum").item() == 0.0


@states("S000-10", needs=("kl", "Counts"))
def test_smoothing_makes_unseen_classes_finite():
    p, q = torch.tensor([6.0, 3.0, 1.0]), torch.tensor([4.0, 6.0, 0.0])
    assert kb.kl(kb.Counts(p), kb.Counts(q)).item() == math.inf
    smooth = kb.kl(kb.Counts(p, smoothing=1.0), kb.Counts(q, smoothing=1.0)).item()
    # (7, 4, 2) / 13 against (5, 7, 1) / 13
    truth = (7 * math.log(7 / 5) + 4 * math.log(4 / 7) + 2 * math.log(2)) / 13
    assert smooth == value(truth, rel=1e-6)


@states("S000-11", needs=("kl", "kl_divergence"))
def test_distribution_objects():
    p, q = Normal(torch.tensor(0.5, dtype=torch.float64), 1.0), Normal(torch.tensor(-1.0, dtype=torch.float64), 2.0)
    truth = math.log(2) + (1 + 1.5**2) / 8 - 0.5
    assert kb.kl_divergence(p, q).item() == value(truth)
    assert kb.kl(p, q).item() == value(truth)


@states("S000-12", needs=("kl_divergence",))
def test_parameters_of_distribution_objects_get_gradients():
    mean = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    std = torch.tensor([0.5, 3.0], dtype=torch.float64, requires_grad=True)
    prior = Normal(torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64))
    kb.kl_divergence(Normal(mean, std), prior).sum().backward()
    torch.testing.assert_close(mean.grad, mean.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(std.grad, (std - 1 / std).detach(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("tiny", [1e-3, 1e-10, 1e-20, 1e-30, 1e-37])
@states("S000-13", "S000-23", needs=("kl", "Probs"))
def test_small_probabilities_keep_their_digits(tiny):
    p = torch.tensor([tiny, 1.0 - tiny], dtype=torch.float32)
    q = torch.tensor([2 * tiny, 1.0 - 2 * tiny], dtype=torch.float32)
    with mpmath.workdps(50):
        # the rows mean p / sum(p), evaluated at the numbers that are stored
        (p0, p1), (q0, q1) = ([mpmath.mpf(x) for x in row.tolist()] for row in (p, q))
        p0, p1, q0, q1 = p0 / (p0 + p1), p1 / (p0 + p1), q0 / (q0 + q1), q1 / (q0 + q1)
        truth = float(p0 * mpmath.log(p0 / q0) + p1 * mpmath.log(p1 / q1))
    assert kb.kl(kb.Probs(p), kb.Probs(q)).item() == value(truth, rel=1e-6)


@states("S000-14", "S000-18", needs=("kl", "Counts", "Probs"))
def test_scores_and_counts_are_normalised():
    scores, counts = torch.tensor([5.0, 3.0, 2.0]).double(), torch.tensor([10.0, 10.0, 20.0]).double()
    assert kb.kl(kb.Counts(scores), kb.Counts(counts)).item() == value(KL_PQ)
    assert kb.kl(kb.Counts(scores), kb.Probs(Q)).item() == value(KL_PQ)
    columns = kb.kl(kb.Counts(scores[:, None], dim=0), kb.Counts(counts[:, None], dim=0))
    assert columns.tolist() == [value(KL_PQ)]


@states("S000-15", needs=("kl", "Counts"))
def test_clamping_gives_a_finite_answer_that_says_how_far_it_clamped():
    p, q = torch.tensor([0.5, 0.5, 0.0]).double(), torch.tensor([1.0, 0.0, 0.0]).double()
    clamped = [kb.kl(kb.Counts(p), kb.Counts(q.clamp(min=eps))).item() for eps in (1e-4, 1e-8, 1e-12)]
    # 1/2 log(1/2) + 1/2 log(1 / (2 eps)) + log(1 + 2 eps)
    truth = [0.5 * math.log(0.5) - 0.5 * math.log(2 * eps) + math.log1p(2 * eps) for eps in (1e-4, 1e-8, 1e-12)]
    assert clamped == [value(t) for t in truth]


@states("S000-16", needs=("kl", "LogProbs", "Logits"))
def test_log_softmax_outputs_and_logits_agree():
    a, b = rows(4, 3, 8) * 10, rows(5, 3, 8) * 10
    from_logits = kb.kl(kb.Logits(a), kb.Logits(b))
    from_log_probs = kb.kl(kb.LogProbs(a.log_softmax(-1)), kb.LogProbs(b.log_softmax(-1)))
    torch.testing.assert_close(from_logits, manual(a, b), rtol=1e-12, atol=0)
    torch.testing.assert_close(from_log_probs, from_logits, rtol=1e-12, atol=0)


@states("S000-17", needs=("kl", "Logits", "nn"))
def test_the_pattern_for_model_outputs():
    student, teacher = rows(6, 4, 9), rows(7, 4, 9)
    pattern = kb.nn.functional.kl_div(F.log_softmax(student, -1), F.softmax(teacher, -1), reduction="batchmean")
    assert pattern.item() == value(manual(teacher, student).mean().item())
    assert kb.kl(kb.Logits(teacher), kb.Logits(student), reduction="mean").item() == value(pattern.item())


@states("S000-17", needs=("kl", "Logits"))
def test_log_space_survives_where_logs_of_small_probabilities_do_not():
    teacher, student = torch.tensor([0.0, -200.0]), torch.tensor([-200.0, 0.0])
    # In float32 exp(-200) is 0 and its log is -inf; the answer is 200 tanh(100) = 200 to every digit.
    assert math.isinf(F.kl_div(student.softmax(-1).log(), teacher.softmax(-1), reduction="sum").item())
    assert kb.kl(kb.Logits(teacher), kb.Logits(student)).item() == 200.0


@states("S000-17", needs=("losses.distillation",))
def test_distillation_is_that_pattern():
    student, teacher = rows(6, 4, 9), rows(7, 4, 9)
    assert kb.losses.distillation(student, teacher).item() == value(manual(teacher, student).mean().item())


@pytest.mark.parametrize("bad", [[-0.1, 0.6, 0.5], [0.5, 0.3, 0.3], [0.5, 0.3, 0.1], [0.5, 0.5, math.nan]])
@states("S000-19", needs=("kl", "Probs"))
def test_what_is_no_distribution_is_refused(bad):
    bad = torch.tensor(bad, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"\S"):
        kb.kl(kb.Probs(bad), kb.Probs(Q))
    with pytest.raises(ValueError, match=r"\S"):
        kb.kl(kb.Probs(Q), kb.Probs(bad))


@states("S000-19", needs=("kl", "Counts"))
def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="negative"):
        kb.kl(kb.Counts(torch.tensor([3.0, -1.0])), kb.Counts(torch.tensor([1.0, 1.0])))


@states("S000-21", needs=("kl",))
def test_a_bare_tensor_is_not_guessed_at():
    with pytest.raises(TypeError) as caught:
        kb.kl(Q, P)
    assert all(view in str(caught.value) for view in ("Logits", "LogProbs", "Probs", "Counts"))


@states("S000-21", needs=("nn",))
def test_the_drop_in_warns_of_probabilities_in_place_of_log_probabilities():
    kl_div = kb.nn.functional.kl_div
    with pytest.warns(kb.KullbackWarning, match="log"):
        kl_div(Q, P, reduction="sum")


@states("S000-25", needs=("nn",))
def test_the_target_may_be_log_probabilities():
    got = kb.nn.functional.kl_div(Q.log(), P.log(), reduction="sum", log_target=True)
    assert got.item() == value(KL_PQ)
    assert kb.nn.KLDivLoss(reduction="sum", log_target=True)(Q.log(), P.log()).item() == value(KL_PQ)
