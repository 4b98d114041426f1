"""KL(InverseGamma ‖ q): 1/x is a Gamma. Called by `pairs.dispatch`."""

from __future__ import annotations

from torch import Tensor
from torch import distributions as d
from torch.distributions import InverseGamma

from kullback.pairs.closed.gamma import gamma_op, log_gamma_moments
from kullback.pairs.moments import LogMoments, register_moments
from kullback.pairs.parameters import read
from kullback.pairs.registry import register


@register(InverseGamma, InverseGamma, source="that of the Gammas: x → 1/x is a bijection", finished=True)
def kl_inverse_gamma_inverse_gamma(p: InverseGamma, q: InverseGamma) -> Tensor:
    """The Gammas of the reciprocals."""
    return gamma_op(p.concentration, p.rate, q.concentration, q.rate)


def inverse_gamma_moments(p: InverseGamma) -> LogMoments:
    """Those of the Gamma with −c for c; infinite for c ≥ a."""
    a, rate = read(p, "concentration", "rate")
    of_gamma = log_gamma_moments(a, rate)

    def jensen(c: Tensor) -> tuple[Tensor, Tensor | None]:
        return of_gamma.jensen(-c)

    return of_gamma._replace(mean=-of_gamma.mean, jensen=jensen)


register_moments(
    InverseGamma,
    inverse_gamma_moments,
    "E xᶜ = rateᶜ·Γ(a−c)/Γ(a), κ = a",
    [d.Exponential, d.Gamma, d.HalfNormal, d.Normal, d.Weibull],
)
