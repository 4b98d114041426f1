"""Hand kullback's answers to torch's own `kl_divergence`, and take them back again.

Only these two functions touch torch's registry, and only when they are called.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.distributions import Distribution, kl

from kullback.pairs import registry
from kullback.pairs.dispatch import kl_divergence, kl_method
from kullback.pairs.families import examples

_Key = tuple[type[Distribution], type[Distribution]]
_Formula = Callable[[Distribution, Distribution], Tensor]

# What torch had for each pair that was handed over; None where it had nothing.
_before: dict[_Key, _Formula | None] = {}


def install_into_torch() -> None:
    """Make `torch.distributions.kl_divergence` answer every pair that kullback answers, with kullback's accuracy.

    Fills the gaps of torch's registry and mends its entries; subclasses follow by torch's own resolution. Libraries
    that call torch's function (Pyro, botorch, …) benefit unchanged. Call it again after `register_kl` to hand over
    pairs of your own. `uninstall_from_torch` puts everything back.

    Example:
        >>> import kullback, torch
        >>> from torch.distributions import StudentT
        >>> p, q = StudentT(torch.tensor(3.0)), StudentT(torch.tensor(5.0), 1.0)
        >>> kullback.install_into_torch()
        >>> bool(torch.distributions.kl_divergence(p, q) == kullback.kl(p, q))
        True
        >>> kullback.uninstall_from_torch()
    """
    for key in _answered():
        if key not in _before:
            _before[key] = kl._KL_REGISTRY.get(key)
        kl._KL_REGISTRY[key] = kl_divergence
    kl._KL_MEMOIZE.clear()


def uninstall_from_torch() -> None:
    """Put torch's registry back as `install_into_torch` found it.

    An entry that somebody else has replaced in the meantime stays theirs.
    """
    for key, formula in _before.items():
        if kl._KL_REGISTRY.get(key) is not kl_divergence:
            continue
        if formula is None:
            del kl._KL_REGISTRY[key]
        else:
            kl._KL_REGISTRY[key] = formula
    _before.clear()
    kl._KL_MEMOIZE.clear()


def _answered() -> list[_Key]:
    """The pairs of families that have a route, and the base classes of the structural rules."""
    known = examples().values()
    families = [
        (type(p), type(q))
        for p in known
        for q in known
        if p.event_shape == q.event_shape and kl_method(p, q) is not None
    ]
    # A rule on `Distribution` itself would take over pairs that other libraries register for their own classes.
    own = [(rule.p, rule.q) for rule in registry.rules() if Distribution not in (rule.p, rule.q)]
    return sorted({*families, *own}, key=lambda key: (key[0].__name__, key[1].__name__))
