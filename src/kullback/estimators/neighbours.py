"""Distances to neighbours and counts of them, for `nearest_neighbours.py` and `mutual_information.py`.

One dimension sorts. Up to `_MAX_TREE_DIMENSION` SciPy's KD-tree is used where it is installed (extra `knn`). Above, and
without SciPy, distances come from chunked matrix products: memory is bounded, time is n·m·d.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

_MAX_TREE_DIMENSION = 7
_MAX_CHUNK_ELEMENTS = 1 << 23
# Distances computed twice, by a query and by a count, differ by roundings; what is closer to the radius lies on it.
_INSIDE = 1 - 1e-9
# ‖a‖² + ‖b‖² − 2a·b of equal points is not 0 but a few roundings of its terms.
_SAME_POINT = 64 * torch.finfo(torch.float64).eps


class Balls(NamedTuple):
    """Around each x_i the smallest ball that holds the k nearest of the other x and the k nearest of y.

    Attributes:
        radius: (n,).
        own: How many other x lie strictly inside; where the radius is 0, how many equal x_i.
        other: The same of y.
    """

    radius: Tensor
    own: Tensor
    other: Tensor


class Search(Protocol):
    """Neighbours among fixed points."""

    def kth(self, queries: Tensor, k: int) -> Tensor:
        """Distance to the k-th nearest point."""

    def count(self, queries: Tensor, radius: Tensor) -> Tensor:
        """How many points are strictly closer than the radius; where it is 0, how many are equal."""


def search(points: Tensor, *, norm: float = 2.0) -> Search:
    """The fastest search for these points; norm is 2 for Euclidean distances, inf for the largest coordinate."""
    if points.shape[1] == 1:
        return _Sorted(points)
    tree = _tree_class() if points.shape[1] <= _MAX_TREE_DIMENSION else None
    if tree is not None:
        return _Tree(points, tree, norm)
    return _Matrix(points) if norm == 2 else _LargestCoordinate(points)


def kth_distances(x: Tensor, y: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Distance of every x_i to the k-th nearest of the other x, and to the k-th nearest y."""
    return search(x).kth(x, k + 1), search(y).kth(x, k)


def joint_balls(x: Tensor, y: Tensor, k: int) -> Balls:
    """The balls around every x_i that hold k points of either side."""
    among_x, among_y = search(x), search(y)
    radius = torch.maximum(among_x.kth(x, min(k + 1, len(x))), among_y.kth(x, min(k, len(y))))
    return Balls(radius, among_x.count(x, radius).double() - 1, among_y.count(x, radius).double())


def _tree_class() -> Any:
    try:
        from scipy.spatial import cKDTree  # type: ignore[import-untyped]
    except ImportError:
        return None
    return cKDTree


class _Sorted:
    def __init__(self, points: Tensor) -> None:
        self._points = points[:, 0].sort().values

    def kth(self, queries: Tensor, k: int) -> Tensor:
        points, values = self._points, queries[:, 0]
        # The k nearest are consecutive: of the k + 1 windows around the query's place the narrowest counts.
        first = torch.searchsorted(points, values) - k
        best = torch.full_like(values, torch.inf)
        for step in range(k + 1):
            start, end = first + step, first + step + k - 1
            proper = (start >= 0) & (end < len(points))
            low, high = points[start.clamp(0, len(points) - 1)], points[end.clamp(0, len(points) - 1)]
            reach = torch.maximum((values - low).abs(), (high - values).abs())
            best = torch.where(proper, torch.minimum(best, reach), best)
        return best

    def count(self, queries: Tensor, radius: Tensor) -> Tensor:
        values, inner = queries[:, 0], radius * _INSIDE
        high = torch.searchsorted(self._points, values + inner, right=True)
        return high - torch.searchsorted(self._points, values - inner)


class _Tree:
    def __init__(self, points: Tensor, tree: Any, norm: float) -> None:
        self._tree, self._norm = tree(points.numpy()), norm

    def kth(self, queries: Tensor, k: int) -> Tensor:
        return torch.from_numpy(self._tree.query(queries.numpy(), [k], p=self._norm)[0][:, 0])

    def count(self, queries: Tensor, radius: Tensor) -> Tensor:
        inner = (radius * _INSIDE).numpy()
        return torch.from_numpy(self._tree.query_ball_point(queries.numpy(), inner, p=self._norm, return_length=True))


class _Matrix:
    def __init__(self, points: Tensor) -> None:
        self._center = points.mean(0)
        self._points = points - self._center
        self._squares = self._points.square().sum(1)

    def _squared(self, queries: Tensor) -> Tensor:
        centered = queries - self._center
        sizes = centered.square().sum(1, keepdim=True) + self._squares
        squared = torch.addmm(sizes, centered, self._points.T, alpha=-2.0)
        return squared.masked_fill_(squared <= _SAME_POINT * sizes, 0.0)

    def _chunks(self, queries: Tensor) -> Iterator[slice]:
        size = max(_MAX_CHUNK_ELEMENTS // max(len(self._points), 1), 1)
        return (slice(start, start + size) for start in range(0, len(queries), size))

    def kth(self, queries: Tensor, k: int) -> Tensor:
        parts = [self._squared(queries[rows]).topk(k, largest=False).values[:, -1] for rows in self._chunks(queries)]
        return torch.cat(parts).sqrt()

    def count(self, queries: Tensor, radius: Tensor) -> Tensor:
        limit = (radius * _INSIDE).square().unsqueeze(1)
        return torch.cat([(self._squared(queries[rows]) <= limit[rows]).sum(1) for rows in self._chunks(queries)])


class _LargestCoordinate(_Matrix):
    """The same interface for the norm max |a_j − b_j|; squares of it, so that the rest is shared."""

    def _squared(self, queries: Tensor) -> Tensor:
        return torch.cdist(queries - self._center, self._points, p=torch.inf).square_()
