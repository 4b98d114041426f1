"""Diffusion terms against the textbook posteriors, collapse diagnostics and alignment on cases with known answers."""

import math

import pytest
import torch
from torch.distributions import Normal

from kullback import kl
from kullback.losses import (
    active_units,
    check_log_prob_alignment,
    collapse_report,
    diffusion_kl,
    diffusion_prior_kl,
    gaussian_kl,
)

BETAS = torch.linspace(1e-4, 0.02, 50, dtype=torch.float64)
CUMULATIVE = torch.cumprod(1 - BETAS, 0)


def textbook(x0, guess, x_t, t, log_variance):
    a, before, beta = CUMULATIVE[t][:, None], CUMULATIVE[t - 1][:, None], BETAS[t][:, None]
    variance = beta * (1 - before) / (1 - a)

    def mean(x):
        return before.sqrt() * beta / (1 - a) * x + (1 - beta).sqrt() * (1 - before) / (1 - a) * x_t

    return kl(Normal(mean(x0), variance.sqrt()), Normal(mean(guess), (log_variance / 2).exp()))


@pytest.mark.parametrize("predicts", ["noise", "start", "v"])
@pytest.mark.parametrize("variance", ["posterior", "beta", "learned_range"])
def test_bound(predicts, variance):
    torch.manual_seed(0)
    t = torch.tensor([1, 7, 30, 49])
    a, before, beta = CUMULATIVE[t][:, None], CUMULATIVE[t - 1][:, None], BETAS[t][:, None]
    x0, noise, guess = torch.randn(3, 4, 6, dtype=torch.float64)
    x_t = a.sqrt() * x0 + (1 - a).sqrt() * noise
    predicted_noise = (x_t - a.sqrt() * guess) / (1 - a).sqrt()
    prediction = {"start": guess, "noise": predicted_noise, "v": a.sqrt() * predicted_noise - (1 - a).sqrt() * guess}
    fraction = torch.rand(4, 6, dtype=torch.float64) if variance == "learned_range" else None
    low, high = (beta * (1 - before) / (1 - a)).log(), beta.log()
    log_variance = {"posterior": low, "beta": high}.get(variance)
    if fraction is not None:
        log_variance = fraction * high + (1 - fraction) * low
    options = {"predicts": predicts, "variance": variance, "variance_fraction": fraction}
    want = textbook(x0, guess, x_t, t, log_variance)
    got = diffusion_kl(prediction[predicts], x0, x_t, t, CUMULATIVE, **options)
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-12)
    bits = diffusion_kl(prediction[predicts], x0, x_t, t, CUMULATIVE, base=2, reduction="mean", **options)
    torch.testing.assert_close(bits, want.mean() / math.log(2), rtol=1e-8, atol=0)
    simple = diffusion_kl(prediction[predicts], x0, x_t, t, CUMULATIVE, weighting="simple", **options)
    torch.testing.assert_close(simple, (noise - predicted_noise) ** 2, rtol=1e-8, atol=1e-12)
    torch.compiler.reset()
    compiled = torch.compile(diffusion_kl, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(prediction[predicts], x0, x_t, t, CUMULATIVE, **options), got)


@pytest.mark.parametrize("decoder", ["discretized", "gaussian"])
@pytest.mark.parametrize("variance", ["posterior", "beta", "learned_range"])
def test_step_0_is_the_log_likelihood_of_the_data(decoder, variance):
    torch.manual_seed(0)
    x0 = (torch.randint(0, 256, (3, 6)).double() / 127.5 - 1).clamp(-1, 1)
    x0[0, :2] = torch.tensor([-1.0, 1.0])
    guess = (x0 + 0.02 * torch.randn(3, 6)).requires_grad_()
    t = torch.tensor([0, 4, 0])
    fraction = torch.rand(3, 6, dtype=torch.float64) if variance == "learned_range" else None
    low = (BETAS[1] * (1 - CUMULATIVE[0]) / (1 - CUMULATIVE[1])).log()
    share = {"posterior": 0.0, "beta": 1.0}.get(variance, fraction)
    scale = ((share * BETAS[0].log() + (1 - torch.as_tensor(share)) * low) / 2).exp()
    p = Normal(guess.detach(), scale)
    upper = torch.where(x0 > 0.999, 1.0, p.cdf(x0 + 1 / 255))
    lower = torch.where(x0 < -0.999, 0.0, p.cdf(x0 - 1 / 255))
    want = -(upper - lower).log() if decoder == "discretized" else -p.log_prob(x0)
    options = {"predicts": "start", "variance": variance, "variance_fraction": fraction}
    got = diffusion_kl(guess, x0, x0, t, CUMULATIVE, decoder=decoder, **options)
    torch.testing.assert_close(got[::2], want[::2], rtol=1e-7, atol=1e-9)
    other = diffusion_kl(
        guess[1:2],
        x0[1:2],
        x0[1:2],
        t[1:2],
        CUMULATIVE,
        **{**options, "variance_fraction": None if fraction is None else fraction[1:2]},
    )
    torch.testing.assert_close(got[1:2], other)
    assert torch.autograd.grad(got.sum(), guess)[0].isfinite().all()
    simple = diffusion_kl(guess, x0, x0, t, CUMULATIVE, predicts="start", weighting="simple")
    assert simple.isfinite().all()


def test_an_extreme_decoder_stays_finite():
    guess = torch.tensor([[5.0, -5.0]], requires_grad=True)
    got = diffusion_kl(
        guess,
        torch.tensor([[-1.0, 0.0]]),
        torch.zeros(1, 2),
        torch.tensor([0]),
        CUMULATIVE,
        predicts="start",
        decoder="discretized",
    )
    assert got.isfinite().all()
    assert torch.autograd.grad(got.sum(), guess)[0].isfinite().all()


def test_prior_term_and_errors():
    x0 = torch.randn(3, 2, dtype=torch.float64)
    want = kl(Normal(CUMULATIVE[-1].sqrt() * x0, (1 - CUMULATIVE[-1]).sqrt()), Normal(torch.zeros(()).double(), 1.0))
    torch.testing.assert_close(diffusion_prior_kl(x0, CUMULATIVE), want)
    with pytest.raises(ValueError, match="steps from 1 on"):
        diffusion_kl(x0, x0, x0, torch.tensor([0, 1, 2]), CUMULATIVE)
    with pytest.raises(TypeError, match="belong together"):
        diffusion_kl(x0, x0, x0, torch.tensor([1, 1, 2]), CUMULATIVE, variance="learned_range")


def test_collapse():
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(300, 3, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 0.0, 0.9])
    logvar = torch.tensor([-3.0, 0.0, -2.0], dtype=torch.float64).expand(300, 3)
    assert active_units(mean).tolist() == [True, False, True]
    report = collapse_report(mean, logvar=logvar)
    kl_sum = gaussian_kl(mean, logvar=logvar, reduction="mean")
    torch.testing.assert_close(report.mutual_information + report.aggregate_kl, kl_sum)
    assert 0 < report.mutual_information.item() < math.log(300)
    assert "2 of 3 units active" in str(report)
    collapsed = collapse_report(torch.zeros(50, 2), std=torch.ones(50, 2))
    assert collapsed.mutual_information.item() == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="several data points"):
        collapse_report(torch.zeros(3), std=torch.ones(3))


def test_alignment():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 8, 11, generator=generator)
    tokens = torch.randint(0, 11, (3, 8), generator=generator)

    def chosen(x, labels=tokens):
        return x.log_softmax(-1).gather(-1, labels[..., None])[..., 0]

    own = chosen(logits)
    assert check_log_prob_alignment(own, own)
    hot = check_log_prob_alignment(own, chosen(logits / 1.3), logits=logits, tokens=tokens)
    assert hot.temperature == pytest.approx(1.3, rel=1e-4)
    assert "temperature" in str(hot)
    shifted = torch.cat([torch.full((3, 1), -1.0), own[:, :-1]], -1)
    assert "shifted labels: log_prob stands one token earlier" in str(check_log_prob_alignment(own, shifted))
    padded = own.clone()
    padded[:, -2:] = 0.0
    assert "padding: other_log_prob" in str(check_log_prob_alignment(own, padded))
    assert "precision" in str(check_log_prob_alignment(own, own.bfloat16()))
    assert "another model" in str(check_log_prob_alignment(own, own.roll(1, 0)))
    mask = torch.ones(3, 8, dtype=torch.bool)
    mask[:, -2:] = False
    assert check_log_prob_alignment(own, padded, mask=mask)
    assert not check_log_prob_alignment(own, padded, mask=~mask & mask)


@pytest.mark.parametrize("shift", [-7, -1, 1, 2, 30])
def test_alignment_finds_a_shift_of_any_size(shift):
    generator = torch.Generator().manual_seed(3)
    own = -torch.rand(4, 80, generator=generator)
    mask = torch.ones(4, 80, dtype=torch.bool)
    mask[0, 70:] = False
    side, size = "later" if shift > 0 else "earlier", "one token" if abs(shift) == 1 else f"{abs(shift)} tokens"
    report = check_log_prob_alignment(own, own.roll(-shift, -1) + 1e-6, mask=mask)
    assert report.findings == [f"shifted labels: log_prob stands {size} {side} than other_log_prob"]


def test_alignment_finds_padding_on_the_other_side():
    generator = torch.Generator().manual_seed(4)
    own = -torch.rand(3, 40, generator=generator)
    other = torch.stack([row.roll(-pad) for row, pad in zip(own, (0, 5, 12), strict=True)])
    assert "0 to 12 tokens later" in str(check_log_prob_alignment(own, other))
    unrelated = check_log_prob_alignment(own, -torch.rand(3, 40, generator=generator))
    assert "another model" in str(unrelated)
