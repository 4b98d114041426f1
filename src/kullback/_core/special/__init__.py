"""Special functions in pure torch: the reference for every device, transform and dtype."""

from kullback._core.special.bessel import bessel_ratio, log_iv, log_ive
from kullback._core.special.binet import binet
from kullback._core.special.binet_bregman import binet_bregman
from kullback._core.special.entropy import kl_div, rel_entr
from kullback._core.special.exp_log import expm1mx, log1mexp, log1pmx, logdiffexp
from kullback._core.special.lgamma_bregman import lgamma_bregman, multivariate_lgamma_bregman
from kullback._core.special.normal import log_ndtr, log_ndtr_diff
from kullback._core.special.polygamma import digamma, trigamma

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
