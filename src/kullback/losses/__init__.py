"""Training losses whose gradient is the one the user means: VAE, variational inference, diffusion, policies."""

from kullback.losses.audit import AuditFinding, PolicyAudit, audit_policy_kl
from kullback.losses.controllers import AdaptiveKLController, FixedKLController, TargetKLStopper
from kullback.losses.elbo import elbo, importance_weighted_bound, multi_sample_bound
from kullback.losses.free_bits import free_bits
from kullback.losses.gaussian import gaussian_kl
from kullback.losses.policy import PolicyKLReport, policy_kl
from kullback.losses.policy_exact import exact_policy_kl, topk_policy_kl
from kullback.losses.tokens import reduce_tokens

__all__ = [
    "AdaptiveKLController",
    "AuditFinding",
    "FixedKLController",
    "PolicyAudit",
    "PolicyKLReport",
    "TargetKLStopper",
    "audit_policy_kl",
    "elbo",
    "exact_policy_kl",
    "free_bits",
    "gaussian_kl",
    "importance_weighted_bound",
    "multi_sample_bound",
    "policy_kl",
    "reduce_tokens",
    "topk_policy_kl",
]
