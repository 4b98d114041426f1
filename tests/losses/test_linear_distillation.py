"""`linear_distillation` against `distillation` of logits in float64."""

import math

import pytest
import torch

from kullback import InputTypeError, InputValueError, KullbackWarning, ShapeError
from kullback.losses import distillation, linear_distillation
from tests.losses.distillation_truth import CASES

NAMES = ("student_hidden", "student_weight", "student_bias", "teacher_hidden", "teacher_weight", "teacher_bias")


def inputs(tokens=(3, 7), features=8, classes=50, dtype=torch.float32, bias=True):
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)

    student = [normal(*tokens, features), normal(classes, features), normal(classes) if bias else None]
    teacher = [normal(*tokens, features + 3), normal(classes, features + 3), normal(classes) if bias else None]
    return {name: t for name, t in zip(NAMES, student + teacher, strict=True) if t is not None}


def recorded(tensors, dtype=None):
    return {name: t.detach().to(dtype or t.dtype).requires_grad_() for name, t in tensors.items()}


def logits(tensors, model, softcap=None, scale=None):
    z = tensors[f"{model}_hidden"] @ tensors[f"{model}_weight"].t()
    z = z + tensors[f"{model}_bias"] if f"{model}_bias" in tensors else z
    z = z * scale if scale else z
    return softcap * torch.tanh(z / softcap) if softcap else z


def expected_loss(tensors, *, softcap=(None, None), scale=(None, None), **options):
    student = logits(tensors, "student", softcap[0], scale[0])
    return distillation(student, logits(tensors, "teacher", softcap[1], scale[1]), **options)


def gradients(loss, tensors, **options):
    wanted = list(tensors.values())
    found = torch.autograd.grad(loss, wanted, allow_unused=True, **options)
    return dict(zip(tensors, found, strict=True))


def agree(found, expected, rtol=2e-5):
    for name, gradient in expected.items():
        assert (found[name] is None) == (gradient is None), name
        if gradient is not None:
            error = (found[name].double() - gradient.double()).norm() / gradient.double().norm()
            assert error < rtol, (name, error)


@pytest.mark.parametrize(("divergence", "parameters"), CASES)
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_values_and_gradients(divergence, parameters, reduction):
    tensors = inputs()
    options = {"divergence": divergence, "temperature": 2.0, "t_squared": True, "reduction": reduction, **parameters}
    mine, exact = recorded(tensors), recorded(tensors, torch.float64)
    loss = linear_distillation(**mine, chunk_tokens=4, **options)
    expected = expected_loss(exact, **options)
    torch.testing.assert_close(loss, expected.float(), rtol=1e-5, atol=1e-7)
    agree(gradients(loss.sum(), mine), gradients(expected.sum(), exact))


def test_everything_at_once_with_teacher_gradients():
    tensors = inputs()
    labels = torch.randint(0, 50, (3, 7), generator=torch.Generator().manual_seed(1))
    labels[0, :3] = -100
    options = {
        "labels": labels,
        "label_weight": 0.2,
        "weight": torch.rand(3, 7, generator=torch.Generator().manual_seed(2)),
        "denominator": 11.0,
        "teacher_gradient": True,
        "temperature": 3.0,
    }
    mine, exact = recorded(tensors), recorded(tensors, torch.float64)
    loss = linear_distillation(**mine, chunk_tokens=5, logit_softcap=(5.0, None), logit_scale=(0.7, 1.5), **options)
    expected = expected_loss(exact, softcap=(5.0, None), scale=(0.7, 1.5), **options)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    agree(gradients(loss, mine), gradients(expected, exact))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes_accumulate_in_float32_or_better(dtype):
    tensors = inputs(dtype=dtype, features=16, classes=5000)
    mine, exact = recorded(tensors), recorded(tensors, torch.float64)
    loss, expected = linear_distillation(**mine), expected_loss(exact)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    agree(gradients(loss, mine), gradients(expected, exact), rtol=4 * torch.finfo(dtype).eps + 1e-12)


def test_autocast_changes_nothing():
    tensors = recorded(inputs())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_distillation(**tensors)
    assert torch.equal(loss, linear_distillation(**tensors))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_masked_tokens_do_not_matter_whatever_they_hold(bad):
    tensors = inputs()
    mask = torch.rand(3, 7, generator=torch.Generator().manual_seed(1)) < 0.5
    clean, wild = recorded(tensors), recorded(tensors)
    for name in ("student_hidden", "teacher_hidden"):
        wild[name] = torch.where(mask.unsqueeze(-1), tensors[name], bad).requires_grad_()
    for reduction in ("mean", "none"):
        loss = linear_distillation(**clean, mask=mask, reduction=reduction)
        other = linear_distillation(**wild, mask=mask, reduction=reduction)
        assert torch.equal(loss, other)
        found, expected = gradients(other.sum(), wild), gradients(loss.sum(), clean)
        assert all(torch.equal(found[n], expected[n]) for n in NAMES if expected[n] is not None)


def test_details_come_from_the_same_pass():
    tensors = recorded(inputs())
    labels = torch.zeros(3, 7, dtype=torch.long)
    for reduction in ("mean", "none"):
        found = linear_distillation(**tensors, details=True, labels=labels, reduction=reduction, chunk_tokens=4)
        student, teacher = logits(tensors, "student"), logits(tensors, "teacher")
        torch.testing.assert_close(found.loss, distillation(student, teacher, labels=labels, reduction=reduction))
        rows = distillation(student, teacher, reduction="none").detach()
        torch.testing.assert_close(found.divergence, rows, rtol=1e-4, atol=1e-6)
        for entropy, z in ((found.student_entropy, student), (found.teacher_entropy, teacher)):
            torch.testing.assert_close(entropy, torch.distributions.Categorical(logits=z.detach()).entropy())
        assert not found.divergence.requires_grad
    with torch.no_grad():
        assert not linear_distillation(**tensors, details=True).loss.requires_grad


def test_near_convergence_keeps_its_digits():
    tensors = inputs(classes=2000, bias=False)
    tensors["teacher_hidden"] = tensors["student_hidden"]
    tensors["teacher_weight"] = tensors["student_weight"] * (1 + 1e-3)
    mine, exact = recorded(tensors), recorded(tensors, torch.float64)
    loss, expected = linear_distillation(**mine), expected_loss(exact)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-2, abs=0)
    agree(gradients(loss, mine), gradients(expected, exact), rtol=1e-2)


def test_backward_twice_and_second_derivatives():
    tensors = recorded(inputs(tokens=(3,), features=2, classes=4, dtype=torch.float64))
    tensors = {name: t for name, t in tensors.items() if name.startswith("student")}
    teacher = {n: t for n, t in inputs(tokens=(3,), features=2, classes=4, dtype=torch.float64).items()
               if n.startswith("teacher")}  # fmt: skip
    loss = linear_distillation(**tensors, **teacher)
    first = gradients(3.0 * loss, tensors, retain_graph=True)
    again = gradients(3.0 * loss, tensors, retain_graph=True)
    agree(again, first, rtol=1e-14)

    def of(hidden, weight, bias):
        return linear_distillation(hidden, weight, student_bias=bias, **teacher)

    arguments = tuple(tensors.values())
    assert torch.autograd.gradcheck(of, arguments)
    assert torch.autograd.gradgradcheck(of, arguments)
    found = torch.func.grad(of, argnums=(0, 1, 2))(*(t.detach() for t in arguments))
    for one, name in zip(found, tensors, strict=True):
        torch.testing.assert_close(3.0 * one, first[name])
    weights = tensors["student_weight"].detach(), teacher["teacher_weight"]
    single = torch.func.vmap(lambda h, t: linear_distillation(h, weights[0], t, weights[1]))
    single = single(tensors["student_hidden"].detach(), teacher["teacher_hidden"])
    assert single.shape == (3,)


def test_padded_vocabularies_and_a_shared_head():
    tensors = recorded(inputs(bias=False))
    padded = {**tensors, "teacher_weight": torch.cat([tensors["teacher_weight"].detach(), torch.ones(6, 11)])}
    with pytest.raises(ShapeError, match="align="):
        linear_distillation(**padded)
    with pytest.warns(KullbackWarning, match=r"% of the teacher's probability"):
        truncated = linear_distillation(**padded, align="truncate")
    torch.testing.assert_close(truncated, linear_distillation(**tensors))
    bias = torch.cat([torch.zeros(50), torch.full((6,), -1e4)])
    truncated = linear_distillation(**padded, teacher_bias=bias, align="truncate")
    torch.testing.assert_close(truncated, linear_distillation(**tensors))


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"student_weight": torch.zeros(8, 50)}, ShapeError, r"student_weight.t\(\)|features"),
        ({"student_bias": torch.zeros(49)}, ShapeError, "student_bias"),
        ({"teacher_hidden": torch.zeros(3, 6, 11)}, ShapeError, "tokens"),
        ({"teacher_weight": None}, InputTypeError, "teacher_weight"),
        ({"logit_softcap": -1.0}, InputValueError, "logit_softcap"),
        ({"chunk_tokens": 0}, ShapeError, "chunk"),
        ({"divergence": "kl"}, InputValueError, "Unknown divergence"),
        ({"student_hidden": torch.full((3, 7, 8), math.nan)}, InputValueError, "student's logits"),
    ],
)
def test_errors_say_what_to_write(changes, error, match):
    with pytest.raises(error, match=match):
        linear_distillation(**{**inputs(), **changes})


def test_no_tokens():
    tensors = recorded(inputs(tokens=(0,)))
    loss = linear_distillation(**tensors)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(tensors["student_weight"].grad, torch.zeros(50, 8))
