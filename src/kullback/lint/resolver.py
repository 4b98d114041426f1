"""What an expression is: which torch function, a probability or a logarithm, which KL call; used by every rule.

Nothing is decided from the names of variables. A name is followed to the expressions that may have given it its
value; where they disagree, or one of them is unknown, the answer is None and rules stay silent.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from kullback.lint.scopes import Scopes

PROBABILITY, LOGARITHM = "probability", "logarithm"
_MAX_DEPTH = 40
_MAX_VALUES = 16

_CANONICAL = {
    "torch.nn.modules.loss.KLDivLoss": "torch.nn.KLDivLoss",
    "torch.nn.modules.KLDivLoss": "torch.nn.KLDivLoss",
    "torch.kl_div": "torch.nn.functional.kl_div",
    "torch.special.softmax": "torch.softmax",
    "torch.special.log_softmax": "torch.log_softmax",
    "torch.special.expit": "torch.sigmoid",
    "torch.distributions.kl_divergence": "torch.distributions.kl.kl_divergence",
    "torch.distributions.Normal": "torch.distributions.normal.Normal",
}
_PROBABILITY_FUNCTIONS = {
    "torch.softmax", "torch.nn.functional.softmax", "torch.sigmoid", "torch.nn.functional.sigmoid",
    "torch.nn.functional.gumbel_softmax", "torch.nn.functional.softmin",
}  # fmt: skip
_LOGARITHM_FUNCTIONS = {"torch.log_softmax", "torch.nn.functional.log_softmax", "torch.nn.functional.logsigmoid"}
_LOG_FUNCTIONS = {"torch.log"}
_EXP_FUNCTIONS = {"torch.exp"}
_PROBABILITY_MODULES = {"torch.nn.Softmax", "torch.nn.Sigmoid", "torch.nn.Softmax2d", "torch.nn.Softmin"}
_LOGARITHM_MODULES = {"torch.nn.LogSoftmax", "torch.nn.LogSigmoid"}
# Functions and methods that change the form of a tensor, not whether its entries are probabilities or logarithms.
_SAME_KIND = {
    "clamp", "clamp_", "clamp_min", "clamp_max", "clip", "clone", "contiguous", "cpu", "cuda", "data", "detach",
    "detach_", "double",
    "expand", "flatten", "float", "gather", "half", "bfloat16", "index_select", "narrow", "permute", "repeat",
    "requires_grad_", "reshape", "squeeze", "swapaxes", "T", "t", "to", "transpose", "type", "type_as",
    "unsqueeze", "view",
}  # fmt: skip
_RESHAPING = {
    "flatten",
    "permute",
    "reshape",
    "squeeze",
    "swapaxes",
    "T",
    "t",
    "transpose",
    "unsqueeze",
    "view",
    "gather",
}
_TO_DEVICE = {"to", "cuda", "cpu", "eval", "train", "float", "half", "double", "requires_grad_"}


class Module:
    """One parsed file as the rules see it."""

    def __init__(self, tree: ast.Module, source: str, path: str) -> None:
        self.tree, self.source, self.path = tree, source, path
        self.lines = source.split("\n")
        self.scopes = Scopes(tree)
        self.nodes = self.scopes.nodes
        # Without these a file of many conditional re-bindings of one name would take exponential time.
        self._kinds: dict[ast.AST, str | None] = {}
        self._values: dict[ast.AST, list[ast.expr | None]] = {}
        self._qualified: dict[ast.AST, str | None] = {}
        self._constructors: dict[ast.AST, ast.Call | None] = {}

    @functools.cached_property
    def calls(self) -> list[ast.Call]:
        """Every call, in the order of the source."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node that holds this one."""
        return self.scopes.parents.get(node)

    def enclosing_function(self, node: ast.AST) -> ast.AST:
        """The function or lambda around a node, or the module."""
        scope = self.scopes.scope(node)
        while scope.parent is not None and not isinstance(
            scope.node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            scope = scope.parent
        return scope.node

    def without_gradient(self, node: ast.AST) -> bool:
        """Whether a node stands in `with torch.no_grad():` or `torch.inference_mode()`: a metric, not a loss."""
        parent = self.parent(node)
        while parent is not None:
            if isinstance(parent, (ast.With, ast.AsyncWith)) and any(
                self.function(item.context_expr) in {"torch.no_grad", "torch.inference_mode"} for item in parent.items
            ):
                return True
            parent = self.parent(parent)
        return False

    def text(self, node: ast.AST) -> str:
        """The source of a node."""
        return ast.get_source_segment(self.source, node) or ""

    # ------------------------------------------------------------------------------------------------ names

    def qualified(self, node: ast.AST, depth: int = 0) -> str | None:
        """The dotted name of what was imported: `F.kl_div` is `torch.nn.functional.kl_div`."""
        if node not in self._qualified:
            self._qualified[node] = None if depth > _MAX_DEPTH else self._qualify(node, depth)
        return self._qualified[node]

    def _qualify(self, node: ast.AST, depth: int) -> str | None:
        if isinstance(node, ast.Attribute):
            base = self.qualified(node.value, depth + 1)
            return None if base is None else _canonical(f"{base}.{node.attr}")
        if isinstance(node, ast.Name):
            names = set()
            for binding in self.scopes.reaching(node):
                if binding.imported:
                    names.add(_canonical(binding.imported))
                elif isinstance(binding.value, (ast.Name, ast.Attribute)):
                    names.add(self.qualified(binding.value, depth + 1) or "")
                else:
                    return None
            return names.pop() or None if len(names) == 1 else None
        return None

    def function(self, node: ast.AST) -> str | None:
        """The dotted name of what a call calls; None for methods and unknown functions."""
        return self.qualified(node.func) if isinstance(node, ast.Call) else None

    def values(self, node: ast.expr, depth: int = 0) -> list[ast.expr | None]:
        """The expressions that a name or `self.x` may stand for; the node itself if it is neither."""
        if node not in self._values:
            self._values[node] = [None]  # what a name that refers to itself is worth
            found = [None] if depth > _MAX_DEPTH else self._follow(node, depth)
            unique = list({id(value): value for value in found}.values())
            self._values[node] = unique if len(unique) <= _MAX_VALUES else [None]
        return self._values[node]

    def _follow(self, node: ast.expr, depth: int) -> list[ast.expr | None]:
        if isinstance(node, ast.Name):
            found: list[ast.expr | None] = []
            for binding in self.scopes.reaching(node):
                found += [None] if binding.value is None else self.values(binding.value, depth + 1)
            return found or [None]
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.scopes.enclosing_class(node)
            bound = self.scopes.attributes.get((owner, node.attr), []) if owner is not None else []
            if bound:
                return [e for value in bound for e in ([None] if value is None else self.values(value, depth + 1))]
        return [node]

    def value(self, node: ast.expr) -> ast.expr | None:
        """The one expression that a name stands for; None if it is unknown or there are several."""
        found = self.values(node)
        return found[0] if len(found) == 1 else None

    def same(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether two expressions are written alike."""
        return ast.dump(one) == ast.dump(other)

    # ------------------------------------------------------------------------------------------------ kinds

    def kind(self, node: ast.expr, depth: int = 0) -> str | None:
        """`PROBABILITY`, `LOGARITHM` (of probabilities, or of anything), or None where it is not certain."""
        if node not in self._kinds:
            self._kinds[node] = None if depth > _MAX_DEPTH else self._find_kind(node, depth)
        return self._kinds[node]

    def _find_kind(self, node: ast.expr, depth: int) -> str | None:
        if isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and self.values(node) != [node]):
            kinds = {None if value is None else self.kind(value, depth + 1) for value in self.values(node)}
            return kinds.pop() if len(kinds) == 1 else None
        if isinstance(node, ast.Call):
            return self._kind_of_call(node, depth + 1)
        if isinstance(node, ast.Attribute) and node.attr in _SAME_KIND:
            return self.kind(node.value, depth + 1)
        if isinstance(node, ast.Subscript):
            return self.kind(node.value, depth + 1)
        if isinstance(node, ast.IfExp):
            kinds = {self.kind(node.body, depth + 1), self.kind(node.orelse, depth + 1)}
            return kinds.pop() if len(kinds) == 1 else None
        if isinstance(node, ast.BinOp):
            return self._kind_of_arithmetic(node, depth + 1)
        return None

    def _kind_of_call(self, call: ast.Call, depth: int) -> str | None:
        name = self.function(call)
        if name in _PROBABILITY_FUNCTIONS:
            return PROBABILITY
        if name in _LOGARITHM_FUNCTIONS or name in _LOG_FUNCTIONS:
            return LOGARITHM
        if name in _EXP_FUNCTIONS and call.args:
            return PROBABILITY if self.kind(call.args[0], depth) == LOGARITHM else None
        if name in {"torch.stack", "torch.cat"} and call.args and isinstance(call.args[0], (ast.List, ast.Tuple)):
            kinds = {self.kind(element, depth) for element in call.args[0].elts}
            return kinds.pop() if len(kinds) == 1 else None
        if name is not None and name.startswith("torch.") and name.rpartition(".")[2] in _SAME_KIND and call.args:
            return self.kind(call.args[0], depth)
        constructor = self.module_call(call)
        if constructor in _PROBABILITY_MODULES:
            return PROBABILITY
        if constructor in _LOGARITHM_MODULES:
            return LOGARITHM
        if isinstance(call.func, ast.Attribute) and name is None:
            method, owner = call.func.attr, call.func.value
            if method in {"softmax", "sigmoid"} and self._is_tensor(owner):
                return PROBABILITY
            if method in {"log_softmax", "log"} and self._is_tensor(owner):
                return LOGARITHM
            if method == "exp":
                return PROBABILITY if self.kind(owner, depth) == LOGARITHM else None
            if method in _SAME_KIND:
                return self.kind(owner, depth)
        return None

    def _is_tensor(self, owner: ast.expr) -> bool:
        """Whether `owner.softmax()` can be a tensor's method: `self.softmax(x)` and `ops.softmax(x)` are not."""
        if isinstance(owner, ast.Name):
            bindings = self.scopes.reaching(owner)
            is_self = self.scopes.enclosing_class(owner) is not None and owner.id in {"self", "cls"}
            return not is_self and not any(b.imported or b.definition for b in bindings)
        return self.qualified(owner) is None

    def _kind_of_arithmetic(self, node: ast.BinOp, depth: int) -> str | None:
        left, right = self.kind(node.left, depth), self.kind(node.right, depth)
        if isinstance(node.op, ast.Add) and (is_number(node.left) or is_number(node.right)):
            # p + 1e-8 is still meant as a probability; log p + c is an unnormalised logarithm.
            return left or right
        if isinstance(node.op, ast.Add) and left == right == PROBABILITY:
            return None  # twice a mixture: only its half is a probability
        if isinstance(node.op, ast.Sub) and is_number(node.left) and right == PROBABILITY:
            return PROBABILITY
        if mixture_of(node) is not None:
            kinds = {self.kind(part, depth) for part in mixture_of(node) or ()}
            return PROBABILITY if kinds == {PROBABILITY} else None
        if isinstance(node.op, ast.Div) and left == PROBABILITY and isinstance(node.right, ast.Call):
            callee = node.right.func
            is_sum = isinstance(callee, ast.Attribute) and callee.attr == "sum"
            return PROBABILITY if is_sum else None
        return None

    def class_dim(self, node: ast.expr | None, depth: int = 0) -> int | None:
        """The `dim` of the softmax or log_softmax that made a tensor, where it is a number."""
        value = None if node is None or depth > _MAX_DEPTH else self.value(node)
        if not isinstance(value, ast.Call):
            return None
        name = self.function(value) or ""
        method = value.func.attr if isinstance(value.func, ast.Attribute) and not name else name.rpartition(".")[2]
        if method in {"softmax", "log_softmax"}:
            position = 1 if name else 0
            given = [*value.args[position : position + 1], *(k.value for k in value.keywords if k.arg == "dim")]
            return integer(given[0]) if given else None
        if method in _SAME_KIND - _RESHAPING or method in {"log", "exp"}:
            inside = value.args[0] if name and value.args else value.func.value if not name else None  # type: ignore[attr-defined]
            return self.class_dim(inside, depth + 1)
        return None

    def module_call(self, call: ast.Call) -> str | None:
        """The class of the `nn.Module` that is called: `self.softmax(x)` with `self.softmax = nn.Softmax(1)`."""
        constructor = self.constructor(call.func)
        return None if constructor is None else self.function(constructor)

    def constructor(self, node: ast.expr, depth: int = 0) -> ast.Call | None:
        """The call that made an object: of a local, an attribute, a default argument, behind `.to()` or `.cuda()`."""
        if node not in self._constructors:
            self._constructors[node] = None
            self._constructors[node] = None if depth > _MAX_DEPTH else self._find_constructor(node, depth)
        return self._constructors[node]

    def _find_constructor(self, node: ast.expr, depth: int) -> ast.Call | None:
        if isinstance(node, ast.Call):
            behind = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in _TO_DEVICE else None
            if behind is not None and self.qualified(node.func) is None:
                return self.constructor(behind, depth + 1)
            return node if self.qualified(node.func) or self.local_class(node.func) else None
        if isinstance(node, ast.Name):
            bindings = self.scopes.reaching(node)
            values = [b.value if b.value is not None else b.default for b in bindings]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = self.scopes.enclosing_class(node)
            values = self.scopes.attributes.get((owner, node.attr), []) if owner is not None else []
        else:
            return None
        made = [None if value is None else self.constructor(value, depth + 1) for value in values]
        first = made[0] if made else None
        agree = first is not None and all(m is not None and self.same(m, first) for m in made)
        return first if agree else None

    def local_class(self, node: ast.expr) -> ast.ClassDef | None:
        """The class of this file that a name stands for."""
        if not isinstance(node, ast.Name):
            return None
        bindings = self.scopes.reaching(node)
        definition = bindings[0].definition if len(bindings) == 1 else None
        return definition if isinstance(definition, ast.ClassDef) else None

    # ------------------------------------------------------------------------------------------------ uses

    def uses_after(self, name: str, node: ast.AST) -> Iterator[ast.Name]:
        """Reads of a name in the same scope, after a node."""
        scope, end = self.scopes.scope(node), (node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        for read in self.scopes.reads.get((id(scope), name), []):
            if (read.lineno, read.col_offset) >= end:
                yield read


def is_number(node: ast.AST) -> bool:
    """Whether a node is a number written out, with or without a sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        node = node.operand
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def integer(node: ast.AST) -> int | None:
    """The integer that is written out, or None."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return None
    return value if type(value) is int else None


def mixture_of(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two parts of `0.5 * (a + b)`, `(a + b) / 2` or `0.5 * a + 0.5 * b`."""
    if not isinstance(node, ast.BinOp):
        return None
    if isinstance(node.op, ast.Mult):
        for half, both in ((node.left, node.right), (node.right, node.left)):
            if _is_constant(half, 0.5) and isinstance(both, ast.BinOp) and isinstance(both.op, ast.Add):
                return both.left, both.right
    if isinstance(node.op, ast.Div) and _is_constant(node.right, 2.0):
        both = node.left
        if isinstance(both, ast.BinOp) and isinstance(both.op, ast.Add):
            return both.left, both.right
    if isinstance(node.op, ast.Add):
        parts = [half_of(side) for side in (node.left, node.right)]
        if parts[0] is not None and parts[1] is not None:
            return parts[0], parts[1]
    return None


def half_of(node: ast.AST) -> ast.expr | None:
    """The x of `0.5 * x` or `x / 2`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        if _is_constant(node.left, 0.5):
            return node.right
        return node.left if _is_constant(node.right, 0.5) else None
    is_half = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and _is_constant(node.right, 2.0)
    return node.left if is_half and isinstance(node, ast.BinOp) else None


def _is_constant(node: ast.AST, value: float) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and is_number(node.left) and is_number(node.right):
        numerator, denominator = ast.literal_eval(node.left), ast.literal_eval(node.right)
        return bool(denominator) and numerator / denominator == value
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool) and node.value == value


def _canonical(name: str) -> str:
    return _CANONICAL.get(name, name)
