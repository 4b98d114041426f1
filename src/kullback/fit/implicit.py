"""Derivatives of an optimum with respect to the target, by the implicit function theorem. Called by `project.py`.

At the optimum g(u, target) = 0, so du/dtarget = −H⁻¹ ∂g/∂target, whatever steps led there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kullback.fit.newton import Objective, derivatives


def attach_target(objective: Objective, optimum: Tensor) -> Tensor:
    """The optimum (B, k) with derivatives to every tensor that the objective depends on.

    Args:
        objective: (B, k) → (B,); its values carry the graph of the target.
        optimum: (B, k), where the gradient is zero.
    """
    u = optimum.detach().requires_grad_()
    with torch.enable_grad():
        (gradient,) = torch.autograd.grad(objective(u).sum(), u, create_graph=True)
    _, _, hessian = derivatives(objective, optimum)
    step: Tensor = torch.linalg.solve_ex(hessian, (gradient - gradient.detach())[..., None]).result[..., 0]
    return optimum.detach() - step
