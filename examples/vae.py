"""A small VAE on pictures made here: KL term by `gaussian_kl`, warm-up by a schedule, collapse shown in a picture.

    python examples/vae.py [PICTURE [EPOCHS]]

The data are 14 × 14 pictures of one blob with three hidden factors: two of place, one of size. Eight latent dimensions
are more than they need: some stay active, the others carry no information, and their KL goes to 0.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from kullback.losses import CollapseReport, LinearSchedule, collapse_report, elbo, gaussian_kl

SIDE, LATENTS = 14, 8


class Training(NamedTuple):
    """What a run leaves behind.

    Attributes:
        model: The trained model.
        kl: Mean KL per picture after each epoch, in nats.
        bound: Mean evidence lower bound per picture after each epoch.
        report: KL per dimension, active units and mutual information at the end.
    """

    model: VAE
    kl: list[float]
    bound: list[float]
    report: CollapseReport


class VAE(nn.Module):
    """Encoder and decoder of two layers each; the posterior is a diagonal Gaussian."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIDE * SIDE, 128), nn.ReLU(), nn.Linear(128, 2 * LATENTS))
        self.decoder = nn.Sequential(nn.Linear(LATENTS, 128), nn.ReLU(), nn.Linear(128, SIDE * SIDE))

    def posterior(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z | x)."""
        mean, logvar = self.encoder(x).chunk(2, dim=-1)
        return mean, logvar

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Log-likelihood and KL of each picture."""
        mean, logvar = self.posterior(x)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        # Both terms are summed over their own dimensions and left per picture, so that neither has a hidden weight.
        log_likelihood = -binary_cross_entropy_with_logits(self.decoder(z), x, reduction="none").sum(-1)
        return log_likelihood, gaussian_kl(mean, logvar=logvar, reduction="sample")


def make_pictures(count: int, generator: torch.Generator) -> Tensor:
    """Pictures of one blob each, (count, SIDE²), entries in [0, 1]."""
    place = 3 + (SIDE - 7) * torch.rand(count, 2, 1, generator=generator)
    size = 1 + torch.rand(count, 1, 1, generator=generator)
    axis = torch.arange(SIDE, dtype=torch.float32)
    along = torch.exp(-0.5 * ((axis - place) / size) ** 2)
    return (along[:, 0, :, None] * along[:, 1, None, :]).flatten(1)


def train(epochs: int = 80, *, seed: int = 0) -> Training:
    """Train with a linear warm-up of beta over the first half of the steps."""
    torch.manual_seed(seed)
    pictures = make_pictures(2048, torch.Generator().manual_seed(seed))
    batch_size = 128
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    beta = LinearSchedule(epochs * len(pictures) // batch_size // 2)
    kls, bounds = [], []
    for _ in range(epochs):
        total_kl, total_bound = 0.0, 0.0
        for x in pictures[torch.randperm(len(pictures))].split(batch_size):
            log_likelihood, kl = model(x)
            loss = -elbo(log_likelihood, kl, beta=beta.step())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total_kl += float(kl.detach().sum())
            total_bound += float((log_likelihood - kl).detach().sum())
        kls.append(total_kl / len(pictures))
        bounds.append(total_bound / len(pictures))
    with torch.no_grad():
        mean, logvar = model.posterior(pictures[:512])
    return Training(model, kls, bounds, collapse_report(mean, logvar=logvar))


def draw(training: Training, path: str) -> None:
    """KL curve, KL per dimension with the active units, and samples from the prior."""
    import matplotlib.pyplot as plt

    figure, (curve, bars, samples) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    curve.plot(range(1, len(training.kl) + 1), training.kl, color="#0072b2")
    curve.set(title="KL of the posterior", xlabel="epoch", ylabel="nats per picture", ylim=(0, None))
    kl, active = training.report.kl_per_dimension, training.report.active
    order = kl.argsort(descending=True)
    colors = ["#d55e00" if active[i] else "#999999" for i in order.tolist()]
    bars.bar(range(1, LATENTS + 1), kl[order].tolist(), color=colors)
    bars.set(title=f"{int(active.sum())} of {LATENTS} units active", xlabel="latent dimension", ylabel="nats")
    with torch.no_grad():
        drawn = training.model.decoder(torch.randn(24, LATENTS)).sigmoid().view(4, 6, SIDE, SIDE)
    samples.imshow(drawn.transpose(1, 2).reshape(4 * SIDE, 6 * SIDE).numpy(), cmap="gray")
    samples.set(title="samples from the prior", xticks=[], yticks=[])
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main(picture: str = "vae.png", epochs: str | int = 80) -> None:
    """Train, print the report and draw the picture."""
    training = train(int(epochs))
    print(f"bound per picture: {training.bound[0]:.1f} -> {training.bound[-1]:.1f} nats")
    print(training.report)
    draw(training, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
