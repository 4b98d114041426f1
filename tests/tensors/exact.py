"""KL and its gradients from the definition at 100 digits, with multiplicities so that a vocabulary costs nothing."""

import mpmath as mp
import torch

import kullback as kb

LINEAR = (kb.Probs, kb.Counts)


def weights(numbers, view):
    exact = [mp.mpf(v) for v in numbers.double().tolist()]
    if view in LINEAR:
        return exact
    return [mp.mpf(0) if v == mp.mpf("-inf") else mp.exp(v) for v in exact]


def exact_kl(x, view_p, y, view_q, times=None):
    """KL, ∂KL/∂x, ∂KL/∂y of one row whose entries occur `times` each."""
    with mp.workdps(100):
        times = [1] * x.numel() if times is None else times
        a, b = weights(x, view_p), weights(y, view_q)
        total_a = mp.fsum(n * v for n, v in zip(times, a, strict=True))
        total_b = mp.fsum(n * v for n, v in zip(times, b, strict=True))
        p, q = [v / total_a for v in a], [v / total_b for v in b]
        ratio = [mp.log(s / r) if r > 0 else mp.mpf(0) for r, s in zip(p, q, strict=True)]
        kl = -mp.fsum(n * r * d for n, r, d in zip(times, p, ratio, strict=True))
        to_p = [-r * (d + kl) for r, d in zip(p, ratio, strict=True)]
        to_q = [s - r for r, s in zip(p, q, strict=True)]
        if view_p in LINEAR:
            to_p = [g / v if v else mp.mpf(0) for g, v in zip(to_p, a, strict=True)]
        if view_q in LINEAR:
            to_q = [1 / total_b - (r / v if v else 0) for r, v in zip(p, b, strict=True)]
        return kl, to_p, to_q


def relative_error(got, want):
    """Largest error relative to the largest entry, or to the smallest normal number if that is larger.

    A NaN or an infinity is an infinite error.
    """
    floor = torch.finfo(got.dtype).tiny
    got = [got.item()] if torch.is_tensor(got) and got.dim() == 0 else got.double().tolist()
    want = want if isinstance(want, list) else [want]
    scale = max(floor, *(abs(v) for v in want))
    worst = max(abs(mp.mpf(g) - v) for g, v in zip(got, want, strict=True))
    if not mp.isfinite(worst):
        return float("inf")
    return float(worst / scale)
