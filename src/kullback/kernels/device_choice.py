"""Which implementation the rows of a tensor get, by its device; called by `row_op`, `row_run` and `native_rows`.

| device                        | first derivatives and values  | transforms, second derivatives, no Triton |
|-------------------------------|-------------------------------|-------------------------------------------|
| `cpu`                         | native code                   | torch in float64                          |
| `cuda` (NVIDIA, AMD), `xpu`   | Triton                        | torch in float64 where that is fast, else float32 |
| `mps` and every other device  | torch in float32              | torch in float32                          |

Torch in float32 keeps what rounding takes from differences; float64 tensors are always computed in float64. Two
variables of the environment change the table: `KULLBACK_TRITON=0` keeps Triton out, and
`KULLBACK_DEVICES="cuda=float64,xpu=float32"` chooses `triton`, `float64` or `float32` for a type of device.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from kullback._core.dtypes import has_float64
from kullback._core.errors import InputValueError, explain_problem

Route = Literal["native", "triton", "float64", "float32"]

_DEFAULTS: dict[str, Route] = {"cpu": "native", "cuda": "triton", "xpu": "triton"}
# Cards that compute at least a quarter as fast in float64 as in float32; the others reach a sixteenth or less.
_FAST_FLOAT64_CAPABILITIES = frozenset({(6, 0), (7, 0), (8, 0), (9, 0), (10, 0)})
_FAST_FLOAT64_AMD = ("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950")
_FAST_FLOAT64_INTEL = ("Data Center GPU Max",)


def read_routes(environment: Mapping[str, str]) -> dict[str, Route]:
    """The table above with what `KULLBACK_DEVICES` changes.

    Example:
        >>> read_routes({"KULLBACK_DEVICES": "cuda=float64"})["cuda"]
        'float64'
    """
    routes = dict(_DEFAULTS)
    for entry in filter(None, environment.get("KULLBACK_DEVICES", "").replace(" ", "").split(",")):
        kind, _, route = entry.partition("=")
        if route not in get_args(Route) or (route == "native") != (kind == "cpu" and route == "native"):
            raise InputValueError(
                explain_problem(
                    "KULLBACK_DEVICES names an implementation for a type of device.",
                    got=repr(entry),
                    expected="cuda=triton, cuda=float64 or cuda=float32, entries separated by commas",
                )
            )
        routes[kind] = route  # type: ignore[assignment]
    return routes


ROUTES = read_routes(os.environ)
TRITON_ALLOWED = os.environ.get("KULLBACK_TRITON", "1") != "0"


def route_of(device: torch.device) -> Route:
    """What the rows of a tensor on this device get for values and first derivatives.

    Example:
        >>> import torch
        >>> route_of(torch.device("mps"))
        'float32'
    """
    route = ROUTES.get(device.type, "float32")
    if route == "triton" and not TRITON_ALLOWED:
        return "float64" if has_fast_float64(device) else "float32"
    return route


def rows_work_dtype(device: torch.device, *tensors: Tensor) -> torch.dtype:
    """The dtype in which torch computes rows of these tensors."""
    if not has_float64(device):
        return torch.float32
    if any(t.dtype == torch.float64 for t in tensors):
        return torch.float64
    route = ROUTES.get(device.type, "float32")
    fast = has_fast_float64(device) if route == "triton" else route != "float32"
    return torch.float64 if fast else torch.float32


@functools.cache
def has_fast_float64(device: torch.device) -> bool:
    """Whether a device computes in float64 at a quarter of its float32 speed or more, as far as its name tells."""
    if device.type == "cpu":
        return True
    module: Any = getattr(torch, device.type, None)
    if device.type not in ("cuda", "xpu") or not module.is_available():
        return False
    properties = module.get_device_properties(device)
    if device.type == "xpu":
        return any(name in properties.name for name in _FAST_FLOAT64_INTEL)
    if torch.version.hip is not None:
        return str(properties.gcnArchName).startswith(_FAST_FLOAT64_AMD)
    return (properties.major, properties.minor) in _FAST_FLOAT64_CAPABILITIES
