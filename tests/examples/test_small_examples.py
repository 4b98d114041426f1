"""Each small example runs, shows what its text says, and draws its picture."""

import pytest

pytest.importorskip("matplotlib")

from examples import distil_classifier, grpo, quantise, variational_inference


def is_png(path):
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_distilled_student_is_better_than_the_one_with_few_labels(tmp_path):
    result = distil_classifier.train(steps=300)
    assert result.accuracy["student, distilled"] > result.accuracy["student, 30 labels"] + 0.05
    assert result.divergence["student, distilled"] < 0.2 * result.divergence["student, 30 labels"]
    distil_classifier.draw(result, str(tmp_path / "a.png"))
    assert is_png(tmp_path / "a.png")


@pytest.mark.slow
def test_k3_as_a_loss_ends_elsewhere(tmp_path):
    reference, rewarded = grpo.make_reference(grpo.torch.Generator().manual_seed(0))
    best = grpo.best_policy(reference, rewarded).gather(1, rewarded[:, None]).mean().item()
    runs = {name: grpo.train(name, steps=200) for name in ("k3 as loss", "policy_kl", "exact_policy_kl")}
    assert runs["k3 as loss"].rewarded[-1] > 5 * best
    assert runs["policy_kl"].rewarded[-1] == pytest.approx(best, rel=0.3)
    assert runs["exact_policy_kl"].rewarded[-1] == pytest.approx(best, rel=0.3)
    grpo.draw(runs, str(tmp_path / "a.png"))
    assert is_png(tmp_path / "a.png")


@pytest.mark.slow
def test_three_normals_find_the_mixture_and_one_does_not(tmp_path):
    fits = {
        "sampled": variational_inference.fit(1, sampled=True, steps=100),
        "one": variational_inference.fit(1, steps=100),
        "three": variational_inference.fit(3, steps=200),
    }
    assert fits["three"].divergence[-1] < 1e-4
    assert 0.3 < fits["one"].divergence[-1] < 0.5
    variational_inference.draw(fits, str(tmp_path / "a.png"))
    assert is_png(tmp_path / "a.png")


@pytest.mark.slow
def test_fewer_bits_are_farther_from_the_model(tmp_path):
    names, comparison = quantise.measure(quantise.train(steps=60), texts=16)
    means = {name: other.measures["kl"].mean for name, other in zip(names, comparison.others, strict=True)}
    assert 0 < means["int8, scale per row"] < means["int4, scale per row"]
    assert means["int8, one scale"] < means["int4, one scale"]
    quantise.draw(names, comparison, str(tmp_path / "a.png"))
    assert is_png(tmp_path / "a.png")
