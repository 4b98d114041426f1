"""Names and where they get their values: scopes, bindings and parents of one syntax tree; used by the resolver.

A binding "reaches" a use if it stands before it and no later binding is certain to have replaced it. Branches are
handled in the plain way: a binding inside an `if`, loop or handler that does not also contain the use may or may not
have happened, so that the bindings before it count, too.
"""

from __future__ import annotations

import ast
import bisect
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CONDITIONAL_FIELDS = {
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.Try: ("handlers", "orelse"),
    ast.ExceptHandler: ("body",),
}
_MAX_BINDINGS = 50  # of one name before a use; more than a person writes
_BINDING = (
    ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension, ast.withitem,
    ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal,
)  # fmt: skip
_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)  # no rule looks at these nodes
_OUTSIDE_FIELDS = ("decorator_list", "bases", "keywords", "returns")  # evaluated where the definition stands
Branch = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    Attributes:
        position: (line, column) of the place.
        branch: The conditional blocks around it, outermost first.
        value: The expression, or None where it is not one (a loop variable, a parameter, `with … as x`).
        imported: The dotted name that an import binds, `"torch.nn.functional"`; empty otherwise.
        default: The default value of a parameter.
        definition: The class or function that a `class` or `def` binds.
    """

    position: tuple[int, int]
    branch: Branch
    value: ast.expr | None = None
    imported: str = ""
    default: ast.expr | None = None
    definition: ast.stmt | None = None


@dataclass
class Scope:
    """A module, class, function or comprehension with the names bound in it."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    declared_global: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        """Whether functions inside do not see these names."""
        return isinstance(self.node, ast.ClassDef)


class Scopes:
    """Scopes, parents and branches of every node of a tree, built in one walk without recursion."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.attributes: dict[tuple[ast.ClassDef, str], list[ast.expr | None]] = {}
        self.nodes: list[ast.AST] = []
        self.reads: dict[tuple[int, str], list[ast.Name]] = {}
        self._scope_of: dict[ast.AST, Scope] = {}
        self._branch_of: dict[ast.AST, Branch] = {}
        self._walk(tree)
        for bindings in self._all_bindings():
            bindings.sort(key=lambda binding: binding.position)

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        return self._scope_of[node]

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The class around a method's code."""
        scope: Scope | None = self._scope_of[node]
        while scope is not None:
            if isinstance(scope.node, ast.ClassDef):
                return scope.node
            scope = scope.parent
        return None

    def reaching(self, name: ast.Name) -> list[Binding]:
        """The bindings that may have given a name its value at this use; empty if it is unknown here."""
        scope: Scope | None = self._scope_of[name]
        if name.id in (scope.declared_global if scope else ()):
            scope = self.module
        own = scope
        while own is not None and isinstance(own.node, _COMPREHENSIONS) and name.id not in own.bindings:
            own = own.parent
        while scope is not None:
            bindings = scope.bindings.get(name.id)
            if bindings and not (scope.is_class and scope is not own):
                return self._before(name, bindings) if scope is own else bindings
            scope = scope.parent
        return []

    def _before(self, name: ast.Name, bindings: list[Binding]) -> list[Binding]:
        branch, position = self._branch_of[name], (name.lineno, name.col_offset)
        found: list[Binding] = []
        last = bisect.bisect_left(bindings, position, key=lambda binding: binding.position)
        for binding in reversed(bindings[max(0, last - _MAX_BINDINGS) : last]):
            if _exclusive(binding.branch, branch):
                continue
            found.append(binding)
            if branch[: len(binding.branch)] == binding.branch:
                break
        return found or bindings

    def _all_bindings(self) -> list[list[Binding]]:
        scopes = {id(scope): scope for scope in [*self._scope_of.values(), self.module]}
        return [bindings for scope in scopes.values() for bindings in scope.bindings.values()]

    def _walk(self, tree: ast.Module) -> None:
        stack: list[tuple[ast.AST, Scope, Branch]] = [(tree, self.module, ())]
        while stack:
            node, scope, branch = stack.pop()
            self.nodes.append(node)
            self._scope_of[node], self._branch_of[node] = scope, branch
            if isinstance(node, _BINDING):
                self._bind(node, scope, branch)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self.reads.setdefault((id(scope), node.id), []).append(node)
            inner = scope
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, *_COMPREHENSIONS)):
                inner = Scope(node, scope)
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                    _bind_parameters(node, inner)
            conditional = _CONDITIONAL_FIELDS.get(type(node), ())
            opens = inner is not scope
            inner_branch: Branch = () if opens and not isinstance(node, _COMPREHENSIONS) else branch
            for name in node._fields:
                value = getattr(node, name, None)
                if not value or not isinstance(value, (list, ast.AST)) or isinstance(value, _LEAVES):
                    continue
                if opens and name in _OUTSIDE_FIELDS:
                    child_scope, child_branch = scope, branch
                elif name in conditional:
                    child_scope, child_branch = inner, (*branch, (id(node), name))
                else:
                    child_scope, child_branch = inner, inner_branch
                for child in value if isinstance(value, list) else (value,):
                    if isinstance(child, ast.AST):
                        self.parents[child] = node
                        stack.append((child, child_scope, child_branch))

    def _bind(self, node: ast.AST, scope: Scope, branch: Branch) -> None:  # noqa: PLR0912 - one branch per statement
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value, scope, branch, node)
        elif isinstance(node, ast.AnnAssign):
            self._bind_target(node.target, node.value, scope, branch, node)
        elif isinstance(node, ast.NamedExpr):
            while isinstance(scope.node, _COMPREHENSIONS) and scope.parent is not None:
                scope = scope.parent
            self._bind_target(node.target, node.value, scope, branch, node)
        elif isinstance(node, ast.AugAssign):
            # x += y: the new value is the sum, whose left side is x's value before this line.
            value: ast.expr | None = None
            if isinstance(node.target, ast.Name):
                before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
                value = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
                for made in (before, value):
                    self._scope_of[made], self._branch_of[made] = scope, branch
                self.parents[before] = value
                self.parents[value] = node
                self.reads.setdefault((id(scope), before.id), []).append(before)
                self.nodes.append(value)  # so that rules see `loss += kl` as the sum it is
            self._bind_target(node.target, value, scope, branch, node)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._bind_target(node.target, None, scope, branch, node.target)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind_target(node.optional_vars, None, scope, branch, node.optional_vars)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            _bind_imports(node, scope, branch)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            _add(scope, node.name, Binding((node.lineno, node.col_offset), branch, definition=node))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.declared_global.update(node.names if isinstance(node, ast.Global) else ())

    def _bind_target(
        self, target: ast.expr, value: ast.expr | None, scope: Scope, branch: Branch, node: ast.AST
    ) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            elements: list[ast.expr | None] = [None] * len(target.elts)
            same_length = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            starred = any(isinstance(e, ast.Starred) for e in target.elts)
            if same_length and not starred and isinstance(value, (ast.Tuple, ast.List)):
                elements = list(value.elts)
            for element, part in zip(target.elts, elements, strict=True):
                self._bind_target(element, part, scope, branch, node)
        elif isinstance(target, ast.Starred):
            self._bind_target(target.value, None, scope, branch, node)
        elif isinstance(target, ast.Name):
            # The end of the statement: `x = f(x)` reads the x of before.
            position = (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)
            _add(scope, target.id, Binding(position, branch, value=value))
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            owner = self._class_of_self(target.value.id, scope)
            if owner is not None:
                self.attributes.setdefault((owner, target.attr), []).append(value)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            # x[i] = y: the elements are no longer what x was bound to.
            position = (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)
            _add(scope, target.value.id, Binding(position, branch))

    def _class_of_self(self, name: str, scope: Scope) -> ast.ClassDef | None:
        function = scope.node
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or scope.parent is None:
            return None
        arguments = [*function.args.posonlyargs, *function.args.args]
        if arguments and arguments[0].arg == name and isinstance(scope.parent.node, ast.ClassDef):
            return scope.parent.node
        return None


def _add(scope: Scope, name: str, binding: Binding) -> None:
    scope.bindings.setdefault(name, []).append(binding)


def _bind_parameters(node: FunctionNode, scope: Scope) -> None:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    pairs += [(extra, None) for extra in (arguments.vararg, arguments.kwarg) if extra is not None]
    for argument, default in pairs:
        _add(scope, argument.arg, Binding((argument.lineno, argument.col_offset), (), default=default))


def _bind_imports(node: ast.Import | ast.ImportFrom, scope: Scope, branch: Branch) -> None:
    position = (node.lineno, node.col_offset)
    for alias in node.names:
        if isinstance(node, ast.Import):
            name = alias.asname or alias.name.partition(".")[0]
            imported = alias.name if alias.asname else name
        elif node.level:
            name, imported = alias.asname or alias.name, f".{node.module or ''}.{alias.name}"
        else:
            name, imported = alias.asname or alias.name, f"{node.module}.{alias.name}"
        _add(scope, name, Binding(position, branch, imported=imported))


def _exclusive(one: Branch, other: Branch) -> bool:
    """Whether two branches are different arms of the same `if`, so that only one of them runs."""
    for (node, arm), (other_node, other_arm) in zip(one, other, strict=False):
        if node != other_node:
            return False
        if arm != other_arm:
            return True
    return False
