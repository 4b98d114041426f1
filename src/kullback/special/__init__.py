"""Special functions that stay accurate where the textbook formula cancels.

Each works elementwise on float64, float32, bfloat16 and float16 tensors (the narrow ones computed wide and rounded
once), is twice differentiable by formula (a third derivative is not provided and comes out infinite), and works
under `vmap`, `torch.func`, forward mode, double backward and `torch.compile(fullgraph=True)`. Figures in ulp are for
float64; float32 is within 1 ulp of the correctly rounded answer. On a device without float64 the computation is
float32 throughout.
"""

from kullback.special.bessel import bessel_ratio, log_iv, log_ive
from kullback.special.entropy import kl_div, rel_entr
from kullback.special.exp_log import expm1mx, log1mexp, log1pmx, logdiffexp
from kullback.special.gamma import (
    binet,
    binet_bregman,
    digamma,
    lgamma_bregman,
    multivariate_lgamma_bregman,
    trigamma,
)
from kullback.special.normal import log_ndtr, log_ndtr_diff

__all__ = [
    "bessel_ratio",
    "binet",
    "binet_bregman",
    "digamma",
    "expm1mx",
    "kl_div",
    "lgamma_bregman",
    "log1mexp",
    "log1pmx",
    "log_iv",
    "log_ive",
    "log_ndtr",
    "log_ndtr_diff",
    "logdiffexp",
    "multivariate_lgamma_bregman",
    "rel_entr",
    "trigamma",
]
