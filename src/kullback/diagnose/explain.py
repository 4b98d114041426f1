"""Both directions of a divergence, how each was computed, and how far each may be off, as plain text."""

from __future__ import annotations

import math

from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from kullback.diagnose.infinity import reasons
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
          error: about 4.4e-14
        KL(q ‖ p) = 1.306852819 nats = 1.885390082 bits
          closed form: ½[φ(2s) + (Δμ/σ_q)²], s = log(σ_p/σ_q), φ(x) = eˣ − 1 − x
          error: about 1.3e-13
    """
    lines = [f"p = {_written(p)}", f"q = {_written(q)}", ""]
    for (a, first), (b, second) in ((("p", p), ("q", q)), (("q", q), ("p", p))):
        lines += _direction(a, first, b, second)
    return "\n".join(lines)


def _direction(a: str, p: Distribution, b: str, q: Distribution) -> list[str]:
    """Of the distributions that were called a and b."""
    label = f"KL({a} ‖ {b})"
    try:
        result = kl_with_error(p, q)
    except NotImplementedError as error:
        return [f"{label}: {str(error).partition(chr(10))[0]}"]
    infinite = result.value.isinf()
    why = [f"  infinite: {reason}" for reason in reasons(p, q, infinite, names=(a, b))]
    if bool(infinite.all()) and infinite.numel():
        return [f"{label} = inf", *why]
    return [f"{label} = {_amount(result.value)}", *why, f"  {_how(p, q, result)}", f"  error: {_error(result)}"]


def _amount(value: Tensor) -> str:
    nats = value.detach().flatten().tolist()
    if len(nats) == 1:
        return f"{_short(nats[0])} nats = {_short(nats[0] / math.log(2))} bits"
    return f"[{', '.join(map(_short, nats))}] nats"


def _how(p: Distribution, q: Distribution, result: KLResult) -> str:
    rule = registry.find(type(p), type(q))
    return f"{result.method}: {rule.source}" if rule is not None else result.method


def _error(result: KLResult) -> str:
    worst = max(result.error.detach().flatten().tolist(), default=0.0)
    return f"at most {worst:.2g}" if result.certified else f"about {worst:.2g}"


def _written(d: Distribution) -> str:
    """The distribution with its parameters, numbers short."""
    if isinstance(d, Independent):
        return f"Independent({_written(d.base_dist)}, {d.reinterpreted_batch_ndims})"
    if isinstance(d, MixtureSameFamily):
        return f"MixtureSameFamily({_written(d.mixture_distribution)}, {_written(d.component_distribution)})"
    if type(d) is TransformedDistribution:
        return f"TransformedDistribution({_written(d.base_dist)}, {d.transforms})"
    names = [name for name in d.arg_constraints if name != ("probs" if gives_logits(d) else "logits")]
    stored = {name: vars(d).get(name) for name in names}
    if not any(isinstance(v, Tensor) for v in stored.values()):  # kept on an inner distribution
        stored = {name: getattr(d, name, None) for name in names}
    given = [f"{k}: {_values(v)}" for k, v in stored.items() if isinstance(v, Tensor)]
    return f"{type(d).__name__}({', '.join(given)})" if given else repr(d)


def _values(tensor: Tensor) -> str:
    numbers = tensor.detach().tolist()
    return _listed(numbers)


def _listed(numbers: float | list[float]) -> str:
    return f"[{', '.join(map(_listed, numbers))}]" if isinstance(numbers, list) else _short(numbers)


def _short(number: float) -> str:
    return f"{number:.10g}"
