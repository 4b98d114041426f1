"""KL(Gamma ‖ ·), KL(Exponential ‖ ·), KL(InverseGamma ‖ ·)."""

from torch.distributions import Chi2, Exponential, Gamma, Gumbel, InverseGamma, Normal

from tests.pairs.contract import *  # noqa: F403

CASES = [
    Case(Gamma, Gamma),  # noqa: F405
    Case(Gamma, Exponential),  # noqa: F405
    Case(Gamma, Gumbel),  # noqa: F405
    Case(Gamma, Normal),  # noqa: F405
    Case(Chi2, Chi2),  # noqa: F405
    Case(Exponential, Exponential),  # noqa: F405
    Case(Exponential, Gamma),  # noqa: F405
    Case(Exponential, Gumbel),  # noqa: F405
    Case(Exponential, Normal),  # noqa: F405
    Case(InverseGamma, InverseGamma),  # noqa: F405
]


def test_chi2_against_gamma_resolves_to_the_gammas() -> None:
    df = torch.tensor(6.0, dtype=torch.float64)  # noqa: F405
    chi2, gamma = Chi2(df), Gamma(df / 2, torch.tensor(0.5, dtype=torch.float64))  # noqa: F405
    other = Gamma(2 * df, df)
    assert kl_divergence(chi2, gamma).item() == kl_divergence(gamma, chi2).item() == 0.0  # noqa: F405
    assert kl_divergence(chi2, other).item() == kl_divergence(gamma, other).item() > 0  # noqa: F405
