"""Draws the pictures of docs/forward-and-reverse.md: `python examples/forward_and_reverse.py FOLDER`."""

import sys
from pathlib import Path

import torch
from matplotlib import pyplot
from torch.distributions import Categorical, MixtureSameFamily, Normal

from kullback import Samples, project


def mixture(weights, locs, scales):
    """A mixture of normal distributions in float64."""
    weights, locs, scales = (torch.tensor(each, dtype=torch.float64) for each in (weights, locs, scales))
    return MixtureSameFamily(Categorical(weights), Normal(locs, scales))


def banana(x):
    """A log-density in two dimensions."""
    return -(x[..., 0] ** 2) / 8 - 2 * (x[..., 1] - x[..., 0] ** 2 / 4) ** 2


def draw_banana():
    """The banana with both ellipses."""
    torch.manual_seed(0)
    across = 2 * torch.randn(4000, dtype=torch.float64)
    samples = torch.stack([across, across**2 / 4 + 0.5 * torch.randn(4000, dtype=torch.float64)], dim=-1)
    fits = {
        "forward": (project(Samples(samples), "MultivariateNormal"), "#0072b2"),
        "reverse": (project(banana, "MultivariateNormal", direction="reverse", dim=2), "#d55e00"),
    }
    x, y = torch.linspace(-6, 6, 200).double(), torch.linspace(-3, 6, 200).double()
    grid = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)
    figure, ax = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    ax.contourf(x, y, banana(grid).exp(), levels=12, cmap="Greys")
    for name, (fit, color) in fits.items():
        log_q = fit.distribution.log_prob(grid)
        peak = log_q.max().item()
        ax.contour(x, y, log_q, levels=[peak - 2.0, peak - 0.5], colors=color, linestyles="solid")
        ax.plot([], [], color=color, label=name)
    ax.legend(frameon=False, fontsize=9)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title("MultivariateNormal, one and two standard deviations", loc="left", fontsize=10)
    return figure


def main(folder):
    """Write the three pictures into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    bumps = mixture([0.5, 0.5], [-2.0, 2.0], [0.6, 0.6])
    project(bumps, Normal).plot().savefig(folder / "fit-two-bumps.png", dpi=80)
    skewed = mixture([0.7, 0.3], [0.0, 2.5], [0.7, 2.0])
    project(skewed, Normal).plot().savefig(folder / "fit-skewed.png", dpi=80)
    draw_banana().savefig(folder / "fit-banana.png", dpi=80)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
