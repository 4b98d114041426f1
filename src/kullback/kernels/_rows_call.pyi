from collections.abc import Callable
from typing import Any

from torch import Tensor

def connect(
    forward: int, backward: int, record: Callable[..., Any], check: Callable[[Any, Any, Any], None], /
) -> None: ...
def rows(
    op: Any, remembered: dict[tuple[Any, ...], Any], p: Any, q: Any, validate: Any, parameters: tuple[Any, ...], /
) -> Any: ...
def forward(
    x: Tensor, y: Tensor, request: Any, to_x: bool, to_y: bool, /
) -> tuple[Tensor, bytes, bool, tuple[Tensor | None, Tensor | None] | None]: ...
def backward(
    grad: Tensor,
    statistics: bytes,
    request: Any,
    x: Tensor,
    y: Tensor,
    to_x: bool,
    to_y: bool,
    begun: tuple[Tensor | None, Tensor | None] | None,
    /,
) -> Any: ...
