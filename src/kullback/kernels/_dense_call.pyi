from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

def bind(address: int, function: int, arity: int) -> Callable[..., Tensor]: ...
def bind_pair(
    entry: int,
    program: int,
    keep_alive: object,
    inputs: Sequence[tuple[int, list[str], int, bool]],
    choices: Sequence[tuple[int, list[str], list[str]]],
    partial: bool,
) -> Callable[..., Any]: ...
def use_exchange(flag: bool) -> bool: ...
