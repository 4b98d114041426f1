"""Which pairs are answered, by what, and where the formula comes from."""

from __future__ import annotations

from typing import NamedTuple

from torch.distributions import Distribution

from kullback.pairs import registry
from kullback.pairs.dispatch import kl_method
from kullback.pairs.families import examples
from kullback.pairs.registry import where_defined


class Pair(NamedTuple):
    """One ordered pair of families and how KL(p ‖ q) is computed.

    Attributes:
        p: Class name of p.
        q: Class name of q.
        method: "closed form", "integral", "series", "infinite", "user" or "torch".
        source: The formula or its origin, in a few words.
        function: Full name of the function that computes it, module first; empty if none is needed.
    """

    p: str
    q: str
    method: str
    source: str
    function: str = ""


def coverage() -> list[Pair]:
    """Every ordered pair of families that `kl_divergence` answers, with the source of each formula.

    Pairs registered with `register_kl`, here or with torch, are included under the classes they were registered for.

    Example:
        >>> pairs = {(pair.p, pair.q): pair.method for pair in coverage()}
        >>> pairs["Normal", "Normal"], pairs["Normal", "Exponential"]
        ('closed form', 'infinite')
        >>> [pair.function for pair in coverage() if (pair.p, pair.q) == ("Normal", "Laplace")]
        ['kullback.pairs.closed.normal.kl_normal_laplace']
    """
    known = examples()
    answered = [_describe(p, q) for p in known.values() for q in known.values() if p.event_shape == q.event_shape]
    own = {(type(p), type(q)) for p in known.values() for q in known.values()}
    registered = {(r.p, r.q): r for r in [*registry.torch_rules(), *registry.rules()] if (r.p, r.q) not in own}
    others = [
        Pair(r.p.__name__, r.q.__name__, r.method, r.source, where_defined(r.formula)) for r in registered.values()
    ]
    return sorted([*(pair for pair in answered if pair is not None), *others])


def _describe(p: Distribution, q: Distribution) -> Pair | None:
    method = kl_method(p, q)
    if method is None:
        return None
    rule = registry.find_for(p, q)
    if method == "infinite" or rule is None:
        return Pair(type(p).__name__, type(q).__name__, method, "p's support is not inside q's")
    return Pair(type(p).__name__, type(q).__name__, method, rule.source, where_defined(rule.formula))
