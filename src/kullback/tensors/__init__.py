"""Divergences of tensors: views that say what the numbers are, and one file per divergence."""

from kullback.tensors.views import Counts, Logits, LogProbs, Probs, Samples, View

__all__ = ["Counts", "LogProbs", "Logits", "Probs", "Samples", "View"]
