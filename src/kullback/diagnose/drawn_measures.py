"""Jensen-Shannon and total variation from draws, for pairs that no formula answers; `of_distributions.py` calls it.

Both are means of bounded functions of the log-ratio r = log p(x)/q(x), so that draws give them with a small error.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import softplus

from kullback.diagnose.vectors import draw

_DRAWS = 10_000


def notes_from_draws(p: Distribution, q: Distribution, wanted: list[str], base: float | None, unit: str) -> list[str]:
    """A sentence for each wanted measure of two single distributions; none where they cannot be drawn from."""
    if not wanted or p.batch_shape.numel() * q.batch_shape.numel() != 1:
        return []
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            under_p, under_q = (_log_ratio(p, q, draw(d, _DRAWS)) for d in (p, q))
    except (NotImplementedError, ValueError, RuntimeError):  # a class that cannot be sampled, or not evaluated there
        return []
    if bool(under_p.isnan().any() | under_q.isnan().any()):
        return []
    halves = {
        "Jensen-Shannon": (math.log(2) - softplus(-under_p), math.log(2) - softplus(under_q)),
        "total variation": (-torch.expm1(-under_p.clamp_min(0)), -torch.expm1(under_q.clamp_max(0))),
    }
    found = []
    for name in wanted:
        one, other = halves[name]
        value = float(one.mean() + other.mean()) / 2
        error = math.sqrt(float(one.var() + other.var()) / _DRAWS) / 2
        scale = math.log(base) if base and name == "Jensen-Shannon" else 1.0
        words = f" {unit}" if name == "Jensen-Shannon" else ""
        found.append(f"{name} ≈ {value / scale:.4g} ± {error / scale:.1g}{words}, from {_DRAWS:,} draws of p and of q")
    return found


def _log_ratio(p: Distribution, q: Distribution, x: Tensor) -> Tensor:
    return (p.log_prob(x) - q.log_prob(x)).detach().double().reshape(-1)
