"""Divergences and their gradients at 50 digits, from the floats of a row; used by the tests beside it."""

from __future__ import annotations

import mpmath
import torch

import kullback as kb

ROUNDING = 2.0**-24
mp = mpmath.mp.clone() if hasattr(mpmath.mp, "clone") else mpmath.mp
mp.dps = 50


def weights(view, row):
    """The weights of one row as exact numbers."""
    temperature = getattr(view, "temperature", 1)
    if isinstance(view, (kb.Probs, kb.Counts)):
        smoothing = getattr(view, "smoothing", 0.0)
        return [mp.mpf(x) + mp.mpf(smoothing) for x in row.double().tolist()]
    return [mp.exp(mp.mpf(x) / temperature) for x in row.double().tolist()]


def kl_truth(p_view, q_view, x, y):
    """KL(p || q) of two rows and its gradients to both."""
    a, b = weights(p_view, x), weights(q_view, y)
    total_p, total_q = mp.fsum(a), mp.fsum(b)
    p, q = [t / total_p for t in a], [t / total_q for t in b]
    if any(i > 0 and j == 0 for i, j in zip(p, q, strict=True)):
        zeros = [mp.mpf(0)] * len(p)
        return mp.inf, zeros, zeros
    v = [mp.log(j / i) if i > 0 else mp.mpf(0) for i, j in zip(p, q, strict=True)]
    kl = -mp.fsum(i * w for i, w in zip(p, v, strict=True))
    linear_p, linear_q = (isinstance(view, (kb.Probs, kb.Counts)) for view in (p_view, q_view))
    to_p = [-(1 / total_p if linear_p else i) * (w + kl) if i > 0 else mp.mpf(0) for i, w in zip(p, v, strict=True)]
    to_q = [(1 - (i / j if j > 0 else 0)) / total_q if linear_q else j - i for i, j in zip(p, q, strict=True)]
    return kl, to_p, to_q


def relative_error(found: float, truth) -> float:
    """|found - truth| / truth, in float32 roundings; below 1e-40 the two count as equal."""
    if truth == mp.inf:
        return 0.0 if found == float("inf") else float("inf")
    if abs(truth) < mp.mpf("1e-38"):
        return 0.0 if abs(found) < 1e-37 else float("inf")
    return float(abs(mp.mpf(found) - truth) / abs(truth)) / ROUNDING


def row_error(found: torch.Tensor, truth) -> float:
    """The largest error of a gradient, relative to its largest entry."""
    largest = max(abs(t) for t in truth)
    if largest < mp.mpf("1e-36"):
        return float(found.abs().max() > 1e-12)  # a centre of size 1 is held to 48 bits
    return float(max(abs(mp.mpf(f) - t) for f, t in zip(found.double().tolist(), truth, strict=True)) / largest)
