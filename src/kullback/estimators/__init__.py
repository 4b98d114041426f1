"""Estimates of divergences, each with its uncertainty: from samples, counts, and distributions without a formula."""

from kullback.estimators.auto import estimate_kl
from kullback.estimators.estimate import Estimate
from kullback.estimators.mutual_information import estimate_mutual_information

__all__ = ["Estimate", "estimate_kl", "estimate_mutual_information"]
