"""Every divergence other than KL by name, with a few parameters each, for tests that hold for all of them."""

import math
from functools import partial

import kullback as kb

DIVERGENCES = {
    "js": kb.js,
    "js_distance": kb.js_distance,
    "jeffreys": kb.jeffreys,
    "total_variation": kb.total_variation,
    "hellinger": kb.hellinger,
    "chi2": kb.chi2,
    **{f"skew_kl {a}": partial(kb.skew_kl, alpha=a) for a in (0.0, 1e-12, 0.1, 0.9)},
    **{f"scaled_js {b}": partial(kb.scaled_js, beta=b) for b in (0.0, 1e-12, 0.3, 1.0)},
    **{f"renyi {a}": partial(kb.renyi, alpha=a) for a in (1e-9, 0.3, 0.5, 1.0, 1 + 1e-9, 2.0, 30.0, math.inf)},
}
# Infinite wherever q excludes a class of p.
UNBOUNDED = {"jeffreys", "chi2", "skew_kl 0.0", "scaled_js 0.0"} | {
    f"renyi {a}" for a in (1.0, 1 + 1e-9, 2.0, 30.0, math.inf)
}
SYMMETRIC = {"js", "js_distance", "jeffreys", "total_variation", "hellinger", "renyi 0.5"}
# f''(1): the curvature at p = q in multiples of the Fisher information.
CURVATURES = {
    "js": 0.25,
    "jeffreys": 2.0,
    "chi2": 2.0,
    "skew_kl 0.0": 1.0,
    "skew_kl 0.1": 0.81,
    "skew_kl 0.9": 0.01,
    **{f"scaled_js {b}": 1.0 for b in (0.0, 1e-12, 0.3, 1.0)},
    **{f"renyi {a}": a for a in (1e-9, 0.3, 0.5, 1.0, 1 + 1e-9, 2.0, 30.0)},
}
