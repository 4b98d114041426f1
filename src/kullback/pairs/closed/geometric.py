"""KL(Geometric ‖ q). The number of failures before the first success; probs = 1 is allowed: all mass at 0.

Called by `pairs.dispatch`.
"""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Geometric

from kullback.kernels.pair_ops import PairOp
from kullback.pairs.outcomes import Chance, kl_per_success
from kullback.pairs.parameters import gives_logits
from kullback.pairs.registry import register


@register(Geometric, Geometric, source="KL(Bernoulli(p) ‖ Bernoulli(q)) / p, by the chain rule", finished=True)
def kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    """1/p trials are expected, each of which contributes the divergence of one trial."""
    logits_p, logits_q = gives_logits(p), gives_logits(q)
    return GEOMETRIC_OPS[logits_p, logits_q](p.logits if logits_p else p.probs, q.logits if logits_q else q.probs)


def _op(logits_p: bool, logits_q: bool) -> PairOp:
    def formula(given_p: Tensor, given_q: Tensor) -> Tensor:
        return kl_per_success(Chance(given_p, logits_p), Chance(given_q, logits_q))

    sides = ["logits" if logits else "probs" for logits in (logits_p, logits_q)]
    return PairOp(f"geometric_{'_'.join(sides)}", formula, arguments=("given_p", "given_q"))


GEOMETRIC_OPS = {(of_p, of_q): _op(of_p, of_q) for of_p in (False, True) for of_q in (False, True)}
