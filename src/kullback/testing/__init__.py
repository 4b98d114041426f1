"""The public contract battery: hand it a divergence, get a readable list of what is wrong with it."""

from kullback.testing.convention import torch_kl_div
from kullback.testing.divergence import check_divergence
from kullback.testing.oracle import Divergence
from kullback.testing.pair import check_pair
from kullback.testing.parallel_parity import assert_parallel_parity
from kullback.testing.report import Finding, Report

__all__ = [
    "Divergence",
    "Finding",
    "Report",
    "assert_parallel_parity",
    "check_divergence",
    "check_pair",
    "torch_kl_div",
]
