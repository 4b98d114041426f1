from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.distributions import Distribution

def bind(address: int, function: int, arity: int) -> Callable[..., Tensor]: ...
def bind_pair(
    entry: int,
    function: int,
    paths_p: Sequence[list[str]],
    parts_p: int,
    paths_q: Sequence[list[str]],
    parts_q: int,
) -> Callable[[Distribution, Distribution], Any]: ...
def use_exchange(flag: bool) -> bool: ...
