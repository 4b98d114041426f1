"""The example of a VAE learns, some of its units collapse, and it draws its picture."""

import pytest

pytest.importorskip("matplotlib")

from examples import vae


@pytest.mark.slow
def test_the_bound_rises_and_unneeded_units_collapse(tmp_path):
    training = vae.train(epochs=30)
    assert training.bound[-1] > training.bound[0] + 30
    assert 1 <= int(training.report.active.sum()) < vae.LATENTS
    assert training.report.kl_per_dimension.min() < 0.05
    vae.draw(training, str(tmp_path / "vae.png"))
    assert (tmp_path / "vae.png").read_bytes().startswith(b"\x89PNG")
