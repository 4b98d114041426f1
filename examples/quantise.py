"""Compare a model with its quantisations: how far int8 and int4 weights move the predictions, token by token.

    python examples/quantise.py [PICTURE]

A small recurrent model learns to write sums such as 27+58=85, made here. Its weights are then rounded to 8 and to 4
bits, with one scale for a whole matrix or one for each row. `compare` sets the predictions of each against the
original's: mean and quantiles of KL(original ‖ quantised), the share of tokens with the same best character,
perplexities, and standard errors that allow for neighbouring tokens being alike.
"""

from __future__ import annotations

import copy
import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from kullback import Comparison, Logits, compare

ALPHABET = "0123456789+=;"
LENGTH = 72  # characters of one text


def make_texts(count: int, generator: torch.Generator) -> Tensor:
    """Texts of sums as numbers of characters, (count, LENGTH)."""
    texts = []
    for _ in range(count):
        numbers = torch.randint(100, (16, 2), generator=generator).tolist()
        text = "".join(f"{a}+{b}={a + b};" for a, b in numbers)[:LENGTH]
        texts.append([ALPHABET.index(character) for character in text])
    return torch.tensor(texts)


class Model(nn.Module):
    """Predicts the next character."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, text: Tensor) -> Tensor:
        """Logits of each next character."""
        hidden, _ = self.recurrent(self.embedding(text))
        logits: Tensor = self.head(hidden)
        return logits


def train(steps: int = 250) -> Model:
    """Train on texts that are made as they are needed."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        text = make_texts(32, generator)
        loss = cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def quantise(model: Model, bits: int, *, per_row: bool) -> Model:
    """A copy whose matrices are rounded to `bits` bits, scaled by their largest entry, or by that of each row."""
    rounded = copy.deepcopy(model)
    levels = 2 ** (bits - 1) - 1
    with torch.no_grad():
        for parameter in rounded.parameters():
            if parameter.dim() == 2:
                largest = parameter.abs().amax(dim=1, keepdim=True) if per_row else parameter.abs().max()
                parameter.copy_((parameter * levels / largest).round() * largest / levels)
    return rounded


def measure(model: Model, texts: int = 64) -> tuple[list[str], Comparison]:
    """Compare four quantisations with the model on fresh texts."""
    text = make_texts(texts, torch.Generator().manual_seed(1))
    versions = {
        "int8, scale per row": quantise(model, 8, per_row=True),
        "int8, one scale": quantise(model, 8, per_row=False),
        "int4, scale per row": quantise(model, 4, per_row=True),
        "int4, one scale": quantise(model, 4, per_row=False),
    }
    with torch.no_grad():
        base = Logits(model(text[:, :-1]))
        others = [Logits(version(text[:, :-1])) for version in versions.values()]
    return list(versions), compare(base, others, names=list(ALPHABET), labels=text[:, 1:])


def draw(names: list[str], comparison: Comparison, path: str) -> None:
    """Median, mean and upper quantiles of KL, and the share of tokens with the same best character."""
    import matplotlib.pyplot as plt

    figure, (spread, agreement) = plt.subplots(1, 2, figsize=(10, 3.2), layout="constrained", width_ratios=(3, 2))
    places = range(len(names))
    for place, result in zip(places, comparison.others, strict=True):
        kl = result.measures["kl"]
        spread.plot([kl.quantiles[0.5], kl.quantiles[0.99]], [place, place], color="#999999", linewidth=5, alpha=0.5)
        spread.errorbar(kl.mean, place, xerr=1.96 * kl.block_stderr, fmt="o", color="#0072b2")
        same = result.measures["top1"]
        agreement.barh(place, 1 - same.mean, color="#d55e00", xerr=1.96 * same.block_stderr)
    spread.set(title="KL(original ‖ quantised): mean ± 95 %, median to 99 %", xlabel="nats per token", xscale="log")
    agreement.set(title="tokens with another best character")
    agreement.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    spread.set_yticks(places, names)
    agreement.set_yticks(places, [""] * len(names))
    for ax in (spread, agreement):
        ax.invert_yaxis()
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(picture: str = "quantise.png") -> None:
    """Train, quantise, print the comparison and draw the picture."""
    names, comparison = measure(train())
    for name, result in zip(names, comparison.others, strict=True):
        kl, same = result.measures["kl"], result.measures["top1"]
        print(f"{name:20} KL {kl.mean:.2e} ± {kl.block_stderr:.0e}, same best character {same.mean:.2%}")
    draw(names, comparison, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
