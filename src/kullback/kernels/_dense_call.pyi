from collections.abc import Callable

from torch import Tensor

def bind(address: int, function: int, arity: int) -> Callable[..., Tensor]: ...
