"""The KL between a policy and its reference from sampled tokens, with the gradient of that KL; called by users.

With tokens a ~ b (the behaviour that sampled them; b = π on-policy), ℓ = log π(a) − log ref(a), r = e^−ℓ and the
importance weight ρ = π(a) / b(a), sg(·) without gradient, the values per token are

    k1 = ρ ℓ        k2 = sg(ρ) ℓ² / 2        k3 = ρ (r − 1 + ℓ)

On-policy ρ is 1, but its gradient ∇log π is not 0: without it the gradient of k1 is noise around 0 and that of k3 is
∇KL(ref ‖ π). With it E_b[∇k] = ∇KL(π ‖ ref) for all three, on- and off-policy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, overload

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.losses.arguments import (
    check_choice,
    check_no_nan,
    check_rows_options,
    check_same_shape,
    check_tensor,
    widen,
)
from kullback.losses.tokens import TokenReduction, check_token_reduction, reduce_tokens, token_mean_and_error
from kullback.special import expm1mx

Estimator = Literal["k1", "k2", "k3"]
Use = Literal["loss", "reward", "metric"]
Level = Literal["token", "sequence"]


class PolicyKLReport(NamedTuple):
    """What `policy_kl(..., report=True)` says beside the values; tensors without gradient.

    Attributes:
        mean: Mean per token of the estimate.
        stderr: Its standard error; sequences are independent, tokens of one sequence are not.
        clip_rate: Share of tokens whose e^−ℓ (k3 only) or importance weight is limited by `max_log_ratio`.
        max_log_ratio: The largest |ℓ|.
    """

    mean: Tensor
    stderr: Tensor
    clip_rate: Tensor
    max_log_ratio: Tensor


@overload
def policy_kl(
    log_prob: Tensor,
    ref_log_prob: Tensor,
    *,
    estimator: Estimator = ...,
    use: Use = ...,
    behaviour_log_prob: Tensor | None = ...,
    level: Level = ...,
    max_log_ratio: float = ...,
    mask: Tensor | None = ...,
    weight: Tensor | float | None = ...,
    reduction: TokenReduction = ...,
    denominator: float | None = ...,
    report: Literal[False] = ...,
) -> Tensor: ...
@overload
def policy_kl(
    log_prob: Tensor,
    ref_log_prob: Tensor,
    *,
    estimator: Estimator = ...,
    use: Use = ...,
    behaviour_log_prob: Tensor | None = ...,
    level: Level = ...,
    max_log_ratio: float = ...,
    mask: Tensor | None = ...,
    weight: Tensor | float | None = ...,
    reduction: TokenReduction = ...,
    denominator: float | None = ...,
    report: Literal[True],
) -> tuple[Tensor, PolicyKLReport]: ...
def policy_kl(
    log_prob: Tensor,
    ref_log_prob: Tensor,
    *,
    estimator: Estimator = "k3",
    use: Use = "loss",
    behaviour_log_prob: Tensor | None = None,
    level: Level = "token",
    max_log_ratio: float = 20.0,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: TokenReduction = "none",
    denominator: float | None = None,
    report: bool = False,
) -> Tensor | tuple[Tensor, PolicyKLReport]:
    """KL(policy || reference) from the log-probabilities of sampled tokens, per token.

    | use        | estimator  | returns                                                                          |
    |------------|------------|----------------------------------------------------------------------------------|
    | `"loss"`   | k1, k2, k3 | add it to the loss: its expected gradient is ∇KL(π ‖ ref), on- and off-policy     |
    | `"reward"` | k1         | subtract it from the reward: no gradient; the policy gradient does the rest       |
    | `"reward"` | k2, k3     | refused: with k3 the policy gradient follows ∇KL(π ‖ ref) − ∇KL(ref ‖ π)          |
    | `"metric"` | k1, k2, k3 | for logging: no gradient. k1 and k3 are unbiased, k2 is biased                    |

    As a loss all three have the same expected gradient. k3 has the smallest variance of the unbiased values and is
    never negative on-policy; a single k1 may be negative.

    Args:
        log_prob: log π of the sampled tokens, (..., time), with gradient.
        ref_log_prob: log ref of the same tokens; its gradient is not followed.
        estimator: See the formulas of the module: k1 = ρℓ, k2 = sg(ρ)ℓ²/2, k3 = ρ(e^−ℓ − 1 + ℓ).
        use: What happens with the result, see the table.
        behaviour_log_prob: log b of the tokens under the policy that sampled them, where that is not π (several
            updates per rollout, another engine). None: the tokens are samples of π. With `use="reward"` the
            importance weight is left to the policy gradient.
        level: `"token"`: the gradient treats the visited states as given. `"sequence"`: the KL of whole sequences;
            the weight of token t is the product of all weights up to t, so that a token also answers for the KL
            of the states that it leads to. Time is the last dimension.
        max_log_ratio: Limit of the exponents −ℓ (k3) and log ρ. A value beyond it is limited and counted in the
            report. The gradient is limited in ρ alone: it keeps its direction ℓ ∇log π.
        mask: Boolean per token: True keeps it.
        weight: A number per token.
        reduction: `"none"` per token, or an average of `reduce_tokens`.
        denominator: For `reduction="constant"`.
        report: Return `(result, PolicyKLReport)`.

    Returns:
        float64 where an argument is float64, else float32.

    Example:
        >>> import torch
        >>> log_prob = torch.tensor([[-1.0, -2.0]], requires_grad=True)
        >>> ref_log_prob = torch.tensor([[-1.5, -1.0]])
        >>> loss = policy_kl(log_prob, ref_log_prob, estimator="k3")
        >>> loss.detach()
        tensor([[0.1065, 0.7183]])
        >>> loss.sum().backward()
        >>> log_prob.grad  # ℓ, the score-function gradient of KL(π ‖ ref)
        tensor([[ 0.5000, -1.0000]])
        >>> policy_kl(log_prob, ref_log_prob, estimator="k1", use="metric", reduction="mean")
        tensor(-0.2500)
    """
    check_choice("estimator", estimator, ("k1", "k2", "k3"))
    check_choice("use", use, ("loss", "reward", "metric"))
    check_choice("level", level, ("token", "sequence"))
    check_token_reduction(reduction, denominator)
    _check_use(estimator, use)
    if not 0 < max_log_ratio <= 40:
        raise InputValueError(
            explain_problem(
                "max_log_ratio limits exponents so that products of two exponentials stay finite in float32.",
                got=f"max_log_ratio={max_log_ratio!r}",
                expected="a number above 0 and up to 40",
            )
        )
    tokens = _read(log_prob, ref_log_prob, behaviour_log_prob, mask, weight)
    if use != "loss":
        tokens = tokens.without_gradient()
    values, clipped = _estimate(tokens, estimator, use, level, max_log_ratio)
    result = reduce_tokens(values, mask=mask, weight=weight, reduction=reduction, denominator=denominator)
    if not report:
        return result
    mean, stderr = token_mean_and_error(values.detach(), mask, weight)
    kept = reduce_tokens(clipped.to(values.dtype), mask=mask, reduction="mean")
    largest = (tokens.log_prob - tokens.ref).detach().abs()
    if mask is not None:
        largest = torch.where(mask, largest, 0.0)
    return result, PolicyKLReport(mean, stderr, kept, largest.amax() if largest.numel() else largest.sum())


class _Tokens(NamedTuple):
    """Finite log-probabilities (0 where one is not, or where a token is masked) and the values of the others."""

    log_prob: Tensor
    ref: Tensor
    behaviour: Tensor
    finite: Tensor
    otherwise: Tensor

    def without_gradient(self) -> _Tokens:
        return _Tokens(*(tensor.detach() for tensor in self))


def _read(
    log_prob: Tensor,
    ref_log_prob: Tensor,
    behaviour_log_prob: Tensor | None,
    mask: Tensor | None,
    weight: Tensor | float | None,
) -> _Tokens:
    given = {"log_prob": log_prob, "ref_log_prob": ref_log_prob}
    if behaviour_log_prob is not None:
        given["behaviour_log_prob"] = behaviour_log_prob
    for name, tensor in given.items():
        check_tensor("policy_kl", name, tensor)
    check_same_shape("policy_kl", given)
    check_rows_options(mask, weight, log_prob.shape)
    for name, tensor in given.items():
        check_no_nan("policy_kl", name, tensor, mask)
    if ref_log_prob.requires_grad and not log_prob.requires_grad:
        raise InputValueError(
            explain_problem(
                "Only ref_log_prob has a gradient; this term would not reach the policy.",
                got="log_prob without gradient, ref_log_prob with gradient",
                expected="log_prob of the policy that is trained, first",
                instead="policy_kl(policy_log_prob, reference_log_prob), or ref_log_prob.detach() for a metric",
            )
        )
    policy, reference, *rest = widen(*given.values())
    reference = reference.detach()
    behaviour = rest[0].detach() if rest else policy.detach()
    keep = torch.ones_like(policy, dtype=torch.bool) if mask is None else mask.expand(policy.shape)
    finite = keep & policy.isfinite() & reference.isfinite() & behaviour.isfinite()
    # A token with π = 0 contributes 0; one with ref = 0 < π an infinite KL.
    otherwise = torch.where(keep & (policy.detach() > -torch.inf), torch.inf, 0.0).to(policy.dtype)
    policy, reference, behaviour = (torch.where(finite, tensor, 0.0) for tensor in (policy, reference, behaviour))
    return _Tokens(policy, reference, behaviour, finite, otherwise)


def _estimate(tokens: _Tokens, estimator: Estimator, use: Use, level: Level, limit: float) -> tuple[Tensor, Tensor]:
    """Values per token, and which of them are limited."""
    ell = tokens.log_prob - tokens.ref
    if use == "reward":
        return torch.where(tokens.finite, ell, tokens.otherwise), torch.zeros_like(tokens.finite)
    log_weight = tokens.log_prob - tokens.behaviour
    if level == "sequence" and log_weight.dim():
        log_weight = log_weight.cumsum(-1)
    clipped = tokens.finite & (log_weight.detach() > limit)
    weight = _limited_exp(log_weight, limit)
    if estimator == "k1":
        values = weight * ell
    else:
        # log ρ − ℓ without the policy's own token: as a difference, two gradients of size e^limit would have to cancel.
        others = tokens.ref - tokens.behaviour
        if level == "sequence" and others.dim():
            others = others + torch.nn.functional.pad(log_weight[..., :-1], (1, 0))
        path = _k3_path(ell, weight, _limited_exp(others, limit))
        if estimator == "k3":
            clipped = clipped | (tokens.finite & (-ell.detach() > limit))
            value = weight * expm1mx((-ell).clamp_max(limit))
        else:
            # sg(ρ) ℓ²/2 has the gradient ρ ℓ ∇log π of k3, but not its second derivative or the score of other tokens.
            value = weight * ell * ell * 0.5
        values = value.detach() + (path - path.detach())
    return torch.where(tokens.finite, values, tokens.otherwise), clipped


def _k3_path(ell: Tensor, weight: Tensor, ratio: Tensor) -> Tensor:
    """ρ (e^−ℓ − 1 + ℓ) for its gradient, in which the exponential is not limited.

    `ratio` is e^−ℓ ρ = ref / b, which does not depend on the policy's own token. So the gradient is that of
    ρ(ℓ − 1) + ref/b, which stays finite where e^−ℓ does not. For ℓ near 0 that form cancels and the
    definition itself is used.
    """
    near = ell.detach().abs() < 1
    close = weight * expm1mx(-torch.where(near, ell, 0.0))
    far = weight * (ell - 1) + ratio
    return torch.where(near, close, far)


def _limited_exp(exponent: Tensor, limit: float) -> Tensor:
    """e^min(exponent, limit), with the gradient of an exponential also beyond the limit."""
    excess = (exponent - limit).clamp_min(0.0).detach()
    return (exponent - excess).exp()


def _check_use(estimator: Estimator, use: Use) -> None:
    if use != "reward" or estimator == "k1":
        return
    follows = {
        "k2": "E[ℓ²/2 ∇log π], the gradient of no divergence",
        "k3": "∇KL(π ‖ ref) − ∇KL(ref ‖ π), which is almost 0 near the reference",
    }
    raise InputValueError(
        explain_problem(
            f"{estimator} in the reward does not lead to the gradient of KL(π ‖ ref): the policy gradient would follow "
            f"{follows[estimator]}.",
            got=f'estimator="{estimator}", use="reward"',
            expected='estimator="k1" in the reward; k1, k2 or k3 in the loss or as a metric',
            instead='policy_kl(log_prob, ref_log_prob, estimator="k1", use="reward")',
        )
    )
