"""Why a divergence is infinite: a value that q cannot produce, or tails of p that q does not expect."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, VonMises
from torch.distributions.constraints import Constraint

from kullback.pairs.univariate import contained

_DRAWS = 1024
_CONCENTRATED = 1e100


def reasons(p: Distribution, q: Distribution, infinite: Tensor, names: tuple[str, str] = ("p", "q")) -> list[str]:
    """The reasons for those elements of a batch that are infinite, each said once, p and q called by their names.

    Example:
        >>> from torch.distributions import Cauchy, Normal, Uniform
        >>> reasons(Cauchy(0.0, 1.0), Normal(0.0, 1.0), torch.tensor(True))
        ['log p(x) − log q(x) has no finite mean under p: its tails are too heavy for q']
        >>> reasons(Uniform(2.0, 3.0), Uniform(0.0, 1.0), torch.tensor(True))[0][:52]
        'p has mass where q has none, for example at x = 2.49'
    """
    if not bool(infinite.any()):
        return []
    a, b = names
    outside = ~torch.as_tensor(contained(p, q))
    example, impossible = _impossible(p, q, infinite)
    # Tails of counts are never too heavy for other counts, and angles have none.
    tailless = isinstance(p, VonMises) or bool(getattr(_support(p), "is_discrete", False))
    massive = infinite & (outside | impossible | tailless)
    found = []
    kinds = [bool(getattr(_support(d), "is_discrete", False)) for d in (p, q)]
    if kinds[0] != kinds[1]:
        words = {True: "single outcomes", False: "a density"}
        return [f"{a} has {words[kinds[0]]} and {b} {words[kinds[1]]}: neither has mass where the other has it"]
    if bool(massive.any()):
        found.append(f"{a} has mass where {b} has none{example}")
    if bool((infinite & ~massive).any()):
        found.append(f"log {a}(x) − log {b}(x) has no finite mean under {a}: its tails are too heavy for {b}")
    return found


def _impossible(p: Distribution, q: Distribution, infinite: Tensor) -> tuple[str, Tensor]:
    """One of some draws from p that q cannot produce, in words, and the elements in which there is any."""
    constraint = _support(q)
    # torch's sampler of angles does not end where the square of the concentration overflows.
    endless = isinstance(p, VonMises) and bool((p.concentration > _CONCENTRATED).any())
    if constraint is None or endless:
        return "", torch.zeros_like(infinite)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        drawn = p.expand(infinite.shape).sample(torch.Size([_DRAWS]))
    refused = ~constraint.check(drawn).bool() & infinite  # type: ignore[no-untyped-call]
    example = f", for example at x = {_written(drawn[refused][0])}" if bool(refused.any()) else ""
    return example, refused.any(0)


def _support(d: Distribution) -> Constraint | None:
    try:
        return d.support
    except NotImplementedError:  # a class need not say where it lives
        return None


def _written(event: Tensor) -> str:
    return f"{event.item():.4g}" if event.dim() == 0 else f"[{', '.join(map(_written, event))}]"
