"""The univariate families of torch, one file for each kind of formula; importing this registers them."""

from kullback.densities.families import (  # noqa: F401
    beta,
    exponential_tails,
    gamma,
    interval,
    normal,
    pareto,
    student_t,
)
