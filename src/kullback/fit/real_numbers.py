"""Constrained parameters as real numbers and back, by the kind of the parameter. Called by `families.py`."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_LOG_LIMIT = 300.0  # exp stays finite, and so do products of two of them


def to_real(value: Tensor, kind: str) -> Tensor:
    """A parameter as unconstrained numbers, batch first."""
    if kind in ("positive", "positive_vector", "above", "after_low"):
        return value.log().clamp(-_LOG_LIMIT, _LOG_LIMIT)
    if kind == "unit":
        return torch.logit(value, eps=1e-12)
    if kind == "simplex":
        logs = value.clamp(min=1e-12).log()
        return logs[..., :-1] - logs[..., -1:]
    if kind == "cholesky":
        rows, columns = torch.tril_indices(value.shape[-1], value.shape[-1], device=value.device)
        flat = value[..., rows, columns]
        return torch.where(rows == columns, flat.clamp(min=1e-300).log(), flat)
    return value


def from_real(value: Tensor, kind: str, shape: Sequence[int]) -> Tensor:
    """The parameter, from what `to_real` gives."""
    if kind in ("positive", "positive_vector", "above", "after_low"):
        return value.exp()
    if kind == "unit":
        return torch.sigmoid(value)
    if kind == "simplex":
        return torch.cat([value, torch.zeros_like(value[..., :1])], dim=-1).softmax(-1)
    if kind == "cholesky":
        size = shape[-1]
        rows, columns = torch.tril_indices(size, size, device=value.device)
        flat = torch.where(rows == columns, torch.where(rows == columns, value, 0.0).exp(), value)
        matrix = value.new_zeros(*value.shape[:-1], size * size)
        return matrix.index_copy(-1, rows * size + columns, flat).reshape(*value.shape[:-1], size, size)
    return value


def real_shape(shape: tuple[int, ...], kind: str) -> tuple[int, ...]:
    """The shape of what `to_real` gives."""
    if kind == "simplex":
        return (*shape[:-1], shape[-1] - 1)
    if kind == "cholesky":
        return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)
    return shape
