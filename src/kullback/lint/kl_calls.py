"""The calls of torch's KL in a file: `F.kl_div` and modules made by `KLDivLoss`; used by the rules about them."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from kullback.lint.resolver import Module


@functools.lru_cache(maxsize=1)
def kl_calls(module: Module) -> list[KLCall]:
    """Every call of `F.kl_div` or of a `KLDivLoss` that is certainly torch's."""
    return [found for call in module.calls if (found := kl_call(module, call)) is not None]


class KLCall:
    """A call of `F.kl_div(input, target)` or of a `KLDivLoss`, with its arguments by name.

    Attributes:
        node: The call.
        input: The first argument, or None if it is not written out.
        target: The second argument.
        constructor: The call of `KLDivLoss(…)` that made the module; None for the function.
        settings: The keyword arguments that decide the reduction, by torch's names.
        opaque: True where `*args` or `**kwargs` hide arguments.
    """

    def __init__(self, module: Module, node: ast.Call, constructor: ast.Call | None) -> None:
        self.node, self.constructor = node, constructor
        names = ["size_average", "reduce", "reduction", "log_target"]
        if constructor is None:
            given, self.opaque = _arguments(node, ["input", "target", *names])
            self.settings = {name: value for name, value in given.items() if name in names}
        else:
            given, hidden = _arguments(node, ["input", "target"])
            self.settings, opaque = _arguments(constructor, names)
            local = module.local_class(constructor.func)
            self.opaque = opaque or hidden or (local is not None and _has_init(local))
        self.input, self.target = given.get("input"), given.get("target")

    @property
    def log_target(self) -> bool | None:
        """The value of `log_target`, None where it is not a constant."""
        node = self.settings.get("log_target")
        if node is None:
            return None if self.opaque else False
        return bool(node.value) if isinstance(node, ast.Constant) else None

    @property
    def reduction(self) -> str | None:
        """The reduction that torch uses, None where it is not a constant."""
        if self.opaque:
            return None
        legacy = [self.settings.get("size_average"), self.settings.get("reduce")]
        constants = [True if n is None else n.value if isinstance(n, ast.Constant) else "?" for n in legacy]
        if any(n is not None and not (isinstance(n, ast.Constant) and n.value is None) for n in legacy):
            if "?" in [c for c, n in zip(constants, legacy, strict=True) if not isinstance(n, ast.Constant)]:
                return None
            average, reduce = (True if c is None else bool(c) for c in constants)
            return "none" if not reduce else "mean" if average else "sum"
        node = self.settings.get("reduction")
        if node is None:
            return "mean"
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def kl_call(module: Module, call: ast.Call) -> KLCall | None:
    """Read a call as one of torch's KL, or None."""
    if module.function(call) == "torch.nn.functional.kl_div":
        return KLCall(module, call, None)
    constructor = module.constructor(call.func)
    if constructor is not None and is_kl_div_loss(module, constructor):
        return KLCall(module, call, constructor)
    return None


def targets(module: Module, kind: str, *, log_target: bool) -> Iterator[ast.expr]:
    """The targets of one kind whose call certainly has this `log_target`."""
    for call in kl_calls(module):
        if call.target is not None and call.log_target is log_target and module.kind(call.target) == kind:
            yield call.target


def is_kl_div_loss(module: Module, constructor: ast.Call) -> bool:
    """Whether a call makes torch's `KLDivLoss`, or a subclass of it in this file that keeps its `forward`."""
    if module.function(constructor) == "torch.nn.KLDivLoss":
        return True
    local = module.local_class(constructor.func)
    if local is None:
        return False
    has_forward = any(isinstance(item, ast.FunctionDef) and item.name == "forward" for item in local.body)
    return not has_forward and any(module.qualified(base) == "torch.nn.KLDivLoss" for base in local.bases)


def _arguments(call: ast.Call, names: list[str]) -> tuple[dict[str, ast.expr], bool]:
    opaque = any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)
    positional = {} if any(isinstance(a, ast.Starred) for a in call.args) else dict(zip(names, call.args, strict=False))
    return {**positional, **{k.arg: k.value for k in call.keywords if k.arg is not None}}, opaque


def _has_init(node: ast.ClassDef) -> bool:
    return any(isinstance(item, ast.FunctionDef) and item.name == "__init__" for item in node.body)
