"""Formulas that others registered with `torch.distributions.register_kl`; `registry` asks for them, `install` fills in.

Pyro, GPyTorch and users' own code register their classes with torch. kullback answers such a pair with that formula
(method "torch"). torch's own formulas are never asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution
from torch.distributions import kl as torch_kl

Key = tuple[type[Distribution], type[Distribution]]
TorchFormula = Callable[[Distribution, Distribution], Tensor]

# Classes whose objects are made of other distributions. Only the objects say which pair is inside.
STRUCTURES: tuple[type[Distribution], ...] = (Independent, MixtureSameFamily, TransformedDistribution)


class Handover:
    """kullback's answer as an entry of torch's registry.

    Attributes:
        before: The formula that stood there before, or None.
    """

    def __init__(self, answer: TorchFormula, before: TorchFormula | None) -> None:
        self._answer = answer
        self.before = before

    def __call__(self, p: Distribution, q: Distribution) -> Tensor:
        """The divergence, as kullback computes it."""
        return self._answer(p, q)


def is_third_party(formula: object) -> bool:
    """Whether a formula comes neither from torch nor from here."""
    own = isinstance(formula, Handover) or getattr(formula, "__module__", None) == torch_kl.__name__
    return formula is not None and not own


def third_party_formulas() -> dict[Key, TorchFormula]:
    """What others registered with torch, including what `install_into_torch` stands in front of."""
    entries = {key: f.before if isinstance(f, Handover) else f for key, f in torch_kl._KL_REGISTRY.items()}
    return {key: formula for key, formula in entries.items() if formula is not None and is_third_party(formula)}


def entry(key: tuple[type, type]) -> Any:
    """What torch's registry holds for exactly these two classes now."""
    return torch_kl._KL_REGISTRY.get(key)


def entries() -> list[Any]:
    """All formulas of torch's registry, to notice a change."""
    return list(torch_kl._KL_REGISTRY.values())
