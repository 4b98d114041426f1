"""A teacher of top classes as the base: k + 1 classes, real classes in the worst rows, refusals."""

import pytest
import torch

import kullback as kb
from kullback import Logits, compare
from kullback.losses import TeacherWriter, topk_teacher


@pytest.fixture
def teacher(tmp_path):
    logits = 3 * torch.randn(24, 50, generator=torch.Generator().manual_seed(0))
    with TeacherWriter(tmp_path / "teacher", vocabulary=50, half=False, tokens_per_part=10) as writer:
        for start, stop in ((0, 9), (9, 16), (16, 24)):
            writer.write(topk_teacher(logits[start:stop], 6))
    return tmp_path / "teacher", logits


def test_figures_are_those_of_the_top_classes_and_all_others(teacher):
    folder, logits = teacher
    other = logits + 0.5 * torch.randn(24, 50, generator=torch.Generator().manual_seed(1))
    result = compare(folder, Logits(other))
    p, q = logits.double().softmax(-1), other.double().softmax(-1)
    ids = p.topk(6).indices
    merged = [torch.cat([x.gather(-1, ids), 1 - x.gather(-1, ids).sum(-1, keepdim=True)], -1) for x in (p, q)]
    rows = (merged[0] * (merged[0] / merged[1]).log()).sum(-1)
    assert result.rows == 24
    assert result.kl.mean == pytest.approx(float(rows.mean()), rel=1e-5)
    assert result.kl.mean < float((p * (p / q).log()).sum(-1).mean())
    worst = result.worst[0]
    assert worst.row == int(rows.argmax())
    assert {term.class_index for term in worst.terms} == {*ids[worst.row].tolist(), -1}
    assert "all others" in str(result)
    assert "lower bounds" in str(result)


def test_a_teacher_is_the_base_and_has_the_same_vocabulary(teacher):
    folder, logits = teacher
    with pytest.raises(kb.InputValueError, match="teacher first"):
        compare(Logits(logits), folder)
    with pytest.raises(kb.ShapeError, match="50 classes"):
        compare(folder, Logits(torch.zeros(24, 51)))
    (folder / "part-00001.safetensors").write_bytes(b"damaged")
    with pytest.raises(kb.InputValueError):
        compare(folder, Logits(logits))
