"""The native calls of two distributions: KL within a family, and pairs that are infinite; `pairs.dispatch` asks.

The kernels are in `csrc/pairs/`. `PairOp` (`pair_ops`) serves every call: gradients, strides, transforms, the compiler.
The call bound here, written in C (`csrc/python/pair_call.cpp`), reads the parameters of two ordinary distributions and
answers in a few microseconds. It answers NotImplemented to everything that is not ordinary: a parameter that needs a
gradient, a dtype that differs, a transform or tracer at work, two shapes that broadcast, an answer that is NaN.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from torch import distributions as d
from torch.distributions import Distribution

from kullback.kernels import native

Call = Callable[[Distribution, Distribution], Any]

# The kernel of KL within a family, if there is one, and where objects of the family store their parameters. Bernoulli
# and Geometric store whichever of probs and logits they were given, and go through their op.
_FAMILIES: dict[type[Distribution], tuple[str, tuple[str, ...]]] = {
    d.Beta: ("beta", ("_dirichlet.concentration",)),
    d.Cauchy: ("cauchy", ("loc", "scale")),
    d.ContinuousBernoulli: ("", ("_param",)),
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
    d.StudentT: ("", ("df", "loc", "scale")),
    d.Uniform: ("", ("low", "high")),
    d.Weibull: ("weibull", ("scale", "concentration")),
}
# How many parameters one tensor holds along its last dimension.
_PARTS: dict[type[Distribution], int] = {d.Beta: 2}


def kernel_call(p: type[Distribution], q: type[Distribution]) -> Call | None:
    """KL(p ‖ q) of objects of exactly these classes, or NotImplemented; None where there is no kernel."""
    library = native.library()
    name = _FAMILIES[p][0] if p is q and p in _FAMILIES else ""
    if library is None or not name:
        return None
    entry = ctypes.cast(library.kullback_pair_forward, ctypes.c_void_p).value
    assert entry is not None
    return _bind(entry, library.kullback_pair_index(name.encode()), p, q)


def infinite_call(p: type[Distribution], q: type[Distribution]) -> Call | None:
    """Infinity for objects of exactly these classes, or NotImplemented; None where their parameters are not known."""
    known = native.library() is not None and p in _FAMILIES and q in _FAMILIES
    return _bind(0, 0, p, q) if known else None


def _bind(entry: int, function: int, p: type[Distribution], q: type[Distribution]) -> Call | None:
    try:
        from kullback.kernels import _dense_call
    except ImportError:  # not built for this interpreter
        return None
    sides = [([path.split(".") for path in _FAMILIES[side][1]], _PARTS.get(side, 0)) for side in (p, q)]
    call: Call = _dense_call.bind_pair(entry, function, *sides[0], *sides[1])
    return call
