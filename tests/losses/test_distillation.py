"""`distillation` and `DistillationLoss`: values, gradients, masks, labels, denominators, errors."""

import math

import pytest
import torch
import torch.nn.functional as F

from kullback import InputTypeError, InputValueError, KullbackWarning, ShapeError
from kullback.losses import DistillationLoss, distillation
from tests.losses.distillation_truth import CASES, truth


def pair(*shape, scale=1.0, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    student = torch.randn(*shape, generator=generator) * 3
    teacher = student + scale * torch.randn(*shape, generator=generator)
    return student.to(dtype).requires_grad_(), teacher.to(dtype)


def relative(got, expected):
    return float(((got.double() - expected.double()).norm() / expected.double().norm()).detach())


@pytest.mark.parametrize("temperature", [1.0, 2.0, 3.0])
@pytest.mark.parametrize(("divergence", "parameters"), CASES)
def test_values_and_gradients_against_float64(divergence, parameters, temperature):
    student, teacher = pair(3, 5, 60)
    rows = distillation(
        student, teacher, divergence=divergence, temperature=temperature, reduction="none", **parameters
    )
    exact = student.detach().double().requires_grad_()
    expected = truth(exact, teacher, divergence, temperature, **parameters)
    assert rows.dtype == torch.float32
    assert relative(rows, expected) < 1e-6
    (gradient,) = torch.autograd.grad(rows.sum(), student)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), exact)
    assert relative(gradient, expected_gradient) < 1e-6


@pytest.mark.parametrize("temperature", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("scale", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("divergence", ["forward", "reverse", "js", "skew", "scaled_js"])
def test_digits_survive_where_the_models_nearly_agree(divergence, scale, temperature):
    student, teacher = pair(4, 1000, scale=scale)
    loss = distillation(student, teacher, divergence=divergence, temperature=temperature)
    # By mpmath-free means: the same formula of the same float32 logits in float64, which keeps 1e-16 / scale² digits.
    exact = student.detach().double().requires_grad_()
    other = distillation(exact, teacher.double(), divergence=divergence, temperature=temperature)
    assert loss.item() > 0
    assert loss.item() == pytest.approx(other.item(), rel=1e-5, abs=0)
    (gradient,) = torch.autograd.grad(loss, student)
    (expected,) = torch.autograd.grad(other, exact)
    assert relative(gradient, expected) < 1e-5


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_near_convergence_keeps_the_gradient(dtype, temperature):
    student, teacher = pair(4, 32_000, scale=0.03, dtype=dtype)
    # float16 cannot hold gradients below 6e-8 at all: training scales the loss, as here.
    (gradient,) = torch.autograd.grad(1e6 * distillation(student, teacher, temperature=temperature), student)
    exact = student.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(1e6 * truth(exact, teacher, "forward", temperature).mean(), exact)
    assert gradient.dtype == dtype
    assert relative(gradient, expected) < 1e-2
    loss = distillation(student, teacher, temperature=temperature)
    assert loss.item() == pytest.approx(truth(student, teacher, "forward", temperature).mean().item(), rel=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("divergence", ["forward", "reverse", "js", "tv", "alpha"])
def test_masked_tokens_do_not_matter_whatever_they_hold(divergence, temperature):
    student, teacher = pair(2, 6, 40)
    labels = torch.arange(12).reshape(2, 6)
    mask = torch.rand(2, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    options = {"divergence": divergence, "temperature": temperature, "mask": mask, "labels": labels}
    loss = distillation(student, teacher, **options)
    (gradient,) = torch.autograd.grad(loss, student)
    for bad in (math.nan, math.inf, -math.inf, 1e30):
        wild_student = torch.where(mask.unsqueeze(-1), student.detach(), bad).requires_grad_()
        wild = distillation(wild_student, torch.where(mask.unsqueeze(-1), teacher, bad), **options)
        assert torch.equal(wild, loss)
        assert torch.equal(torch.autograd.grad(wild, wild_student)[0], gradient)
    assert torch.equal(gradient[~mask], torch.zeros_like(gradient[~mask]))


def test_nothing_left_gives_zero():
    student, teacher = pair(2, 3, 10)
    loss = distillation(student, teacher, mask=torch.zeros(2, 3, dtype=torch.bool), temperature=2.0)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(student.grad, torch.zeros_like(student))
    assert distillation(torch.zeros(0, 5), torch.zeros(0, 5), temperature=3.0).item() == 0


def test_mean_divides_by_unmasked_tokens_and_a_denominator_makes_accumulation_exact():
    student, teacher = pair(4, 6, 30)
    mask = torch.ones(4, 6, dtype=torch.bool)
    mask[0, 1:] = False
    whole = distillation(student, teacher, mask=mask)
    (expected,) = torch.autograd.grad(whole, student)
    count = mask.sum()
    parts = [distillation(student[i], teacher[i], mask=mask[i], denominator=count) for i in range(4)]
    (gradient,) = torch.autograd.grad(sum(parts), student)
    assert whole.item() == pytest.approx(sum(parts).item(), rel=1e-6)
    assert relative(gradient, expected) < 1e-6
    assert whole.item() == pytest.approx(truth(student, teacher, "forward")[mask].mean().item(), rel=1e-6)


def test_weights_multiply_tokens():
    student, teacher = pair(6, 30)
    weight = torch.tensor([1.0, 2.0, 0.0, 0.5, 1.0, 3.0])
    rows = truth(student, teacher, "forward").detach()
    loss = distillation(student, teacher, weight=weight, temperature=1.0)
    assert loss.item() == pytest.approx(((rows * weight).sum() / weight.sum()).item(), rel=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_labels_mix_with_cross_entropy(temperature):
    student, teacher = pair(2, 5, 30)
    labels = torch.randint(0, 30, (2, 5), generator=torch.Generator().manual_seed(2))
    labels[0, :2] = -100
    kept = labels != -100
    loss = distillation(student, teacher, labels=labels, label_weight=0.3, temperature=temperature, t_squared=True)
    exact = student.detach().double().requires_grad_()
    soft = truth(exact, teacher, "forward", temperature)[kept].mean() * temperature**2
    expected = 0.7 * soft + 0.3 * F.cross_entropy(exact.flatten(0, 1), labels.flatten())
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    (gradient,) = torch.autograd.grad(loss, student)
    assert relative(gradient, torch.autograd.grad(expected, exact)[0]) < 1e-6
    only_labels = distillation(student, teacher, labels=labels, label_weight=1.0)
    assert only_labels.item() == pytest.approx(F.cross_entropy(student.flatten(0, 1), labels.flatten()).item())


def test_with_a_mask_an_unlabelled_token_only_lacks_the_cross_entropy():
    student, teacher = pair(2, 30)
    labels = torch.tensor([3, -100])
    rows = distillation(
        student, teacher, labels=labels, mask=torch.tensor([True, True]), reduction="none", label_weight=0.5
    )
    assert rows[1].item() == pytest.approx(0.5 * truth(student, teacher, "forward")[1].item(), rel=1e-6)


def test_the_teacher_is_detached_unless_asked():
    student, teacher = pair(3, 20)
    teacher.requires_grad_()
    distillation(student, teacher).backward()
    assert teacher.grad is None
    for temperature in (1.0, 3.0):
        (gradient,) = torch.autograd.grad(
            distillation(student, teacher, teacher_gradient=True, temperature=temperature), teacher
        )
        exact = teacher.detach().double().requires_grad_()
        (expected,) = torch.autograd.grad(truth(student.detach(), exact, "forward", temperature).mean(), exact)
        assert relative(gradient, expected) < 1e-6


def test_scaled_js_is_continuous_and_gkd_is_not():
    student, teacher = pair(1, 7)
    ends = [distillation(student, teacher, divergence=name).item() for name in ("forward", "reverse")]
    for beta, end in ((1e-7, ends[0]), (1 - 1e-7, ends[1])):
        assert distillation(student, teacher, divergence="scaled_js", beta=beta).item() == pytest.approx(end, rel=1e-5)
        assert distillation(student, teacher, divergence="gkd", beta=beta).item() < 1e-5
    assert distillation(student, teacher, divergence="gkd", beta=0.0).item() == pytest.approx(ends[0])


def test_excluded_classes_and_infinities():
    student = torch.tensor([[0.0, 1.0, -math.inf], [0.0, 1.0, 2.0]], requires_grad=True)
    teacher = torch.tensor([[0.5, 1.0, -math.inf], [0.0, 1.0, -math.inf]])
    for divergence in ("forward", "js", "skew", "tv", "alpha"):
        rows = distillation(student, teacher, divergence=divergence, temperature=2.0, reduction="none")
        (gradient,) = torch.autograd.grad(rows.sum(), student)
        assert rows.isfinite().all()
        assert gradient.isfinite().all()
        assert gradient[0, 2] == 0
    reverse = distillation(student, teacher, divergence="reverse", temperature=2.0, reduction="none")
    assert reverse[1] == math.inf
    assert torch.autograd.grad(reverse.sum(), student)[0].isfinite().all()


def test_padded_vocabularies_are_refused_and_truncated_on_request():
    student, teacher = pair(2, 32)
    padded = torch.cat([teacher, torch.full((2, 8), -30.0)], -1)
    with pytest.raises(ShapeError, match='align="truncate"'):
        distillation(student, padded)
    truncated = distillation(student, padded, align="truncate")
    assert truncated.item() == pytest.approx(distillation(student, teacher).item(), rel=1e-6)
    with pytest.warns(KullbackWarning, match=r"% of the teacher's probability"):
        distillation(student, torch.cat([teacher, torch.full((2, 8), 3.0)], -1), align="truncate")


def test_second_derivatives_transforms_and_compile():
    student, teacher = pair(2, 2, 4, dtype=torch.float64)
    for options in ({}, {"temperature": 3.0}):

        def loss(x, options=options):
            return distillation(x, teacher, **options)

        assert torch.autograd.gradcheck(loss, student)
        assert torch.autograd.gradgradcheck(loss, student)
        (gradient,) = torch.autograd.grad(loss(student), student)
        assert torch.allclose(torch.func.grad(loss)(student.detach()), gradient, rtol=1e-10)
        rows = torch.func.vmap(lambda s, t, o=options: distillation(s, t, **o))(student.detach(), teacher)
        assert rows.mean().item() == pytest.approx(loss(student).item(), rel=1e-12)


def test_compiles_without_graph_breaks():
    student, teacher = pair(2, 3, 12)

    def loss(s, t, mask):
        return distillation(s, t, temperature=3.0, mask=mask)

    mask = torch.tensor([[True, False, True], [True, True, True]])
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    (gradient,) = torch.autograd.grad(compiled(student, teacher, mask), student)
    (expected,) = torch.autograd.grad(loss(student, teacher, mask), student)
    assert relative(gradient, expected) < 1e-5


def test_module_is_the_function():
    student, teacher = pair(2, 3, 12)
    mask = torch.tensor([[True, False, True], [True, True, True]])
    module = DistillationLoss("scaled_js", beta=0.2, temperature=2.0, t_squared=True)
    expected = distillation(
        student, teacher, divergence="scaled_js", beta=0.2, temperature=2.0, t_squared=True, mask=mask
    )
    assert torch.equal(module(student, teacher, mask=mask), expected)
    assert "beta=0.2" in repr(module)
    with pytest.raises(InputValueError, match="has no beta"):
        DistillationLoss("forward", beta=0.2)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"divergence": "kl"}, InputValueError, "Unknown divergence"),
        ({"beta": 0.5}, InputValueError, "has no beta"),
        ({"divergence": "skew", "alpha": 1.5}, InputValueError, "out of range"),
        ({"divergence": "skew", "alpha": torch.tensor(0.5)}, InputTypeError, "Python number"),
        ({"temperature": 0.0}, InputValueError, "temperature"),
        ({"temperature": math.nan}, InputValueError, "temperature"),
        ({"denominator": 0}, InputValueError, "above 0"),
        ({"denominator": 3.0, "reduction": "sum"}, InputValueError, "denominator"),
        ({"reduction": "batchmean"}, InputValueError, "batchmean"),
        ({"mask": torch.ones(2, 3)}, InputTypeError, "boolean"),
        ({"mask": torch.ones(2, 3, 4, dtype=torch.bool)}, ShapeError, "mask"),
        ({"labels": torch.zeros(2, 4, dtype=torch.long)}, ShapeError, "label"),
        ({"labels": torch.full((2, 3), 4)}, InputValueError, r"labels\[0, 0\] = 4"),
        ({"label_weight": 0.5}, InputValueError, "without labels"),
        ({"align": "pad"}, InputValueError, "align"),
    ],
)
def test_errors_say_what_to_write(arguments, error, match):
    with pytest.raises(error, match=match):
        distillation(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4), **arguments)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_impossible_logits_are_refused(temperature):
    good, bad = torch.zeros(2, 4), torch.tensor([[0.0, math.nan, 1.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    with pytest.raises(InputValueError, match=r"teacher_logits\S* holds NaN"):
        distillation(good, bad, temperature=temperature)
    with pytest.raises(InputTypeError, match="student_logits"):
        distillation(torch.zeros(2, 4, dtype=torch.long), good)
    with pytest.raises(ShapeError, match="broadcast"):
        distillation(torch.zeros(2, 4), torch.zeros(3, 4))


def test_a_label_of_a_masked_token_may_be_anything():
    student, teacher = pair(2, 30)
    mask = torch.tensor([True, False])
    found = distillation(student, teacher, labels=torch.tensor([3, 999]), mask=mask)
    assert torch.equal(found, distillation(student, teacher, labels=torch.tensor([3, 0]), mask=mask))
