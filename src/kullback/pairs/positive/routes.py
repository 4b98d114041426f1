"""Which pairs of laws on the half-line are compared through their logarithms.

Left out are families that approach each other in a limit of p's shape without sharing a law (Beta, FisherSnedecor and
Kumaraswamy against Gamma or Weibull): near the limit the terms of the closed form cancel, and the integral does not.
"""

from __future__ import annotations

from typing import TypeVar

from torch import distributions as d
from torch.distributions import Distribution

from kullback.pairs.positive.laws import LAWS
from kullback.pairs.positive.near_exponential import exponential_weibull, gamma_weibull, weibull_exponential
from kullback.pairs.positive.targets import TARGETS
from kullback.pairs.registry import register
from kullback.pairs.roundings import Answer

F = TypeVar("F")

_PAIRS: dict[type[Distribution], list[type[Distribution]]] = {
    d.Beta: [d.HalfNormal, d.InverseGamma, d.LogNormal],
    d.Exponential: [d.HalfNormal, d.LogNormal, d.Weibull],
    d.FisherSnedecor: [d.HalfNormal, d.LogNormal, d.Normal],
    d.Gamma: [d.HalfNormal, d.InverseGamma, d.LogNormal, d.Weibull],
    d.HalfCauchy: [d.LogNormal, d.Weibull],
    d.HalfNormal: [d.Exponential, d.Gamma, d.LogNormal, d.Normal, d.Weibull],
    d.InverseGamma: [d.Exponential, d.Gamma, d.HalfNormal, d.LogNormal, d.Normal, d.Weibull],
    d.Kumaraswamy: [d.HalfNormal, d.InverseGamma, d.LogNormal, d.Normal],
    d.LogNormal: [d.Exponential, d.Gamma, d.HalfNormal, d.InverseGamma, d.Normal, d.Weibull],
    d.Pareto: [d.HalfNormal, d.InverseGamma, d.LogNormal, d.Weibull],
    d.Uniform: [d.InverseGamma, d.LogNormal, d.Weibull],
    d.Weibull: [d.Exponential, d.HalfNormal, d.InverseGamma, d.LogNormal, d.Normal],
}
_NEARLY_EQUAL = {
    (d.Exponential, d.Weibull): exponential_weibull,
    (d.Gamma, d.Weibull): gamma_weibull,
    (d.Weibull, d.Exponential): weibull_exponential,
}


def kl_through_logarithm(p: Distribution, q: Distribution) -> Answer:
    """What is known of log x under p, put into q's formula; see `targets`."""
    family_p, law_of = _known(p, LAWS)
    family_q, target = _known(q, TARGETS)
    law = law_of(p)
    own = _NEARLY_EQUAL.get((family_p, family_q))
    return target(law, q) if own is None else own(p, law, q)


def _known(distribution: Distribution, table: dict[type[Distribution], F]) -> tuple[type[Distribution], F]:
    return next((family, table[family]) for family in type(distribution).__mro__ if family in table)


_FORMULAS = {
    d.Exponential: "φ(log(rate·E x)) + ½φ(log 2A(1)) + R(1) + N + ½log(1+r)",
    d.Gamma: "b·φ(log(rate·E x/b)) + ½φ(log 2bA(1)) + R(b) + N + ½log(1+r)",
    d.HalfNormal: "½φ(log(E x²/σ²)) + ½φ(log A(2)) + R(½) + N + ½log(1+r)",
    d.InverseGamma: "b·φ(log(rate·E x⁻¹/b)) + ½φ(log 2bA(−1)) + R(b) + N + ½log(1+r)",
    d.LogNormal: "J(log x) + KL(Normal of the moments of log x ‖ Normal(μ, σ))",
    d.Normal: "J(x) + KL(Normal of the moments of x ‖ q)",
    d.Weibull: "φ(log E(x/λ)ᵏ) + ½φ(log 2A(k)) + R(1) + N + ½log(1+r)",
}
_MOMENTS = {
    d.Beta: "E xᶜ = B(a+c, b)/B(a, b)",
    d.Exponential: "E xᶜ = Γ(1+c)/rateᶜ",
    d.FisherSnedecor: "E xᶜ = (b/a)ᶜ·Γ(a+c)Γ(b−c)/Γ(a)Γ(b), a = df1/2, b = df2/2",
    d.Gamma: "E xᶜ = Γ(a+c)/(Γ(a)·rateᶜ)",
    d.HalfCauchy: "E xᶜ = γᶜ/cos(πc/2)",
    d.HalfNormal: "E xᶜ = (σ√2)ᶜ·Γ((1+c)/2)/√π",
    d.InverseGamma: "E xᶜ = rateᶜ·Γ(a−c)/Γ(a)",
    d.Kumaraswamy: "E xᶜ = b·B(1+c/a, b)",
    d.LogNormal: "E xᶜ = e^(cμ + c²σ²/2)",
    d.Pareto: "E xᶜ = scaleᶜ·α/(α−c)",
    d.Uniform: "E xᶜ = (highᶜ⁺¹ − lowᶜ⁺¹)/((c+1)(high − low))",
    d.Weibull: "E xᶜ = λᶜ·Γ(1+c/k)",
}
for _p, _targets in _PAIRS.items():
    for _q in _targets:
        register(_p, _q, source=f"{_FORMULAS[_q]}; {_MOMENTS[_p]}")(kl_through_logarithm)
