"""The families with a native kernel for KL(p ‖ q) within the family, and the short way to it; see `pairs.registry`.

The kernels are in `csrc/pairs/`. `PairOp` (`pair_ops`) serves every call: gradients, strides, transforms, the compiler.
The call bound here, written in C (`csrc/python/pair_call.cpp`), reads the parameters of two ordinary distributions and
runs the kernel in a few microseconds. It answers NotImplemented to everything that is not ordinary: a parameter that
needs a gradient, a dtype that differs, a transform or tracer at work, two shapes that broadcast.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from torch import distributions as d
from torch.distributions import Distribution

from kullback.kernels import native

# Kernel, and where objects of the family store the parameters that it takes. Bernoulli and Geometric store whichever of
# probs and logits they were given, and go through their op.
_PARAMETERS: dict[type[Distribution], tuple[str, tuple[str, ...]]] = {
    d.Beta: ("beta", ("_dirichlet.concentration",)),
    d.Cauchy: ("cauchy", ("loc", "scale")),
    d.Exponential: ("exponential", ("rate",)),
    d.Gamma: ("gamma", ("concentration", "rate")),
    d.Gumbel: ("gumbel", ("loc", "scale")),
    d.HalfCauchy: ("cauchy", ("base_dist.loc", "base_dist.scale")),
    d.HalfNormal: ("half_normal", ("base_dist.scale",)),
    d.InverseGamma: ("gamma", ("base_dist.concentration", "base_dist.rate")),
    d.Laplace: ("laplace", ("loc", "scale")),
    d.LogNormal: ("normal", ("base_dist.loc", "base_dist.scale")),
    d.Normal: ("normal", ("loc", "scale")),
    d.Pareto: ("pareto", ("scale", "alpha")),
    d.Poisson: ("poisson", ("rate",)),
    d.Weibull: ("weibull", ("scale", "concentration")),
}
# How many parameters one tensor holds along its last dimension.
_PARTS = {"beta": 2}


def short_call(family: type[Distribution]) -> Callable[[Distribution, Distribution], Any] | None:
    """KL(p ‖ q) of two objects of exactly this class, or NotImplemented; None where there is no such call."""
    library = native.library()
    if library is None or family not in _PARAMETERS:
        return None
    try:
        from kullback.kernels import _dense_call
    except ImportError:  # not built for this interpreter
        return None
    name, paths = _PARAMETERS[family]
    entry = ctypes.cast(library.kullback_pair_forward, ctypes.c_void_p).value
    assert entry is not None
    function = library.kullback_pair_index(name.encode())
    call: Callable[[Distribution, Distribution], Any] = _dense_call.bind_pair(
        entry, function, [path.split(".") for path in paths], _PARTS.get(name, 0)
    )
    return call
