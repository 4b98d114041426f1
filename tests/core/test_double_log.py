"""Logarithms to 29 digits, against mpmath."""

import mpmath as mp
import torch

from kullback._core.double_log import log_error


def draws(seed, scale):
    return scale * torch.randn(200, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_logarithms_to_29_digits():
    edges = torch.tensor(
        [1.0, 5e-324, 1e-310, 1.7e308, 0.5, 2**0.5, 2**-0.5, 1 - 2**-53, 1 + 2**-52, 90.5 / 128], dtype=torch.float64
    )
    x = torch.cat([draws(0, 1.0).abs(), draws(1, 200.0).exp(), 1 + draws(2, 1e-6), edges])
    log_x = torch.log(x)
    low = log_error(x, log_x)
    with mp.workdps(60):
        errors = [
            abs(mp.mpf(a) + mp.mpf(b) - mp.log(mp.mpf(v)))
            for v, a, b in zip(x.tolist(), log_x.tolist(), low.tolist(), strict=True)
        ]
    assert max(errors) < 4e-29


def test_rubbish_does_not_crash():
    x = torch.tensor([0.0, -1.0, float("nan"), float("inf")], dtype=torch.float64)
    assert log_error(x, torch.zeros_like(x)).shape == x.shape
