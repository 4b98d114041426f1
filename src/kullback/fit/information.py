"""Standard errors of fitted parameters, from the information of the data. Called by `Projection.standard_errors`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from kullback.fit.families import Coordinates
from kullback.fit.forward import Fitted, negative_log_likelihood
from kullback.fit.log_prob import log_prob
from kullback.fit.newton import derivatives
from kullback.fit.targets import Points

# These sit at the smallest or the largest sample: their error shrinks like 1/n and is not normal.
_AT_THE_EDGE = {"Uniform": ("low", "high"), "Pareto": ("scale",), "GeneralizedPareto": ("loc",)}
_SINGULAR = 1e-12


@dataclass
class Uncertainty:
    """What standard errors are computed from, when they are asked for.

    Attributes:
        fitted: The optimum.
        points: The data.
        dtype: Of the result.
    """

    fitted: Fitted
    points: Points
    dtype: torch.dtype

    @property
    def coordinates(self) -> Coordinates:
        """The family as ℝᵏ."""
        return self.fitted.coordinates

    @cached_property
    def optimum(self) -> Tensor:
        """(B, k)."""
        with torch.no_grad():
            return self.coordinates.pack(self.fitted.parameters).detach()

    def standard_errors(self) -> dict[str, Tensor]:
        """One tensor per free parameter, in the shapes of the parameters."""
        family = self.coordinates.family
        edge = _AT_THE_EDGE.get(family.name, ())
        if self.coordinates.num_free < self.coordinates.size:
            edge = ("cov_factor",)  # any rotation of its columns is as likely
        covariance = self._covariance()
        u = self.optimum.detach().requires_grad_()
        result = {}
        for name, value in self.coordinates.unpack(u).items():
            if not value.requires_grad:
                if name in edge:
                    result[name] = self._shaped(torch.full_like(value, torch.nan))
                continue
            rows = [torch.autograd.grad(each, u, retain_graph=True)[0] for each in value.reshape(len(value), -1).sum(0)]
            jacobian = torch.stack(rows, dim=1)  # (B, entries, k)
            variance = torch.einsum("bej,bjk,bek->be", jacobian, covariance, jacobian)
            error = variance.sqrt().reshape_as(value)
            result[name] = self._shaped(torch.full_like(error, torch.nan) if name in edge else error)
        return result

    def _shaped(self, value: Tensor) -> Tensor:
        return value.detach().reshape((*self.points.batch_shape, *value.shape[1:])).to(self.dtype)

    def _covariance(self) -> Tensor:
        """Of the coordinates: H⁻¹/n, or H⁻¹ (Σ wᵢ² sᵢsᵢᵀ) H⁻¹ with the scores s where weights are not frequencies."""
        points = self.points
        assert points.size is not None
        x, w = points.x.detach(), points.w.detach().expand(points.x.shape[:2])
        objective = negative_log_likelihood(self.coordinates, x, w)
        _, _, hessian = derivatives(objective, self.optimum)
        values = torch.linalg.eigvalsh(hessian.nan_to_num())
        flat = (
            ~(values[:, :1] > _SINGULAR * values[:, -1:].abs())[..., None] if values.shape[1] else values[..., None] > 0
        )
        if points.robust or bool(flat.any()):
            scores = self._scores(x)
            # A density with a kink (Laplace) has no curvature there; the squares of the scores have the same mean.
            outer = torch.einsum("nb,nbi,nbj->bij", w, scores, scores)
            hessian = torch.where(flat, outer, hessian)
        rotations = self.coordinates.num_free < self.coordinates.size
        inverse: Tensor = torch.linalg.pinv(hessian, rtol=1e-9) if rotations else torch.linalg.inv_ex(hessian).inverse
        if points.robust:
            middle: Tensor = torch.einsum("nb,nbi,nbj->bij", w.square(), scores, scores)
            return inverse @ middle @ inverse
        return inverse / points.size[:, None, None]

    def _scores(self, x: Tensor) -> Tensor:
        """∂ log q(xᵢ)/∂u of shape (n, B, k): a gradient of a gradient that is linear in weights of the points."""
        u = self.optimum.detach().requires_grad_()
        weight = torch.ones(x.shape[:2], dtype=x.dtype).requires_grad_()
        total = (weight * log_prob(self.coordinates.construct(u), x)).sum()
        (gradient,) = torch.autograd.grad(total, u, create_graph=True)
        columns = [
            torch.autograd.grad(gradient[:, j].sum(), weight, retain_graph=True)[0] for j in range(gradient.shape[1])
        ]
        return torch.stack(columns, dim=-1)
