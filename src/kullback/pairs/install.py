"""Hand kullback's answers to torch's own `kl_divergence`, and take them back again; users call both functions.

Only these two functions touch torch's registry, and only when they are called.
"""

from __future__ import annotations

from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution, kl

from kullback.pairs import registry
from kullback.pairs.dispatch import kl_divergence, kl_method
from kullback.pairs.registry import STRUCTURES, Handover, Key, is_third_party
from kullback.pairs.table import examples

# Structures that are answered together with every univariate family.
_STRUCTURES: tuple[type[Distribution], ...] = (MixtureSameFamily, TransformedDistribution)


def install_into_torch() -> None:
    """Make `torch.distributions.kl_divergence` answer every pair that kullback answers, with kullback's accuracy.

    Fills the gaps of torch's registry and replaces torch's own formulas; subclasses follow by torch's own resolution.
    Formulas that you or other libraries (Pyro, GPyTorch, …) registered with torch keep their pairs, also inside
    Independent and TransformedDistribution. Call it again after `register_kl` to hand over pairs of your own.
    `uninstall_from_torch` puts everything back.

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
        known = kl._KL_REGISTRY.get(key)
        theirs = is_third_party(known) and not any(side in STRUCTURES for side in key)
        if not isinstance(known, Handover) and not theirs:
            kl._KL_REGISTRY[key] = Handover(kl_divergence, known)  # type: ignore[assignment]
    kl._KL_MEMOIZE.clear()


def uninstall_from_torch() -> None:
    """Put torch's registry back as `install_into_torch` found it.

    An entry that somebody else has replaced in the meantime stays theirs.
    """
    for key, formula in list(kl._KL_REGISTRY.items()):
        if not isinstance(formula, Handover):
            continue
        if formula.before is None:
            del kl._KL_REGISTRY[key]
        else:
            kl._KL_REGISTRY[key] = formula.before
    kl._KL_MEMOIZE.clear()


def _answered() -> list[Key]:
    """The pairs of families that have a route, mixtures and maps with each of them, the classes of structural rules."""
    known = examples().values()
    families = [
        (type(p), type(q))
        for p in known
        for q in known
        if p.event_shape == q.event_shape and kl_method(p, q) is not None
    ]
    univariate = [*_STRUCTURES, *(type(p) for p in known if not p.event_shape)]
    structures = [pair for s in _STRUCTURES for other in univariate for pair in ((s, other), (other, s))]
    # Over no dimensions it is what it holds; a Gaussian over vectors meets independent distributions of any family.
    every = [*_STRUCTURES, *map(type, known)]
    structures += [pair for other in every for pair in ((Independent, other), (other, Independent))]
    # A rule on `Distribution` itself would take over pairs that other libraries register for their own classes.
    own = [(rule.p, rule.q) for rule in registry.rules() if Distribution not in (rule.p, rule.q)]
    return sorted({*families, *structures, *own}, key=lambda key: (key[0].__name__, key[1].__name__))
