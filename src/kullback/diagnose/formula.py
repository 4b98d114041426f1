"""The formula behind a closed form, integral or series, with p and q named as in the direction that is shown."""

from __future__ import annotations

import re

from torch.distributions import Distribution

from kullback.pairs import registry

# p and q as words of their own or as subscripts, not the p of log1p.
_NAMES = re.compile(r"(?<![A-Za-z0-9])[pq](?![A-Za-z0-9])")


def formula_of(p: Distribution, q: Distribution, *, swapped: bool = False) -> str:
    """The formula of KL of the first to the second; empty if there is none.

    Formulas call the first distribution p. With `swapped`, it is called q here, and the names change places.

    Example:
        >>> from torch.distributions import Normal
        >>> formula_of(Normal(0.0, 1.0), Normal(1.0, 2.0), swapped=True)
        '½[φ(2s) + (Δμ/σ_p)²], s = log(σ_q/σ_p), φ(x) = eˣ − 1 − x'
    """
    rule = registry.find(type(p), type(q))
    if rule is None:
        return ""
    return swap_names(rule.source) if swapped else rule.source


def swap_names(formula: str) -> str:
    """The same formula with p and q exchanged.

    Example:
        >>> swap_names("log1p(γ_pγ_q) + KL(p ‖ q)")
        'log1p(γ_qγ_p) + KL(q ‖ p)'
    """
    return _NAMES.sub(lambda match: "q" if match[0] == "p" else "p", formula)
