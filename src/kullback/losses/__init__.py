"""Training losses whose gradient is the one the user means: VAE, variational inference, policies, distillation."""

from kullback.losses.alignment import AlignmentReport, check_log_prob_alignment
from kullback.losses.audit import AuditFinding, PolicyAudit, audit_policy_kl
from kullback.losses.balance import kl_balance
from kullback.losses.collapse import CollapseReport, active_units, collapse_report
from kullback.losses.controllers import AdaptiveKLController, FixedKLController, TargetKLStopper
from kullback.losses.diffusion import diffusion_kl, diffusion_prior_kl
from kullback.losses.distillation_loss import DistillationLoss
from kullback.losses.elbo import elbo, importance_weighted_bound, multi_sample_bound
from kullback.losses.free_bits import free_bits
from kullback.losses.gaussian import gaussian_kl
from kullback.losses.hidden_distillation import LinearDistillation, linear_distillation
from kullback.losses.logit_distillation import distillation
from kullback.losses.path_gradient import path_kl, path_log_prob
from kullback.losses.policy import PolicyKLReport, policy_kl
from kullback.losses.policy_exact import exact_policy_kl, topk_policy_kl
from kullback.losses.schedule import (
    CapacitySchedule,
    ConstantSchedule,
    CosineSchedule,
    CyclicalSchedule,
    LinearSchedule,
    Schedule,
)
from kullback.losses.sparse_distillation import (
    KLBounds,
    SparseTeacher,
    sample_teacher,
    topk_distillation,
    topk_kl_bounds,
    topk_teacher,
)
from kullback.losses.teacher_file import TeacherInfo, TeacherReader, TeacherWriter
from kullback.losses.tokens import reduce_tokens
from kullback.losses.trust_region import NaturalStep, fisher_vector_product, natural_step

__all__ = [
    "AdaptiveKLController",
    "AlignmentReport",
    "AuditFinding",
    "CapacitySchedule",
    "CollapseReport",
    "ConstantSchedule",
    "CosineSchedule",
    "CyclicalSchedule",
    "DistillationLoss",
    "FixedKLController",
    "KLBounds",
    "LinearDistillation",
    "LinearSchedule",
    "NaturalStep",
    "PolicyAudit",
    "PolicyKLReport",
    "Schedule",
    "SparseTeacher",
    "TargetKLStopper",
    "TeacherInfo",
    "TeacherReader",
    "TeacherWriter",
    "active_units",
    "audit_policy_kl",
    "check_log_prob_alignment",
    "collapse_report",
    "diffusion_kl",
    "diffusion_prior_kl",
    "distillation",
    "elbo",
    "exact_policy_kl",
    "fisher_vector_product",
    "free_bits",
    "gaussian_kl",
    "importance_weighted_bound",
    "kl_balance",
    "linear_distillation",
    "multi_sample_bound",
    "natural_step",
    "path_kl",
    "path_log_prob",
    "policy_kl",
    "reduce_tokens",
    "sample_teacher",
    "topk_distillation",
    "topk_kl_bounds",
    "topk_policy_kl",
    "topk_teacher",
]
