"""Which objective does a user's own KL term minimise? Found by enumerating small policies exactly; called by users."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, explain_problem
from kullback.losses.arguments import check_choice

LossFn = Callable[..., Tensor]
_VOCABULARY = 4
_POLICIES = 3
_TOLERANCE = 1e-6  # relative; the enumeration is exact in float64, float32 inside the function is allowed for


class AuditFinding(NamedTuple):
    """What the exact expected gradient is.

    Attributes:
        objective: `"reverse KL"` for KL(π ‖ ref), `"forward KL"` for KL(ref ‖ π), `"nothing"`, `"something else"`.
        scale: The expected gradient is this times the gradient of the objective; negative: the KL is maximised.
        relative_error: Distance of the expected gradient from the nearest multiple of ∇KL(π ‖ ref), relative to it.
        reverse: Part of ∇KL(π ‖ ref) in the best fit by both gradients.
        forward: Part of ∇KL(ref ‖ π) in that fit.
        fit_error: What that fit leaves, relative.
    """

    objective: Literal["reverse KL", "forward KL", "nothing", "something else"]
    scale: float
    relative_error: float
    reverse: float
    forward: float
    fit_error: float

    def __str__(self) -> str:
        if self.objective == "nothing":
            return "nothing: the expected gradient is 0"
        if self.objective == "something else":
            if self.fit_error < _TOLERANCE:
                return f"something else: {self.reverse:+.3g} × reverse KL {self.forward:+.3g} × forward KL"
            return f"something else: {100 * self.relative_error:.3g} % away from every multiple of the reverse KL"
        maximised = ", maximised instead of minimised" if self.scale < 0 else ""
        return f"{self.objective} × {abs(self.scale):.4g}{maximised}"


@dataclass(frozen=True)
class PolicyAudit:
    """The findings of `audit_policy_kl`; `str()` is a table.

    Attributes:
        on_policy: Tokens sampled from the policy itself.
        off_policy: Tokens sampled from another policy, which the function is told if it takes a third argument.
        sequence: Sequences of two tokens sampled from the policy, against the KL of sequences.
        value: Expected value of the estimate, on-policy, averaged over the policies.
        true_value: KL(π ‖ ref) of the same.
        smallest_value: The smallest value of a single token; negative values are noise of k1, or an error.
        finite: Whether values and gradients are finite for log-ratios up to 1e4 in float32.
    """

    on_policy: AuditFinding
    off_policy: AuditFinding
    sequence: AuditFinding
    value: float
    true_value: float
    smallest_value: float
    finite: bool

    @property
    def objective(self) -> str:
        """What is minimised on-policy."""
        return self.on_policy.objective

    def __str__(self) -> str:
        bias = self.value - self.true_value
        rows = [
            ("on-policy gradient", str(self.on_policy)),
            ("off-policy gradient", str(self.off_policy)),
            ("two-step sequences", str(self.sequence)),
            ("expected value", f"{self.value:.6f}, KL(π ‖ ref) is {self.true_value:.6f} (bias {bias:+.1e})"),
            ("smallest value", f"{self.smallest_value:.6f}"),
            ("log-ratios up to 1e4", "finite" if self.finite else "NaN or inf in the value or the gradient"),
        ]
        return "\n".join(f"{name:<21} {text}" for name, text in rows)


def audit_policy_kl(loss_fn: LossFn, *, use: Literal["loss", "reward"] = "loss") -> PolicyAudit:
    """Report which objective a KL term minimises, by the exact expectation of its gradient on small policies.

    Args:
        loss_fn: `loss_fn(log_prob, ref_log_prob)` or `loss_fn(log_prob, ref_log_prob, behaviour_log_prob)` of tensors
            of shape (1, time): a value per token, or reduced. It is called once per sequence that is possible.
        use: `"loss"`: the result is added to a loss and differentiated. `"reward"`: it is subtracted from the reward,
            and the gradient is that of the policy gradient, Σ_t (Σ_{t'≥t} value_t') ∇log π(a_t).

    Example:
        >>> import torch
        >>> def grpo(log_prob, ref_log_prob):
        ...     ratio = ref_log_prob - log_prob
        ...     return ratio.exp() - ratio - 1
        >>> audit_policy_kl(grpo).objective
        'forward KL'
    """
    check_choice("use", use, ("loss", "reward"))
    call = _adapt(loss_fn)
    steps = {1: list(_policies(1)), 2: list(_policies(2))}
    findings = {
        (time, off): _finding([_gradients(call, p, use, off) for p in steps[time]])
        for time, off in ((1, False), (1, True), (2, False))
    }
    value, truth, smallest = _values(call, steps[1])
    return PolicyAudit(
        findings[1, False], findings[1, True], findings[2, False], value, truth, smallest, _is_finite(call)
    )


class _Policy(NamedTuple):
    """Logits of a policy, its reference and a behaviour; the second step depends on the first token."""

    logits: list[Tensor]
    reference: list[Tensor]
    behaviour: list[Tensor]


class _Gradients(NamedTuple):
    found: Tensor
    reverse: Tensor
    forward: Tensor


def _policies(time: int) -> Iterator[_Policy]:
    generator = torch.Generator().manual_seed(20)
    shapes = [(_VOCABULARY,) * (step + 1) for step in range(time)]
    for _ in range(_POLICIES):
        draws = [[torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes] for _ in range(3)]
        yield _Policy(*draws)


def _log_probs(tables: list[Tensor]) -> Tensor:
    """log-probabilities per token of every sequence: (V^T, T)."""
    logs = [table.log_softmax(-1) for table in tables]
    if len(logs) == 1:
        return logs[0].unsqueeze(-1)
    first = logs[0].unsqueeze(-1).expand_as(logs[1])
    return torch.stack([first.reshape(-1), logs[1].reshape(-1)], -1)


def _gradients(call: LossFn, policy: _Policy, use: str, off_policy: bool) -> _Gradients:
    leaves = [table.clone().requires_grad_() for table in policy.logits]
    log_prob, reference = _log_probs(leaves), _log_probs(policy.reference)
    behaviour = _log_probs(policy.behaviour) if off_policy else log_prob.detach()
    chance = behaviour.sum(-1).exp()
    expected = log_prob.new_zeros(())
    for i in range(len(chance)):
        rows = log_prob[i : i + 1], reference[i : i + 1], behaviour[i : i + 1]
        values = call(*rows)
        if use == "reward":
            # The policy gradient weighs with π/b and credits every token with what follows it.
            ratio = (rows[0] - rows[2]).cumsum(-1).exp()
            values = (ratio * values.detach()).sum() if values.numel() == log_prob.shape[-1] else ratio[0, -1] * values
        expected = expected + chance[i] * values.sum()
    log_p, log_r = log_prob.sum(-1), reference.sum(-1)
    objectives = (expected, (log_p.exp() * (log_p - log_r)).sum(), (log_r.exp() * (log_r - log_p)).sum())
    found = []
    for objective in objectives:
        grads: tuple[Tensor | None, ...] = (None,) * len(leaves)
        if objective.requires_grad:
            grads = torch.autograd.grad(objective, leaves, retain_graph=True, allow_unused=True)
        found.append(
            torch.cat(
                [
                    torch.zeros(t.numel()).double() if g is None else g.reshape(-1)
                    for g, t in zip(grads, leaves, strict=True)
                ]
            )
        )
    return _Gradients(*found)


def _finding(parts: list[_Gradients]) -> AuditFinding:
    found, reverse, forward = (torch.cat([getattr(part, name) for part in parts]) for name in _Gradients._fields)
    size, unit = float(found.norm()), float(reverse.norm())
    if not size < float("inf"):
        return AuditFinding("something else", float("nan"), float("inf"), *(float("nan"),) * 3)
    if size < _TOLERANCE * unit:
        return AuditFinding("nothing", 0.0, 1.0, 0.0, 0.0, 0.0)
    scales, errors = {}, {}
    for name, target in (("reverse KL", reverse), ("forward KL", forward)):
        scales[name] = float(found @ target / (target @ target))
        errors[name] = float((found - scales[name] * target).norm()) / size
    basis = torch.stack([reverse, forward], -1)
    both = torch.linalg.lstsq(basis, found.unsqueeze(-1)).solution.squeeze(-1)
    fit_error = float((found - basis @ both).norm()) / size
    parts_of_fit = float(both[0]), float(both[1]), fit_error
    if errors["reverse KL"] < _TOLERANCE:
        return AuditFinding("reverse KL", scales["reverse KL"], errors["reverse KL"], *parts_of_fit)
    if errors["forward KL"] < _TOLERANCE:
        return AuditFinding("forward KL", scales["forward KL"], errors["reverse KL"], *parts_of_fit)
    return AuditFinding("something else", scales["reverse KL"], errors["reverse KL"], *parts_of_fit)


def _values(call: LossFn, policies: list[_Policy]) -> tuple[float, float, float]:
    value = truth = 0.0
    smallest = float("inf")
    for policy in policies:
        log_prob, reference = _log_probs(policy.logits), _log_probs(policy.reference)
        for log_p, log_r in zip(log_prob, reference, strict=True):
            found = float(call(log_p[None], log_r[None], log_p[None]).detach().sum())
            value += float(log_p.exp()) * found / len(policies)
            smallest = min(smallest, found)
        truth += float((log_prob.exp() * (log_prob - reference)).sum()) / len(policies)
    return value, truth, smallest


def _is_finite(call: LossFn) -> bool:
    for ratio in (-1e4, -100.0, -20.0, 20.0, 100.0, 1e4):
        log_prob = torch.tensor([[min(ratio, 0.0) - 1]], requires_grad=True)
        reference = torch.tensor([[min(-ratio, 0.0) - 1]])
        value = call(log_prob, reference, log_prob.detach()).sum()
        if not bool(value.isfinite()):
            return False
        if value.requires_grad:
            (grad,) = torch.autograd.grad(value, log_prob, allow_unused=True)
            if grad is not None and not bool(grad.isfinite().all()):
                return False
    return True


def _adapt(loss_fn: LossFn) -> LossFn:
    """The function with three arguments, of which it is given as many as it takes."""
    try:
        parameters = list(inspect.signature(loss_fn).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = "behaviour_log_prob" in names
    third = not by_name and len([p for p in positional if p.default is p.empty]) > 2

    def call(log_prob: Tensor, ref_log_prob: Tensor, behaviour: Tensor) -> Tensor:
        if by_name:
            found = loss_fn(log_prob, ref_log_prob, behaviour_log_prob=behaviour)
        else:
            found = loss_fn(log_prob, ref_log_prob, behaviour) if third else loss_fn(log_prob, ref_log_prob)
        if not isinstance(found, Tensor):
            raise InputTypeError(
                explain_problem(
                    "loss_fn returns a tensor of values per token, or their sum or mean.",
                    got=type(found).__name__,
                    expected="a tensor that depends on log_prob",
                )
            )
        return found

    return call
