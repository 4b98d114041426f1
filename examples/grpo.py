"""A tiny GRPO loop: the KL penalty k3 as a loss, as most trainers have it, beside a penalty with the right gradient.

    python examples/grpo.py [PICTURE]

A policy answers each of 8 prompts with one of 16 tokens. The reference gives one token of each prompt the probability
0.01; that token has reward 1, the others 0. The objective is E[reward] - 0.5 KL(π ‖ ref). Its optimum is known, π ∝
ref · exp(reward / 0.5), and gives the rewarded token 7 %. k3 as a loss has the gradient of KL(ref ‖ π), which hardly
punishes what the reference finds unlikely: the policy answers with the rewarded token about half of the time.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import torch
from torch import Tensor

from kullback import Logits, kl
from kullback.losses import exact_policy_kl, policy_kl

PROMPTS, TOKENS, GROUP, BETA, RARE = 8, 16, 64, 0.5, 0.01


class Run(NamedTuple):
    """One training: the share of the rewarded token and KL(π ‖ ref) at each step, and the policy at the end."""

    rewarded: list[float]
    divergence: list[float]
    policy: Tensor


def make_reference(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Log-probabilities of the reference, (PROMPTS, TOKENS), and the rewarded token of each prompt."""
    rewarded = torch.randint(TOKENS, (PROMPTS,), generator=generator)
    others = torch.randn(PROMPTS, TOKENS, generator=generator).scatter(1, rewarded[:, None], -torch.inf).softmax(-1)
    return ((1 - RARE) * others).scatter(1, rewarded[:, None], RARE).log(), rewarded


def best_policy(reference: Tensor, rewarded: Tensor) -> Tensor:
    """The optimum of E[reward] - BETA · KL(π ‖ ref): π ∝ ref · exp(reward / BETA)."""
    reward = torch.zeros_like(reference).scatter(1, rewarded[:, None], 1.0)
    return (reference + reward / BETA).softmax(-1)


def k3(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """The penalty of most trainers: the value is an estimate of KL(π ‖ ref), the gradient is that of KL(ref ‖ π)."""
    return torch.exp(ref_log_prob - log_prob) - (ref_log_prob - log_prob) - 1


def train(penalty: str, steps: int = 400) -> Run:
    """Train from the reference with one of the penalties "k3 as loss", "policy_kl" and "exact_policy_kl"."""
    generator = torch.Generator().manual_seed(0)
    reference, rewarded = make_reference(generator)
    logits = reference.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=0.03)
    shares, divergences = [], []
    for _ in range(steps):
        log_policy = logits.log_softmax(-1)
        tokens = torch.multinomial(log_policy.detach().exp(), GROUP, replacement=True, generator=generator)
        log_prob, ref_log_prob = log_policy.gather(1, tokens), reference.gather(1, tokens)
        reward = (tokens == rewarded[:, None]).float()
        advantage = reward - reward.mean(dim=1, keepdim=True)  # relative to the group
        ratio = (log_prob - log_prob.detach()).exp()  # 1, with the gradient of the policy
        if penalty == "k3 as loss":
            kl_term = k3(log_prob, ref_log_prob).mean()
        elif penalty == "policy_kl":
            kl_term = policy_kl(log_prob, ref_log_prob, estimator="k3").mean()
        else:
            kl_term = exact_policy_kl(logits[:, None], reference[:, None]).mean()
        loss = -(advantage * ratio).mean() + BETA * kl_term
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            policy = logits.softmax(-1)
            shares.append(policy.gather(1, rewarded[:, None]).mean().item())
            divergences.append(kl(Logits(logits), Logits(reference), reduction="mean").item())
    return Run(shares, divergences, logits.detach().softmax(-1))


def draw(runs: dict[str, Run], path: str) -> None:
    """The share of the rewarded token over the steps, and the policy of the first prompt at the end."""
    import matplotlib.pyplot as plt

    reference, rewarded = make_reference(torch.Generator().manual_seed(0))
    best = best_policy(reference, rewarded)
    colors = {"k3 as loss": "#d55e00", "policy_kl": "#0072b2", "exact_policy_kl": "#009e73"}
    figure, (curve, divergence, bars) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for name, run in runs.items():
        curve.plot(run.rewarded, color=colors[name], label=name)
        divergence.plot(run.divergence, color=colors[name])
    target = best.gather(1, rewarded[:, None]).mean().item()
    best_kl = kl(Logits(best.log()), Logits(reference), reduction="mean").item()
    curve.axhline(target, color="black", linewidth=0.8, linestyle="--", label="optimum")
    divergence.axhline(best_kl, color="black", linewidth=0.8, linestyle="--")
    curve.set(title="probability of the rewarded token", xlabel="step", ylim=(0, 1))
    curve.legend(frameon=False, fontsize=9)
    divergence.set(title="KL(π ‖ ref), nats", xlabel="step", ylim=(0, None))
    places = range(TOKENS)
    for shift, (name, run) in zip((-0.25, 0.0, 0.25), runs.items(), strict=True):
        bars.bar([place + shift for place in places], run.policy[0].tolist(), width=0.25, color=colors[name])
    bars.scatter(places, best[0].tolist(), color="black", s=12, zorder=3, label="optimum")
    bars.set(title="first prompt: the policy at the end", xlabel="token")
    bars.legend(frameon=False, fontsize=9)
    for ax in (curve, divergence, bars):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=80)
    plt.close(figure)


def main(picture: str = "grpo.png") -> None:
    """Train three times from the same start, print where each ends and draw the picture."""
    reference, rewarded = make_reference(torch.Generator().manual_seed(0))
    best = best_policy(reference, rewarded)
    runs = {name: train(name) for name in ("k3 as loss", "policy_kl", "exact_policy_kl")}
    print(f"{'optimum':16} rewarded token {best.gather(1, rewarded[:, None]).mean().item():.1%}")
    for name, run in runs.items():
        print(f"{name:16} rewarded token {run.rewarded[-1]:.1%}, KL(π ‖ ref) {run.divergence[-1]:.3f} nats")
    draw(runs, picture)
    print(f"picture: {picture}")


if __name__ == "__main__":
    main(*sys.argv[1:])
