"""Forms of expressions that several rules look for: sums, squares, exponentials and logarithms."""

from __future__ import annotations

import ast

from kullback.lint.resolver import Module


def signed_terms(node: ast.AST) -> list[tuple[int, ast.expr]]:
    """A − (b − c) as [(1, a), (−1, b), (1, c)]."""
    found: list[tuple[int, ast.expr]] = []
    stack: list[tuple[int, ast.AST]] = [(1, node)]
    while stack:
        sign, part = stack.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub)):
            stack.append((sign if isinstance(part.op, ast.Add) else -sign, part.right))
            stack.append((sign, part.left))
        elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
            stack.append((-sign, part.operand))
        elif isinstance(part, ast.expr):
            found.append((sign, part))
    return found


def squared(module: Module, node: ast.AST) -> ast.expr | None:
    """The x of x ** 2, x.pow(2), torch.pow(x, 2), torch.square(x) or x * x."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow) and _is_two(node.right):
            return node.left
        return node.left if isinstance(node.op, ast.Mult) and module.same(node.left, node.right) else None
    if not isinstance(node, ast.Call):
        return None
    name = module.function(node)
    if name in {"torch.pow", "torch.square"} and node.args:
        return node.args[0] if name == "torch.square" or (len(node.args) > 1 and _is_two(node.args[1])) else None
    if not isinstance(node.func, ast.Attribute) or name is not None:
        return None
    is_pow = node.func.attr == "pow" and bool(node.args) and _is_two(node.args[0])
    return node.func.value if node.func.attr == "square" or is_pow else None


def exponent(module: Module, node: ast.AST) -> ast.expr | None:
    """The x of torch.exp(x) or x.exp()."""
    if isinstance(node, ast.Call):
        if module.function(node) == "torch.exp" and node.args:
            return node.args[0]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "exp" and not node.args:
            return node.func.value
    return None


def log_argument(module: Module, node: ast.AST) -> ast.expr | None:
    """The x of torch.log(x) or x.log()."""
    if isinstance(node, ast.Call):
        if module.function(node) == "torch.log" and len(node.args) == 1 and not node.keywords:
            return node.args[0]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "log" and not node.args:
            return node.func.value if module.function(node) is None else None
    return None


def _is_two(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 2
