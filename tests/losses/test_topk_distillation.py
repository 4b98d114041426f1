"""`topk_distillation`, its bounds, and teachers on disk."""

import json
import math

import pytest
import torch

from kullback import InputTypeError, InputValueError, ShapeError
from kullback.losses import (
    SparseTeacher,
    TeacherReader,
    TeacherWriter,
    distillation,
    sample_teacher,
    topk_distillation,
    topk_kl_bounds,
    topk_teacher,
)
from tests.losses.distillation_truth import CASES, truth


def logits(*shape, seed=0, scale=3.0):
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(seed)) * scale


def bucketed(student, stored):
    """The k + 1 log-probabilities of both sides, in float64."""
    q = student.double().softmax(-1)
    head = q.gather(-1, stored.ids)
    rest = q.scatter(-1, stored.ids, 0.0).sum(-1, keepdim=True)
    p = torch.cat([stored.log_probs, stored.log_tail.unsqueeze(-1)], -1).double()
    return torch.cat([head, rest], -1).log(), p


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize(("divergence", "parameters"), CASES)
def test_bucket_is_the_divergence_of_the_grouped_classes(divergence, parameters, temperature):
    student, teacher = logits(4, 40)
    student.requires_grad_()
    stored = topk_teacher(teacher, 6, temperature=temperature)
    rows = topk_distillation(
        student,
        stored.log_probs,
        stored.ids,
        log_tail=stored.log_tail,
        divergence=divergence,
        temperature=temperature,
        reduction="none",
        **parameters,
    )
    exact = student.detach().double().requires_grad_()
    expected = truth(*bucketed(exact / temperature, stored), divergence, **parameters)
    torch.testing.assert_close(rows, expected.float(), rtol=2e-5, atol=1e-7)
    (gradient,) = torch.autograd.grad(rows.sum(), student)
    (other,) = torch.autograd.grad(expected.sum(), exact)
    torch.testing.assert_close(gradient, other.float(), rtol=1e-4, atol=1e-6)


def test_bounds_hold_and_close_with_k():
    student, teacher = logits(20, 60)
    full = distillation(student, teacher, reduction="none")
    before = torch.zeros(20)
    for k in (1, 5, 20, 59, 60):
        stored = topk_teacher(teacher, k)
        bounds = topk_kl_bounds(student, stored.log_probs, stored.ids, log_tail=stored.log_tail)
        assert (bounds.lower >= before - 1e-6).all()
        assert (bounds.lower <= full * (1 + 1e-5)).all()
        assert (bounds.upper >= full * (1 - 1e-5)).all()
        before = bounds.lower
    torch.testing.assert_close(bounds.lower, full, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(bounds.upper, full, rtol=1e-5, atol=1e-6)


def test_a_published_example_in_which_dropping_the_tail_goes_negative():
    # q = (0.6, 0.4), p = (0.9, 0.1), k = 1: the true reverse divergence is 0.311239, the selected term -0.243279.
    student, teacher = torch.tensor([[0.6, 0.4]]).log(), torch.tensor([[0.9, 0.1]]).log()
    stored = topk_teacher(teacher, 1)
    arguments = (student, stored.log_probs, stored.ids)
    dropped = topk_distillation(*arguments, tail="drop", divergence="reverse")
    assert dropped.item() == pytest.approx(-0.243279, abs=1e-6)
    assert topk_distillation(*arguments, divergence="reverse").item() == pytest.approx(0.311239, abs=1e-6)


def test_renormalize_compares_the_k_classes_alone():
    student, teacher = logits(4, 40)
    stored = topk_teacher(teacher, 6)
    found = topk_distillation(student, stored.log_probs, stored.ids, tail="renormalize", reduction="none")
    expected = truth(student.gather(-1, stored.ids), stored.log_probs, "forward")
    torch.testing.assert_close(found, expected.float(), rtol=1e-5, atol=1e-7)


def test_tail_mass_is_exact_where_one_minus_the_sum_is_not():
    teacher = torch.tensor([[40.0, 0.0, 0.0, 1.0]])
    stored = topk_teacher(teacher, 1)
    assert stored.log_tail.item() == pytest.approx(math.log(2 + math.e) - 40.0, rel=1e-6)


def test_sampled_teachers_are_unbiased():
    student, teacher = logits(1, 6, scale=1.0)
    student.requires_grad_()
    draws = sample_teacher(teacher.expand(20_000, 6), 8, generator=torch.Generator().manual_seed(0))
    rows = topk_distillation(student.expand(20_000, 6), draws.log_probs, draws.ids, tail="sampled", reduction="none")
    error = rows.std() / math.sqrt(len(rows))
    assert abs(rows.mean() - distillation(student, teacher)) < 5 * error
    (gradient,) = torch.autograd.grad(rows.mean(), student)
    (expected,) = torch.autograd.grad(distillation(student, teacher), student)
    assert (gradient - expected).abs().max() < 0.01


def test_masked_tokens_and_empty_slots():
    student, teacher = logits(3, 20)
    stored = topk_teacher(teacher, 4)
    mask = torch.tensor([True, False, True])
    expected = topk_distillation(student, stored.log_probs, stored.ids, mask=mask)
    wild = student.clone()
    wild[1] = math.nan
    wild.requires_grad_()
    found = topk_distillation(wild, stored.log_probs, stored.ids, mask=mask)
    assert torch.equal(found, expected)
    assert torch.equal(torch.autograd.grad(found, wild)[0][1], torch.zeros(20))
    wider = SparseTeacher(
        torch.cat([stored.log_probs, torch.full((3, 2), -math.inf)], -1),
        torch.cat([stored.ids, torch.full((3, 2), -1)], -1),
        stored.log_tail,
    )
    found = topk_distillation(student, wider.log_probs, wider.ids, log_tail=wider.log_tail, reduction="none")
    expected = topk_distillation(student, stored.log_probs, stored.ids, log_tail=stored.log_tail, reduction="none")
    torch.testing.assert_close(found, expected)


def test_second_derivatives():
    student, teacher = logits(2, 5)
    student = student.double().requires_grad_()
    stored = topk_teacher(teacher.double(), 2)

    def loss(x):
        return topk_distillation(x, stored.log_probs, stored.ids, log_tail=stored.log_tail, temperature=2.0)

    assert torch.autograd.gradcheck(loss, student)
    assert torch.autograd.gradgradcheck(loss, student)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"tail": "rest"}, InputValueError, "Unknown tail"),
        ({"tail": "drop", "divergence": "js"}, InputValueError, "some divergences"),
        ({"teacher_ids": torch.zeros(2, 3, dtype=torch.long)}, InputValueError, "twice"),
        ({"teacher_ids": torch.tensor([[0, 1, 9], [0, 1, 2]])}, InputValueError, r"teacher_ids\[0, 2\] = 9"),
        ({"teacher_ids": torch.zeros(2, 3)}, InputTypeError, "class indices"),
        ({"teacher_log_probs": torch.zeros(2, 3)}, InputValueError, "more than the whole"),
        ({"teacher_log_probs": torch.zeros(2, 4)}, ShapeError, "tokens"),
        ({"log_tail": torch.zeros(3)}, ShapeError, "log_tail"),
    ],
)
def test_errors_say_what_to_write(changes, error, match):
    good = {
        "student_logits": torch.zeros(2, 5),
        "teacher_log_probs": torch.full((2, 3), -2.0),
        "teacher_ids": torch.tensor([[0, 1, 2], [0, 1, 2]]),
    }
    with pytest.raises(error, match=match):
        topk_distillation(**{**good, **changes})


@pytest.fixture
def folder(tmp_path):
    with TeacherWriter(
        tmp_path / "teacher", vocabulary=30, temperature=2.0, tokenizer_hash="abc", tokens_per_part=10, half=False
    ) as writer:
        for n in range(5):
            writer.write(topk_teacher(logits(4 + n, 30, seed=n)[0], 3))
    return tmp_path / "teacher"


def test_a_teacher_on_disk_comes_back_as_it_was(folder):
    reader = TeacherReader(folder, tokenizer_hash="abc")
    assert len(reader) == 5
    assert reader.info.tokens == 4 + 5 + 6 + 7 + 8
    assert reader.info.temperature == 2.0
    assert len(list(folder.glob("part-*"))) == 2
    for n, streamed in enumerate(reader):
        expected = topk_teacher(logits(4 + n, 30, seed=n)[0], 3)
        for one, other, same in zip(streamed, streamed, expected, strict=True):
            assert torch.equal(one, other)
            assert torch.equal(one, same)
    with pytest.raises(IndexError):
        reader[5]


def test_damage_is_noticed(folder, tmp_path):
    with pytest.raises(InputValueError, match="another tokenizer"):
        TeacherReader(folder, tokenizer_hash="xyz")
    with pytest.raises(InputValueError, match="already"):
        TeacherWriter(folder, vocabulary=30)
    with pytest.raises(InputValueError, match="no finished teacher"):
        TeacherReader(tmp_path)
    part = folder / "part-00001.safetensors"
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputValueError, match="SHA-256"):
        TeacherReader(folder)
    part.write_bytes(b"nothing")
    with pytest.raises(InputValueError, match="cannot be read"):
        list(TeacherReader(folder, verify=False))
    part.unlink()
    with pytest.raises(InputValueError, match="no file"):
        TeacherReader(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"version": 2},
        {"vocabulary": "many"},
        {"parts": "none"},
        {"parts": [{"file": "../secret", "sequences": 1, "tokens": 1, "sha256": ""}]},
        {"parts": [{"file": "part-00000.safetensors"}]},
    ],
)
def test_a_hostile_index_is_refused(folder, change):
    index = json.loads((folder / "teacher.json").read_text())
    (folder / "teacher.json").write_text(json.dumps({**index, **change}))
    with pytest.raises(InputValueError, match="damaged"):
        TeacherReader(folder)
    (folder / "teacher.json").write_text("{")
    with pytest.raises(InputValueError, match="JSON"):
        TeacherReader(folder)


@pytest.mark.parametrize("tail", ["bucket", "renormalize", "drop", "sampled"])
def test_a_student_that_is_nan_is_refused_unless_masked_with_whatever_the_teacher_holds_there(tail):
    student, teacher = logits(2, 20)
    stored = topk_teacher(teacher, 4)
    log_probs, ids, log_tail = (t.clone() for t in stored)
    student[1], log_probs[1], ids[1], log_tail[1] = math.nan, math.nan, 999, math.nan
    found = topk_distillation(
        student, log_probs, ids, log_tail=log_tail, tail=tail, mask=torch.tensor([True, False]), reduction="none"
    )
    expected = topk_distillation(student[:1], log_probs[:1], ids[:1], log_tail=log_tail[:1], tail=tail)
    assert found.tolist() == [expected.item(), 0.0]
    with pytest.raises(InputValueError, match="student_logits"):
        topk_distillation(student, stored.log_probs, stored.ids, tail=tail)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", -1.0), ("temperature", math.nan), ("vocabulary", 0), ("k", -1), ("k", 10**30), ("parts", 10**30)],
)
def test_numbers_in_the_index_are_checked(tmp_path, name, value):
    folder = tmp_path / "teacher"
    with TeacherWriter(folder, vocabulary=20) as writer:
        writer.write(topk_teacher(logits(3, 20)[0], 4))
    index = json.loads((folder / "teacher.json").read_text())
    if name == "parts":
        index["parts"][0]["tokens"] = index["parts"][0]["sequences"] = value
    else:
        index[name] = value
    (folder / "teacher.json").write_text(json.dumps(index))
    with pytest.raises(InputValueError, match="damaged"):
        TeacherReader(folder)


def test_stored_values_are_logarithms_of_probabilities(tmp_path):
    stored = topk_teacher(logits(3, 20)[0], 4)
    for number, bad in enumerate(
        (stored._replace(log_tail=stored.log_tail * math.nan), stored._replace(log_tail=-stored.log_tail))
    ):
        with TeacherWriter(tmp_path / str(number), vocabulary=20) as writer:
            writer.write(bad)
        with pytest.raises(InputValueError, match="log_tail above 0 or NaN"):
            TeacherReader(tmp_path / str(number))[0]
