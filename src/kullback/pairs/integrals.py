"""The route of two univariate distributions without a closed form: the engine's integral or series; `registry` asks."""

from __future__ import annotations

from torch.distributions import Distribution

from kullback.divergences.kl import integral, is_infinite_everywhere, is_lattice
from kullback.pairs import support
from kullback.pairs.infinite import kl_infinite
from kullback.pairs.registry import Rule, answer_generally


def rule_for(p: Distribution, q: Distribution) -> Rule | None:
    """The rule for two univariate distributions; None for others."""
    of_p, of_q = is_lattice(p), is_lattice(q)
    if of_p is None or of_q is None:
        return None
    if of_p is not of_q:
        source = "a density against a mass function"
        return Rule(type(p), type(q), kl_infinite, "infinite", source, decides_support=True)
    if support.contained(p, q) is False and is_infinite_everywhere(p, q):
        return None
    if of_p:
        return Rule(
            type(p), type(q), integral, "series", "Σ p·(log p − log q) on panels of integers", decides_support=True
        )
    source = "∫ p·(log p − log q) on graded Gauss–Legendre panels"
    return Rule(type(p), type(q), integral, "integral", source, decides_support=True)


answer_generally(rule_for, first=True)
