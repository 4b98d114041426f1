"""KL of all rows of one view against all rows of another."""

from __future__ import annotations

from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem
from kullback._core.shapes import classes_last
from kullback._core.validation import Validate, check_rows, check_validate
from kullback.kernels.kl_rows import kl_rows
from kullback.tensors.frame import Options, check_view, divergence, values_hidden
from kullback.tensors.views import View


def pairwise_kl(P: View, Q: View, *, base: float | None = None, validate: Validate = True) -> Tensor:
    """KL(P_i || Q_j) for every row i of P and every row j of Q.

    Each pair is computed as `kl` computes it, block by block, so that rows that are nearly equal keep all their digits
    and exactly equal rows give exactly 0. (One matrix product, Σ P log P - P log Qᵀ, would be a difference of large
    numbers.)

    Args:
        P: A view of shape (..., n, K) once its class dimension is last.
        Q: A view of shape (..., m, K).
        base: Unit of information: None for nats, 2 for bits.
        validate: Whether to look at the values; see `kl`.

    Returns:
        A tensor of shape (..., n, m).

    Example:
        >>> import torch
        >>> from kullback import Probs, pairwise_kl
        >>> rows = torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
        >>> pairwise_kl(Probs(rows), Probs(rows))
        tensor([[0.0000, 0.1438,    inf],
                [0.1308, 0.0000,    inf],
                [0.6931, 1.3863, 0.0000]])
    """
    check_validate(validate)
    rows_p = _rows("P", P, validate, other=-2)
    rows_q = _rows("Q", Q, validate, other=-3)
    return divergence("pairwise_kl", kl_rows, {"P": rows_p, "Q": rows_q}, Options(base=base, validate=False))


def _rows(name: str, view: View, validate: Validate, *, other: int) -> View:
    """The view with its classes last and a dimension of size 1 where the other view's rows go."""
    view = check_view("pairwise_kl", name, view)
    tensor = classes_last(view.tensor, view.dim, name)
    if tensor.dim() < 2:
        raise ShapeError(
            explain_problem(
                f"{name} is a single row.",
                got=f"shape {tuple(tensor.shape)}",
                expected="rows and classes: at least two dimensions",
                instead="kl(P, Q) for one row against all rows",
            )
        )
    if not values_hidden():
        check_rows(tensor, view.kind, name, validate, smoothing=view.encoding.smoothing)
    return view.with_tensor(tensor.unsqueeze(other), dim=-1)
