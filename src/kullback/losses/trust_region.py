"""Products with the Fisher matrix by double backward, and the natural-gradient step of TRPO; called by users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, explain_problem
from kullback.api.kl import kl
from kullback.losses.detached import detached


def fisher_vector_product(
    policy: Any, parameters: Sequence[Tensor], vector: Tensor, *, damping: float = 0.0, reference: Any = None
) -> Tensor:
    """F v, the Hessian of KL(reference || policy) at the parameters, times a vector.

    Where the reference is the policy itself without gradient (the default) F is the Fisher matrix.

    Args:
        policy: A Distribution or a view that depends on `parameters`; or a KL that is a number already.
        parameters: What to differentiate by.
        vector: One dimension: as long as all parameters together, in their order.
        damping: Adds damping · v.
        reference: What the policy is compared to; any that `kl` answers.

    Returns:
        A vector like `vector`, without gradient.

    Example:
        >>> import torch
        >>> from kullback import Logits
        >>> theta = torch.zeros(2, requires_grad=True)
        >>> fisher_vector_product(Logits(theta), [theta], torch.tensor([1.0, 0.0]))  # diag(p) − p pᵀ
        tensor([ 0.2500, -0.2500])
    """
    return _fisher(policy, parameters, damping, reference)(vector)


class NaturalStep(NamedTuple):
    """A step that is as long as the trust region allows.

    Attributes:
        step: Add it to the flattened parameters to increase the objective.
        direction: F⁻¹ g, of conjugate gradients.
        quadratic_kl: ½ stepᵀ F step: the KL that the step leads to, to second order.
        residual: |F direction − g| / |g|.
    """

    step: Tensor
    direction: Tensor
    quadratic_kl: Tensor
    residual: Tensor

    def split_like(self, parameters: Sequence[Tensor]) -> list[Tensor]:
        """The step in the shapes of the parameters."""
        parts = torch.split(self.step, [p.numel() for p in parameters])
        return [part.reshape(p.shape) for part, p in zip(parts, parameters, strict=True)]


def natural_step(
    policy: Any,
    parameters: Sequence[Tensor],
    gradient: Tensor,
    *,
    max_kl: float = 0.01,
    iterations: int = 10,
    damping: float = 0.0,
    tolerance: float = 1e-10,
    reference: Any = None,
) -> NaturalStep:
    """The step √(2 max_kl / gᵀF⁻¹g) F⁻¹ g of TRPO (Schulman et al. 2015, arXiv 1502.05477).

    Args:
        policy: As for `fisher_vector_product`.
        parameters: Likewise.
        gradient: Of the objective to increase, flattened in the order of the parameters.
        max_kl: The KL that the step may lead to.
        iterations: Most iterations of conjugate gradients.
        damping: Added to the diagonal of F.
        tolerance: Stop at this |residual|² relative to |g|².
        reference: As for `fisher_vector_product`.

    Example:
        >>> import torch
        >>> from torch.distributions import Normal
        >>> loc = torch.tensor([0.0], requires_grad=True)
        >>> natural_step(Normal(loc, 2.0), [loc], torch.tensor([3.0]), max_kl=0.5).step  # KL = step² / 8
        tensor([2.])
    """
    if not max_kl > 0:
        raise InputValueError(explain_problem("max_kl is a KL > 0.", got=f"max_kl={max_kl!r}", expected="> 0"))
    product = _fisher(policy, parameters, damping, reference)
    gradient = gradient.detach()
    direction, remaining = torch.zeros_like(gradient), gradient.clone()
    search, square = remaining.clone(), remaining @ remaining
    size = square.clone()
    for _ in range(iterations):
        if bool(square <= tolerance * size):
            break
        image = product(search)
        curvature = search @ image
        if not bool(curvature > 0):  # a direction that does not change the policy at all
            break
        length = square / curvature
        direction = direction + length * search
        remaining = remaining - length * image
        previous, square = square, remaining @ remaining
        search = remaining + square / previous * search
    curvature = direction @ product(direction)
    scale = torch.where(curvature > 0, (2 * max_kl / curvature.clamp_min(torch.finfo(size.dtype).tiny)).sqrt(), 0.0)
    residual = torch.where(size > 0, (square / size.clamp_min(torch.finfo(size.dtype).tiny)).sqrt(), 0.0)
    return NaturalStep(scale * direction, direction, scale**2 * curvature / 2, residual)


def _fisher(policy: Any, parameters: Sequence[Tensor], damping: float, reference: Any) -> Callable[[Tensor], Tensor]:
    if isinstance(policy, Tensor):
        value = policy.mean()
    else:
        value = kl(detached(policy) if reference is None else detached(reference), policy).mean()
    if not value.requires_grad:
        raise InputTypeError(
            explain_problem(
                "The policy does not depend on the parameters.",
                got="a KL without gradient",
                expected="a policy computed from the parameters, with gradients enabled",
            )
        )
    first = torch.autograd.grad(value, list(parameters), create_graph=True, allow_unused=True, materialize_grads=True)
    flat = torch.cat([g.reshape(-1) for g in first])

    def product(vector: Tensor) -> Tensor:
        if vector.shape != flat.shape:
            raise InputValueError(
                explain_problem(
                    "The vector is as long as all parameters together.",
                    got=f"a vector of shape {tuple(vector.shape)}",
                    expected=f"shape {tuple(flat.shape)}",
                    instead="torch.cat([g.reshape(-1) for g in gradients])",
                )
            )
        second = torch.autograd.grad(
            flat @ vector.detach(), list(parameters), retain_graph=True, allow_unused=True, materialize_grads=True
        )
        return torch.cat([g.reshape(-1) for g in second]) + damping * vector

    return product
