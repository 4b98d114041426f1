"""The special functions that have a native kernel, each with its pure-torch reference and its first derivatives."""

from __future__ import annotations

from functools import partial

from kullback._core import special as reference
from kullback.kernels.elementwise import Elementwise

expm1mx = Elementwise("expm1mx", reference.expm1mx, arguments="x", gradients=["expm1mx_grad"])
log1pmx = Elementwise("log1pmx", reference.log1pmx, arguments="x", gradients=["log1pmx_grad"])
log1mexp = Elementwise("log1mexp", reference.log1mexp, arguments="x", gradients=["log1mexp_grad"])
logdiffexp = Elementwise(
    "logdiffexp", reference.logdiffexp, arguments="ab", gradients=["logdiffexp_grad_a", "logdiffexp_grad_b"]
)
rel_entr = Elementwise("rel_entr", reference.rel_entr, arguments="pq", gradients=["rel_entr_grad_p", "rel_entr_grad_q"])
kl_div = Elementwise("kl_div", reference.kl_div, arguments="pq", gradients=["kl_div_grad_p", "kl_div_grad_q"])
digamma = Elementwise("digamma", reference.digamma, arguments="x", gradients=["digamma_grad"])
trigamma = Elementwise("trigamma", reference.trigamma, arguments="x", gradients=["trigamma_grad"])
log_ndtr = Elementwise("log_ndtr", reference.log_ndtr, arguments="x", gradients=["log_ndtr_grad"])
lgamma_bregman = Elementwise(
    "lgamma_bregman",
    reference.lgamma_bregman,
    arguments="ab",
    gradients=["lgamma_bregman_grad_a", "lgamma_bregman_grad_b"],
)
log_ndtr_diff = Elementwise(
    "log_ndtr_diff",
    reference.log_ndtr_diff,
    arguments="ab",
    gradients=["log_ndtr_diff_grad_a", "log_ndtr_diff_grad_b"],
)
# The order has no derivative: the public functions refuse it, and here it is infinite rather than plausible.
log_iv = Elementwise(
    "log_iv", reference.log_iv, arguments=("nu", "x"), gradients=["bessel_order_grad", "log_iv_grad"], constants=1
)
log_ive = Elementwise(
    "log_ive", reference.log_ive, arguments=("nu", "x"), gradients=["bessel_order_grad", "log_ive_grad"], constants=1
)
bessel_ratio = Elementwise(
    "bessel_ratio",
    reference.bessel_ratio,
    arguments=("nu", "x"),
    gradients=["bessel_order_grad", "bessel_ratio_grad"],
    constants=1,
)
bessel_ratio_slope = Elementwise(
    "bessel_ratio_slope",
    reference.bessel_ratio_slope,
    arguments=("nu", "x"),
    gradients=["bessel_order_grad", "bessel_ratio_slope_grad"],
    constants=1,
)
bessel_ratio_curvature = Elementwise(
    "bessel_ratio_curvature",
    reference.bessel_ratio_curvature,
    arguments=("nu", "x"),
    gradients=["bessel_order_grad", "bessel_order_grad"],
    constants=1,
)
binet = [
    Elementwise(
        f"binet_{order}",
        partial(reference.binet, order=order),
        arguments="x",
        gradients=[f"binet_{order}_grad"],
        public="binet",
    )
    for order in range(4)
]
binet_bregman = Elementwise(
    "binet_bregman",
    reference.binet_bregman,
    arguments="ab",
    gradients=["binet_bregman_grad_a", "binet_bregman_grad_b"],
)
