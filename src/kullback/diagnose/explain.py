"""Both directions of a divergence, how each was computed, and how far each may be off, as plain text."""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Distribution, Independent

from kullback.pairs import registry
from kullback.pairs.dispatch import KLResult, kl_with_error
from kullback.pairs.parameters import gives_logits


def describe(p: Distribution, q: Distribution) -> str:
    """A paragraph per direction: value in nats and bits, method, formula, error.

    Example:
        >>> import torch
        >>> from torch.distributions import Exponential, Normal
        >>> zero, one = torch.tensor([0.0, 1.0], dtype=torch.float64)
        >>> print(describe(Normal(zero, one), Normal(one, 2 * one)))
        p = Normal(loc: 0, scale: 1)
        q = Normal(loc: 1, scale: 2)
        <BLANKLINE>
        KL(p ‖ q) = 0.4431471806 nats = 0.6393262398 bits
          closed form: ½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x
          error: about 3.9e-16
        KL(q ‖ p) = 1.306852819 nats = 1.885390082 bits
          closed form: ½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x
          error: about 1.2e-15
    """
    lines = [f"p = {_written(p)}", f"q = {_written(q)}", ""]
    for label, a, b in (("KL(p ‖ q)", p, q), ("KL(q ‖ p)", q, p)):
        lines += _direction(label, a, b)
    return "\n".join(lines)


def _direction(label: str, p: Distribution, q: Distribution) -> list[str]:
    try:
        result = kl_with_error(p, q)
    except NotImplementedError as error:
        return [f"{label}: {str(error).partition(chr(10))[0]}"]
    if result.method == "infinite":
        return [f"{label} = inf", "  infinite: the first distribution has mass where the second has none"]
    return [f"{label} = {_amount(result.value)}", f"  {_how(p, q, result)}", f"  error: {_error(result)}"]


def _amount(value: Tensor) -> str:
    nats = value.detach().flatten().tolist()
    if len(nats) == 1:
        return f"{_short(nats[0])} nats = {_short(nats[0] / math.log(2))} bits"
    return f"[{', '.join(map(_short, nats))}] nats"


def _how(p: Distribution, q: Distribution, result: KLResult) -> str:
    rule = registry.find(type(p), type(q))
    return f"{result.method}: {rule.source}" if rule is not None else result.method


def _error(result: KLResult) -> str:
    worst = float(result.error.detach().max())
    return f"at most {worst:.2g}" if result.certified else f"about {worst:.2g}"


def _written(d: Distribution) -> str:
    """The distribution with its parameters, numbers short."""
    stored = {k: vars(d).get(k) for k in d.arg_constraints}
    if not any(isinstance(v, Tensor) for v in stored.values()):  # kept on an inner distribution
        stored = {k: getattr(d, k, None) for k in d.arg_constraints if k != ("probs" if gives_logits(d) else "logits")}
    given = [f"{k}: {_values(v)}" for k, v in stored.items() if isinstance(v, Tensor)]
    if isinstance(d, Independent):
        given = [_written(d.base_dist), str(d.reinterpreted_batch_ndims)]
    return f"{type(d).__name__}({', '.join(given)})" if given else repr(d)


def _values(tensor: Tensor) -> str:
    numbers = tensor.detach().tolist()
    return f"[{', '.join(map(str, numbers))}]" if isinstance(numbers, list) else _short(numbers)


def _short(number: float) -> str:
    return f"{number:.10g}"
