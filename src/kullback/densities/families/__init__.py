"""The univariate families of torch, one file for each kind of formula; importing this registers them."""

from kullback.densities.families import (  # noqa: F401
    beta,
    continuous_bernoulli,
    gamma,
    gumbel,
    kumaraswamy,
    laplace,
    logistic,
    normal,
    pareto,
    student_t,
    uniform,
    von_mises,
    weibull,
)
