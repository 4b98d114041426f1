"""KL between a policy and its reference over the whole vocabulary (Rao–Blackwellised), per token; called by users."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, ShapeError, explain_problem
from kullback._core.reduction import check_mask
from kullback.api.kl import kl
from kullback.losses.arguments import check_choice, check_rows_options, check_same_shape, check_tensor, widen
from kullback.losses.tokens import TokenReduction, check_token_reduction, reduce_tokens
from kullback.special import log1mexp
from kullback.tensors.views import Logits


def exact_policy_kl(
    logits: Tensor,
    ref_logits: Tensor,
    *,
    log_prob: Tensor | None = None,
    behaviour_log_prob: Tensor | None = None,
    level: Literal["token", "sequence"] = "token",
    max_log_ratio: float = 20.0,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: TokenReduction = "none",
    denominator: float | None = None,
) -> Tensor:
    """KL(π(·|s_t) || ref(·|s_t)) of every state, summed over the vocabulary instead of sampled.

    Its sum over a sampled sequence is an unbiased estimate of the KL of sequences, with a smaller variance than any
    function of the sampled tokens (Amini, Vieira and Cotterell 2025, arXiv 2504.10637).

    `level="token"` differentiates the KL of the visited states alone. `level="sequence"` multiplies KL_t with the
    weight Π_{i<t} π(a_i)/b(a_i) of the tokens that lead to its state, and follows its gradient:

        ∇KL = E Σ_t [∇KL_t + ∇log π(a_t|s_t) Σ_{t'>t} KL_t'],

    the second term being the reward-to-go that token-wise losses leave out (Tang and Munos 2025, arXiv 2506.09477).

    Args:
        logits: Of the policy, (..., time, vocabulary).
        ref_logits: Of the reference, the same shape; its gradient is not followed.
        log_prob: log π of the sampled tokens, (..., time), for `level="sequence"`.
        behaviour_log_prob: log b of the sampled tokens where another policy b sampled them. Only `level="sequence"`
            weighs: at the level of tokens the visited states are taken as given.
        level: See above.
        max_log_ratio: Limit of the logarithm of the weight, as in `policy_kl`.
        mask: Boolean per token: True keeps it.
        weight: A number per token.
        reduction: `"none"` per token, or an average of `reduce_tokens`.
        denominator: For `reduction="constant"`.

    Example:
        >>> import torch
        >>> logits, ref_logits = torch.tensor([[[0.5, -0.3, 0.1]]]), torch.tensor([[[0.2, 0.5, 0.3]]]).log()
        >>> exact_policy_kl(logits, ref_logits)
        tensor([[0.2396]])
    """
    check_tensor("exact_policy_kl", "logits", logits)
    check_tensor("exact_policy_kl", "ref_logits", ref_logits)
    check_same_shape("exact_policy_kl", {"logits": logits, "ref_logits": ref_logits})
    check_token_reduction(reduction, denominator)
    check_rows_options(mask, weight, logits.shape[:-1])
    rows = kl(Logits(logits), Logits(ref_logits.detach()), mask=mask)
    check_choice("level", level, ("token", "sequence"))
    if level == "sequence":
        rows = rows * _prefix_weight(rows, log_prob, behaviour_log_prob, mask, max_log_ratio)
    return reduce_tokens(rows, mask=mask, weight=weight, reduction=reduction, denominator=denominator)


def topk_policy_kl(
    log_probs: Tensor,
    ref_log_probs: Tensor,
    *,
    log_prob: Tensor | None = None,
    behaviour_log_prob: Tensor | None = None,
    level: Literal["token", "sequence"] = "token",
    max_log_ratio: float = 20.0,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: TokenReduction = "none",
    denominator: float | None = None,
) -> Tensor:
    """The KL per token from the log-probabilities of k tokens; all others form one class, the tail.

    It is the exact KL of the distributions over k + 1 classes: never negative, and at most the KL over the whole
    vocabulary. Leaving the tail out, or normalising the k tokens, bounds nothing and may be negative.

    Args:
        log_probs: Of the policy, (..., time, k): normalised over the whole vocabulary, so that each row's
            probabilities sum to at most 1.
        ref_log_probs: Of the reference, for the same tokens in the same order.
        log_prob: As for `exact_policy_kl`, and so are the others.
        behaviour_log_prob: As for `exact_policy_kl`.
        level: As for `exact_policy_kl`.
        max_log_ratio: As for `exact_policy_kl`.
        mask: Boolean per token.
        weight: A number per token.
        reduction: As for `exact_policy_kl`.
        denominator: As for `exact_policy_kl`.

    Example:
        >>> import torch
        >>> policy, reference = torch.tensor([[0.6]]).log(), torch.tensor([[0.9]]).log()
        >>> topk_policy_kl(policy, reference)  # 0.6 log 0.6/0.9 + 0.4 log 0.4/0.1
        tensor([0.3112])
    """
    check_tensor("topk_policy_kl", "log_probs", log_probs)
    check_tensor("topk_policy_kl", "ref_log_probs", ref_log_probs)
    check_same_shape("topk_policy_kl", {"log_probs": log_probs, "ref_log_probs": ref_log_probs})
    policy, reference = widen(log_probs, ref_log_probs)
    if mask is not None:
        check_mask(mask, policy.shape[:-1])
        kept = mask.expand(policy.shape[:-1]).unsqueeze(-1)
        policy, reference = (torch.where(kept, x, -math.log(policy.shape[-1] + 1)) for x in (policy, reference))
    return exact_policy_kl(
        _with_tail(policy),
        _with_tail(reference.detach()),
        log_prob=log_prob,
        behaviour_log_prob=behaviour_log_prob,
        level=level,
        max_log_ratio=max_log_ratio,
        mask=mask,
        weight=weight,
        reduction=reduction,
        denominator=denominator,
    )


def _with_tail(log_probs: Tensor) -> Tensor:
    """The k log-probabilities and the logarithm of what is left; k tokens that hold everything leave no tail."""
    log_sum = torch.logsumexp(log_probs, -1, keepdim=True)
    # A rounding above 0, or exactly 0, is a tail that is too small to be seen in this dtype.
    smallest = torch.finfo(log_probs.dtype).eps / 4
    tail = log1mexp(log_sum.clamp_max(-smallest))
    return torch.cat([log_probs, tail], -1)


def _prefix_weight(
    rows: Tensor, log_prob: Tensor | None, behaviour_log_prob: Tensor | None, mask: Tensor | None, limit: float
) -> Tensor:
    """Π π/b of the tokens before each state; 1 on-policy, where its gradient is what matters."""
    if log_prob is None:
        raise InputTypeError(
            explain_problem(
                'level="sequence" needs the sampled tokens: they decide which states come next.',
                got="log_prob=None",
                expected="log π of the sampled tokens, with gradient",
                instead="log_prob=logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)",
            )
        )
    check_tensor("exact_policy_kl", "log_prob", log_prob)
    behaviour = log_prob.detach() if behaviour_log_prob is None else behaviour_log_prob.detach()
    if log_prob.shape != rows.shape or behaviour.shape != rows.shape:
        raise ShapeError(
            explain_problem(
                "log_prob has one value per state.",
                got=f"log_prob of shape {tuple(log_prob.shape)}, states of shape {tuple(rows.shape)}",
                expected=f"the shape {tuple(rows.shape)} for log_prob and behaviour_log_prob",
            )
        )
    own = log_prob.to(rows.dtype) - behaviour.to(rows.dtype)
    if mask is not None:
        own = torch.where(mask, own, 0.0)
    before = own.cumsum(-1) - own
    excess = (before - limit).clamp_min(0.0).detach()
    return (before - excess).exp()
