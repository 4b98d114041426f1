"""Distillation losses per token in float64, written out; the truth of the tests in this folder."""

import math

import torch
from torch import Tensor

CASES = [
    ("forward", {}),
    ("reverse", {}),
    ("js", {}),
    ("gkd", {"beta": 0.3}),
    ("gkd", {"beta": 0.0}),
    ("gkd", {"beta": 1.0}),
    ("scaled_js", {"beta": 0.3}),
    ("scaled_js", {"beta": 0.0}),
    ("scaled_js", {"beta": 1.0}),
    ("skew", {"alpha": 0.1}),
    ("skew_reverse", {"alpha": 0.2}),
    ("tv", {}),
    ("alpha", {"alpha": 0.3}),
    ("alpha", {"alpha": 0.7}),
    ("alpha", {"alpha": 1.0}),
    ("alpha", {"alpha": 0.0}),
    ("alpha", {"alpha": 2.0}),
    ("alpha", {"alpha": -0.5}),
]


def truth(student: Tensor, teacher: Tensor, divergence: str, temperature=1.0, *, beta=None, alpha=None) -> Tensor:
    log_q = (student.double() / temperature).log_softmax(-1)
    log_p = (teacher.double() / temperature).log_softmax(-1)
    p, q = log_p.exp(), log_q.exp()

    def kl(a, b):
        return (a.exp() * (a - b)).sum(-1)

    def mixture(share):
        return torch.logaddexp(log_p + math.log(share), log_q + math.log(1 - share))

    if divergence in ("gkd", "scaled_js") and beta in (0.0, 1.0):
        divergence = "reverse" if beta else "forward"
    if divergence == "alpha" and alpha in (0.0, 1.0):
        divergence = "forward" if alpha else "reverse"
    if divergence in ("js", "gkd", "scaled_js"):
        share = 0.5 if beta is None else beta
        value = share * kl(log_p, mixture(share)) + (1 - share) * kl(log_q, mixture(share))
        return value / (share * (1 - share)) if divergence == "scaled_js" else value
    return {
        "forward": lambda: kl(log_p, log_q),
        "reverse": lambda: kl(log_q, log_p),
        "skew": lambda: kl(log_p, mixture(alpha)),
        "skew_reverse": lambda: kl(log_q, mixture(1 - alpha)),
        "tv": lambda: 0.5 * (p - q).abs().sum(-1),
        "alpha": lambda: ((p**alpha * q ** (1 - alpha)).sum(-1) - 1) / (alpha * (alpha - 1)),
    }[divergence]()
