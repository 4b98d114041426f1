"""Distil a small classifier: a student with few labels learns from the probabilities of its teacher.

    python examples/distil_classifier.py [PICTURE]

The data are three spirals made here. The teacher has seen 3,000 labelled points. The student has 8 hidden units and
30 labels. It is trained twice: on the labels alone, and on the labels together with the teacher's probabilities at
1,000 points without labels, by `DistillationLoss` with temperature, T² and labels.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from kullback import Logits, kl
from kullback.losses import DistillationLoss

CLASSES = 3


class Result(NamedTuple):
    """What a run leaves behind: the three models, their accuracies, and KL(teacher ‖ student) of both students."""

    models: dict[str, nn.Module]
    accuracy: dict[str, float]
    divergence: dict[str, float]


def make_spirals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points of three spirals with noise, and their classes."""
    labels = torch.arange(count) % CLASSES
    along = torch.rand(count, generator=generator)
    angle = 4.5 * along + 2 * math.pi * labels / CLASSES
    points = (0.1 + along)[:, None] * torch.stack([angle.cos(), angle.sin()], dim=-1)
    return points + 0.04 * torch.randn(count, 2, generator=generator), labels


def make_model(width: int, seed: int) -> nn.Module:
    """A network of two hidden layers."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, CLASSES))


def minimise(model: nn.Module, loss_of: object, steps: int) -> nn.Module:
    """Adam on `loss_of()`."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()  # type: ignore[operator]
        optimizer.step()
    return model.eval()


def train(steps: int = 600) -> Result:
    """Train the teacher and both students; judge them on fresh points."""
    generator = torch.Generator().manual_seed(0)
    points, labels = make_spirals(3000, generator)
    few, few_labels = make_spirals(30, generator)
    unlabelled, _ = make_spirals(1000, generator)
    test, test_labels = make_spirals(3000, generator)

    teacher = make_model(width=64, seed=0)
    minimise(teacher, lambda: cross_entropy(teacher(points), labels), steps)
    alone = make_model(width=8, seed=1)
    minimise(alone, lambda: cross_entropy(alone(few), few_labels), steps)

    distilled = make_model(width=8, seed=1)
    everything = torch.cat([few, unlabelled])
    # -100 marks a point without a label; `mask` keeps it, so that it has the divergence but no cross-entropy.
    known = torch.cat([few_labels, torch.full((len(unlabelled),), -100)])
    with torch.no_grad():
        teacher_logits = teacher(everything)
    criterion = DistillationLoss(temperature=2.0, t_squared=True, label_weight=0.3)
    keep = torch.ones(len(everything), dtype=torch.bool)
    minimise(distilled, lambda: criterion(distilled(everything), teacher_logits, labels=known, mask=keep), steps)

    models = {"teacher": teacher, "student, 30 labels": alone, "student, distilled": distilled}
    with torch.no_grad():
        accuracy = {name: (m(test).argmax(-1) == test_labels).float().mean().item() for name, m in models.items()}
        divergence = {
            name: kl(Logits(teacher(test)), Logits(model(test)), reduction="mean").item()
            for name, model in models.items()
        }
    return Result(models, accuracy, divergence)


def draw(result: Result, path: str) -> None:
    """The probabilities of the three models over the plane, as colours."""
    import matplotlib.pyplot as plt

    axis = torch.linspace(-1.3, 1.3, 200)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    points, labels = make_spirals(300, torch.Generator().manual_seed(1))
    colors = torch.tensor([[0.00, 0.45, 0.70], [0.84, 0.37, 0.00], [0.00, 0.62, 0.45]])
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.3), layout="constrained")
    for ax, (name, model) in zip(axes, result.models.items(), strict=True):
        with torch.no_grad():
            shades = 1 - model(grid).softmax(-1) @ (1 - colors)
        ax.imshow(shades.clamp(0, 1).numpy(), origin="lower", extent=(-1.3, 1.3, -1.3, 1.3), alpha=0.6)
        ax.scatter(points[:, 0], points[:, 1], c=colors[labels].numpy(), s=8, edgecolors="white", linewidths=0.3)
        ax.set_title(
            f"{name}\naccuracy {result.accuracy[name]:.1%}, KL from teacher {result.divergence[name]:.3f}", fontsize=10
        )
        ax.set(xticks=[], yticks=[])
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(picture: str = "distil_classifier.png") -> None:
    """Train, print the accuracies and draw the picture."""
    result = train()
    for name, accuracy in result.accuracy.items():
        print(f"{name:20} accuracy {accuracy:.1%}, KL from the teacher {result.divergence[name]:.3f} nats")
    draw(result, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
