"""Numbers with their errors as a small table for notebooks; `KLResult` and `Estimate` show themselves by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import torch
from torch import Tensor

_MAX_ROWS = 8


def numbers_html(columns: Mapping[str, Tensor], notes: Sequence[str], *, name: str = "KL(p ‖ q)") -> str:
    """A row for each element of a batch under the names of the columns, and paragraphs below; all text is escaped.

    Example:
        >>> print(numbers_html({"nats": torch.tensor(0.5)}, ["error < 1e-9"]))
        <table><tr><th></th><th>nats</th></tr><tr><td>KL(p ‖ q)</td><td>0.5</td></tr></table><p>error &lt; 1e-9</p>
    """
    tensors = torch.broadcast_tensors(*(column.detach() for column in columns.values()))  # type: ignore[no-untyped-call]
    shape, count = tensors[0].shape, tensors[0].numel()
    rows = []
    for number in range(min(count, _MAX_ROWS)):
        at = tuple(int(i) for i in torch.unravel_index(torch.tensor(number), shape)) if shape else ()
        label = f"{name}[{', '.join(map(str, at))}]" if at else name
        cells = [label, *(f"{tensor[at].item():.6g}" for tensor in tensors)]
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells))
    head = "".join(f"<th>{escape(heading)}</th>" for heading in ("", *columns))
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = [f"and {count - len(rows)} more elements"] if count > len(rows) else []
    return f"<table><tr>{head}</tr>{body}</table>" + "".join(f"<p>{escape(note)}</p>" for note in [*more, *notes])
