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


def divergence_truth(terms, p_view, q_view, x, y):
    """A sum of terms of (p, q) and its gradients to both rows, by the chain rule of normalisation.

    Args:
        terms: From two probabilities to the term, its derivative with respect to p and with respect to q.
    """
    a, b = weights(p_view, x), weights(q_view, y)
    sums = mp.fsum(a), mp.fsum(b)
    p, q = [t / sums[0] for t in a], [t / sums[1] for t in b]
    found = [terms(i, j) for i, j in zip(p, q, strict=True)]
    gradients = []
    for side, (probabilities, view) in enumerate(((p, p_view), (q, q_view))):
        slopes = [t[1 + side] for t in found]
        mean = mp.fsum(w * s for w, s in zip(probabilities, slopes, strict=True))
        linear = isinstance(view, (kb.Probs, kb.Counts))
        gradients.append(
            [(s - mean) * (1 / sums[side] if linear else w) for w, s in zip(probabilities, slopes, strict=True)]
        )
    return mp.fsum(t[0] for t in found), *gradients


def mixture_terms(alpha, a, b):
    """Of A KL(p || m) + B KL(q || m), m = αp + (1-α)q."""
    alpha, a, b = mp.mpf(alpha), mp.mpf(a), mp.mpf(b)
    beta = 1 - alpha

    def terms(p, q):
        m = alpha * p + beta * q
        in_p, in_q = p * mp.log(p / m) if p > 0 else mp.mpf(0), q * mp.log(q / m) if q > 0 else mp.mpf(0)
        if m == 0:
            return mp.mpf(0), mp.mpf(0), mp.mpf(0)
        change = (a * p + b * q) / m
        to_p = a * (mp.log(p / m) + 1) - alpha * change if p > 0 else mp.mpf(0)
        to_q = b * (mp.log(q / m) + 1) if b != 0 and q > 0 else mp.mpf(0)
        return a * in_p + b * in_q, to_p, to_q - beta * change

    return terms


def entropy_terms(p, q):
    """Of -Σ p log p."""
    log = mp.log(p) if p > 0 else mp.mpf(0)
    return -p * log, -log, 0 * q


def cross_entropy_terms(p, q):
    """Of -Σ p log q."""
    log = mp.log(q) if q > 0 else mp.mpf(0)
    return -p * log, -log, -p / q if q > 0 else mp.mpf(0)


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
