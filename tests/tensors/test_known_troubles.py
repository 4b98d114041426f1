"""What people trip over with other tools, as regression tests."""

import itertools

import pytest
import torch
from torch.nn import functional

import kullback as kb

INF = float("inf")


class TestTheWrongKindOfTensor:
    """pytorch #60928, #43348: probabilities where log-probabilities are due come out negative, without a warning."""

    p = torch.tensor([[0.1, 0.2, 0.7]])
    q = torch.tensor([[0.3, 0.3, 0.4]])

    @pytest.mark.parametrize("wrong", [kb.LogProbs, kb.Probs])
    def test_each_mix_up_is_an_error(self, wrong):
        misread = self.p if wrong is kb.LogProbs else self.p.log()
        for call in (lambda: kb.kl(wrong(misread), kb.Probs(self.q)), lambda: kb.kl(kb.Probs(self.q), wrong(misread))):
            with pytest.raises(kb.InputValueError, match="wrap them in"):
                call()

    def test_the_right_views_agree(self):
        views = [
            (kb.Probs(p), kb.LogProbs(p.log()), kb.Logits(p.log() + 3), kb.Counts(1000 * p)) for p in (self.p, self.q)
        ]
        want = (self.p.double() * (self.p.double() / self.q.double()).log()).sum()
        for p, q in itertools.product(*views):
            assert kb.kl(p, q).item() == pytest.approx(want.item(), rel=1e-6)


class TestReductions:
    """pytorch #6622, transformers #1181: "mean" divides by classes, "batchmean" forgets the sequence length."""

    @pytest.mark.parametrize("length", [1, 10, 100])
    def test_the_mean_does_not_grow_with_the_sequence(self, length):
        p = torch.tensor([0.1, 0.2, 0.7]).log().expand(2, length, 3)
        q = torch.tensor([0.3, 0.3, 0.4]).log().expand(2, length, 3)
        one = kb.kl(kb.Logits(p[0, 0]), kb.Logits(q[0, 0]))
        assert kb.kl(kb.Logits(p), kb.Logits(q), reduction="mean").item() == pytest.approx(one.item(), rel=1e-6)

    def test_one_dimension_is_one_row(self):
        p, q = torch.tensor([0.1, 0.2, 0.7]), torch.tensor([0.3, 0.3, 0.4])
        assert kb.kl(kb.Probs(p), kb.Probs(q), reduction="mean") == kb.kl(kb.Probs(p), kb.Probs(q))


def test_the_direction_is_that_of_the_arguments():
    """pytorch #57459: torch's kl_div(input, target) is KL(target || input)."""
    p, q = torch.tensor([0.1, 0.2, 0.7]), torch.tensor([0.3, 0.3, 0.4])
    forward, reverse = kb.kl(kb.Probs(p), kb.Probs(q)), kb.kl(kb.Probs(q), kb.Probs(p))
    assert forward.item() == pytest.approx(functional.kl_div(q.log(), p, reduction="sum").item(), rel=1e-6)
    assert reverse.item() == pytest.approx(functional.kl_div(p.log(), q, reduction="sum").item(), rel=1e-6)
    assert forward != reverse


class TestZerosAndMasks:
    def test_a_logit_masked_on_both_sides(self):
        """pytorch #40553: the value is finite, torch's gradient is NaN."""
        a = torch.tensor([1.0, 2.0, -INF], requires_grad=True)
        b = torch.tensor([2.0, 1.5, -INF], requires_grad=True)
        value = kb.kl(kb.Logits(a), kb.Logits(b))
        without = kb.kl(kb.Logits(a[:2]), kb.Logits(b[:2]))
        assert value == without
        got, want = torch.autograd.grad(value, (a, b)), torch.autograd.grad(without, (a, b))
        assert all(torch.equal(g, w) for g, w in zip(got, want, strict=True))

    def test_a_target_that_underflows(self):
        """Reverse KL through a softmax whose small probabilities are 0 in float32."""
        student = torch.tensor([0.0, -200.0, -300.0], requires_grad=True)
        teacher = torch.zeros(3)
        value = kb.kl(kb.Logits(student), kb.Logits(teacher))
        assert value.item() == pytest.approx(1.0986123)
        assert torch.autograd.grad(value, student)[0].isfinite().all()

    def test_finite_logits_never_give_an_infinite_divergence(self):
        """ray #21297: float32 probabilities underflow to 0, and the divergence was called infinite."""
        a, b = torch.tensor([0.0, -120.0, -3.0]), torch.tensor([0.1, -150.0, -3.1])
        assert kb.kl(kb.Logits(a), kb.Logits(b)).isfinite()
        assert kb.kl(kb.Logits(b), kb.Logits(a)).isfinite()

    def test_a_masked_row_can_hold_anything(self):
        """SkyRL #1633: multiplying by a mask turns inf * 0 into NaN."""
        a = torch.tensor([[0.0, 1.0], [-INF, -INF], [float("nan"), 0.0]], requires_grad=True)
        mask = torch.tensor([True, False, False])
        loss = kb.kl(kb.Logits(torch.zeros(3, 2)), kb.Logits(a), mask=mask, reduction="mean")
        loss.backward()
        assert loss.isfinite()
        assert a.grad.isfinite().all()


@pytest.mark.parametrize("distance", [1.0, 0.1, 0.03])
def test_bfloat16_gradients_near_convergence(distance):
    """Liger #1432: bfloat16 arithmetic loses 4 to 23 % of the gradient as the student converges."""
    generator = torch.Generator().manual_seed(0)
    teacher = (2 * torch.randn(2, 32000, generator=generator)).bfloat16()
    student = (teacher.float() + distance * torch.randn(2, 32000, generator=generator)).bfloat16().requires_grad_()
    (got,) = torch.autograd.grad(kb.kl(kb.Logits(teacher), kb.Logits(student)).sum(), student)
    want = student.detach().double().softmax(-1) - teacher.double().softmax(-1)
    # Half a unit in the last place of each entry, and nothing more.
    assert (got.double() - want).norm() / want.norm() < 2**-8


class TestNormalising:
    """scipy #12553 (`entropy` normalises silently), keras #9754, optax #1513."""

    p, q = torch.tensor([2.0, 1.0, 1.0]), torch.tensor([1.0, 1.0, 1.0])

    def test_unnormalised_probabilities_are_refused(self):
        with pytest.raises(kb.InputValueError, match="Counts"):
            kb.kl(kb.Probs(self.p), kb.Probs(self.q))

    def test_counts_are_normalised_and_measures_are_not(self):
        normalised = kb.kl(kb.Counts(self.p), kb.Counts(self.q))
        assert normalised.item() == pytest.approx(0.5 * torch.tensor(1.5).log() + 0.5 * torch.tensor(0.75).log())
        measures = kb.generalized_kl(kb.Counts(self.p), kb.Counts(self.q))
        assert measures.item() == pytest.approx(2 * torch.tensor(2.0).log().item() - 4 + 3)


class TestShapes:
    """pytorch PR #138810: silent broadcasts in kl_div."""

    p = torch.tensor([[0.1, 0.2, 0.7]])
    q = torch.tensor([[0.3, 0.3, 0.4]]).expand(4, 3)

    def test_a_broadcast_batch_is_averaged_over_its_rows(self):
        value = kb.kl(kb.Probs(self.p), kb.Probs(self.q), reduction="mean")
        assert value.item() == pytest.approx(kb.kl(kb.Probs(self.p[0]), kb.Probs(self.q[0])).item())

    def test_class_indices_are_refused(self):
        with pytest.raises(kb.InputTypeError, match="class indices"):
            kb.kl(kb.Probs(torch.tensor([0, 1, 2])), kb.Logits(torch.zeros(3, 3)))

    def test_classes_never_broadcast(self):
        with pytest.raises(kb.ShapeError):
            kb.kl(kb.Probs(torch.ones(4, 1)), kb.Logits(torch.zeros(4, 3)))
