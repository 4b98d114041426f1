"""KL of all rows of one view against all rows of another."""

from __future__ import annotations

from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem
from kullback._core.reduction import check_base, reduce_rows
from kullback._core.shapes import batch_shape, check_class_counts, classes_last
from kullback._core.validation import Validate, check_rows, check_validate
from kullback.kernels.pairwise_rows import pairwise_kl_rows
from kullback.tensors.frame import check_devices, check_view, values_hidden
from kullback.tensors.views import View


def pairwise_kl(P: View, Q: View, *, base: float | None = None, validate: Validate = True) -> Tensor:
    """KL(P_i || Q_j) for every row i of P and every row j of Q.

    A float32 table is found by one matrix product in double. For rows that are nearly equal that would be a difference
    of nearly equal numbers; they are computed as `kl` computes them, so that they keep all their digits and exactly
    equal rows give exactly 0. So is a float64 table, block by block.

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
    check_base(base)
    rows_p, rows_q = _rows("P", P, validate), _rows("Q", Q, validate)
    check_class_counts(rows_p, rows_q)
    check_devices((rows_p, rows_q))
    batch_shape(rows_p[..., 0, :], rows_q[..., 0, :])
    return reduce_rows(pairwise_kl_rows((rows_p, rows_q), (P.encoding, Q.encoding)), base=base)


def _rows(name: str, view: View, validate: Validate) -> Tensor:
    """The values of a view with its classes last."""
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
    return tensor
