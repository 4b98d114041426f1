"""Torch's elementwise operations as nodes of a graph, by the names of their kernels."""

from __future__ import annotations

from collections.abc import Callable

from kullback.kernels.graph import Graph


def _named(name: str) -> Callable[..., int]:
    return lambda g, *operands: g.add(name, *operands)


def _scaled(name: str) -> Callable[..., int]:
    """For a ± alpha·b."""

    def rule(g: Graph, a: int, b: int, alpha: float = 1.0) -> int:
        return g.add(name, a, b if alpha == 1 else g.add("mul", b, g.add("number", float(alpha))))

    return rule


def _swapped(name: str) -> Callable[..., int]:
    return lambda g, a, b: g.add(name, b, a)


def _power(g: Graph, base: int, exponent: float) -> int:
    if exponent == 0.5:
        return g.add("sqrt", base)
    if exponent in {-1.0, -2.0}:
        base, exponent = g.add("reciprocal", base), -exponent
    if exponent not in {1.0, 2.0, 3.0}:
        return g.add("pow", base, g.add("number", float(exponent)))
    found = base
    for _ in range(int(exponent) - 1):
        found = g.add("mul", found, base)
    return found


def _clamp(g: Graph, x: int, low: int | None = None, high: int | None = None) -> int:
    x = x if low is None else g.add("maximum", x, low)
    return x if high is None else g.add("minimum", x, high)


def _masked_fill(g: Graph, x: int, mask: int, value: int) -> int:
    return g.add("where", mask, value, x)


def log_sigmoid(g: Graph, x: int) -> tuple[int, int]:
    """The logarithm of the sigmoid, and e^−|x|, which torch keeps for its derivative."""
    decay = g.add("exp", g.add("neg", g.add("abs", x)))
    return g.add("sub", g.add("minimum", x, g.add("number", 0.0)), g.add("log1p", decay)), decay


def _log_sigmoid_backward(g: Graph, grad: int, x: int, decay: int) -> int:
    one, negative = g.add("number", 1.0), g.add("lt", x, g.add("number", 0.0))
    share = g.add("div", decay, g.add("add", one, decay))
    return g.add("mul", g.add("where", negative, g.add("sub", one, share), share), grad)


def _sigmoid_backward(g: Graph, grad: int, out: int) -> int:
    return g.add("mul", g.add("mul", grad, g.add("sub", g.add("number", 1.0), out)), out)


def _logaddexp(g: Graph, a: int, b: int) -> int:
    decay = g.add("exp", g.add("neg", g.add("abs", g.add("sub", a, b))))
    both = g.add("and", g.add("eq", a, b), g.add("isinf", a))
    return g.add("where", both, a, g.add("add", g.add("maximum", a, b), g.add("log1p", decay)))


def _softplus(g: Graph, x: int, beta: int | None = None, threshold: int | None = None) -> int:
    unit, bound = (g.add("number", v) if n is None else n for n, v in ((beta, 1.0), (threshold, 20.0)))
    scaled = g.add("mul", x, unit)
    decay = g.add("log1p", g.add("exp", g.add("minimum", scaled, bound)))
    return g.add("where", g.add("lt", bound, scaled), x, g.add("div", decay, unit))


def _softplus_backward(g: Graph, grad: int, x: int, beta: int, threshold: int) -> int:
    scaled = g.add("mul", x, beta)
    growth = g.add("exp", g.add("minimum", scaled, threshold))
    share = g.add("div", g.add("mul", grad, growth), g.add("add", growth, g.add("number", 1.0)))
    return g.add("where", g.add("lt", threshold, scaled), grad, share)


def _sinh(g: Graph, x: int) -> int:
    """(t + t/(t + 1))/2 of the size of x, t = eˣ − 1."""
    t = g.add("expm1", g.add("abs", x))
    share = g.add("div", t, g.add("add", t, g.add("number", 1.0)))
    # t/(t + 1) is 1 where t has overflown, and t itself where it is tiny.
    share = g.add("where", g.add("isinf", t), g.add("number", 1.0), share)
    return g.add("mul", g.add("sign", x), g.add("mul", g.add("number", 0.5), g.add("add", t, share)))


def _cosh(g: Graph, x: int) -> int:
    growth = g.add("exp", g.add("abs", x))
    return g.add("mul", g.add("number", 0.5), g.add("add", growth, g.add("reciprocal", growth)))


def _tanh(g: Graph, x: int) -> int:
    """−t/(t + 2) with the sign of x, t = e^(−2|x|) − 1."""
    t = g.add("expm1", g.add("mul", g.add("number", -2.0), g.add("abs", x)))
    share = g.add("div", t, g.add("add", t, g.add("number", 2.0)))
    return g.add("mul", g.add("sign", x), g.add("neg", share))


def _tanh_backward(g: Graph, grad: int, out: int) -> int:
    return g.add("mul", grad, g.add("sub", g.add("number", 1.0), g.add("mul", out, out)))


def _asinh(g: Graph, x: int) -> int:
    """log(1 + |x| + x²/(1 + √(1 + x²))) with the sign of x; beyond 1e150 log 2|x|."""
    size, one = g.add("abs", x), g.add("number", 1.0)
    huge = g.add("lt", g.add("number", 1e150), size)
    inner = g.add("where", huge, one, size)
    square = g.add("mul", inner, inner)
    root = g.add("sqrt", g.add("add", one, square))
    near = g.add("log1p", g.add("add", inner, g.add("div", square, g.add("add", one, root))))
    far = g.add("add", g.add("log", g.add("where", huge, size, one)), g.add("number", 0.6931471805599453))
    return g.add("mul", g.add("sign", x), g.add("where", huge, far, near))


def _copysign(g: Graph, x: int, sign: int) -> int:
    size = g.add("abs", x)
    return g.add("where", g.add("lt", sign, g.add("number", 0.0)), g.add("neg", size), size)


def _addcmul(g: Graph, x: int, a: int, b: int, value: float = 1.0) -> int:
    return g.add("add", x, g.add("mul", g.add("mul", g.add("number", float(value)), a), b))


def _first(g: Graph, x: int, *_: object, **__: object) -> int:
    del g
    return x


# Of torch's operations by name; what returns its first operand only changes dtype, shape or history.
RULES: dict[str, Callable[..., int]] = {
    **dict.fromkeys(
        ("detach", "alias", "clone", "_to_copy", "expand", "view", "_unsafe_view", "contiguous", "lift_fresh"), _first
    ),
    **{name: _named(name) for name in ("neg", "abs", "sqrt", "reciprocal", "exp", "expm1", "log", "log1p", "sigmoid")},
    **{name: _named(name) for name in ("sign", "isnan", "isinf", "erf", "sin", "cos", "mul", "div", "maximum")},
    **{name: _named(name) for name in ("minimum", "lt", "le", "eq", "where")},
    "sgn": _named("sign"),
    "add": _scaled("add"),
    "sub": _scaled("sub"),
    "rsub": lambda g, a, b, alpha=1.0: _scaled("sub")(g, b, a, alpha),
    "gt": _swapped("lt"),
    "ge": _swapped("le"),
    "ne": lambda g, a, b: g.add("not", g.add("eq", a, b)),
    "logical_not": _named("not"),
    "bitwise_not": _named("not"),
    "logical_and": _named("and"),
    "bitwise_and": _named("and"),
    "logical_and_": _named("and"),  # what it overwrites is its result from here on
    "logical_or": _named("or"),
    "bitwise_or": _named("or"),
    "pow": _power,
    "pow_of_tensors": _named("pow"),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda g, x, high: _clamp(g, x, None, high),
    "masked_fill": _masked_fill,
    "rsqrt": lambda g, x: g.add("reciprocal", g.add("sqrt", x)),
    "log_sigmoid_backward": _log_sigmoid_backward,
    "sigmoid_backward": _sigmoid_backward,
    "addcmul": _addcmul,
    "logaddexp": _logaddexp,
    "softplus": _softplus,
    "softplus_backward": _softplus_backward,
    "sinh": _sinh,
    "asinh": _asinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "tanh_backward": _tanh_backward,
    "copysign": _copysign,
}
