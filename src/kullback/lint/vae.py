"""The two terms of a VAE's loss as they are usually written out; used by the rules about their signs and scales.

KL(N(μ, σ²) ‖ N(0, 1)) = −½ Σ (1 + log σ² − μ² − σ²), and a reconstruction loss of torch's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from kullback.lint.patterns import exponent, signed_terms, squared
from kullback.lint.resolver import Module, is_number

# "1 + a - b", "a + 1 - b" or "- 1 - a": the text of the Gaussian KL has one of them.
WRITTEN_OUT = r"\b1(?:\.0*)?\s*\+\s*[^=\n]{1,80}-|[+-]\s*1(?:\.0*)?\s*-"
_LOSSES = {
    "mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "l1_loss", "smooth_l1_loss", "huber_loss",
    "cross_entropy", "nll_loss", "MSELoss", "BCELoss", "BCEWithLogitsLoss", "L1Loss", "SmoothL1Loss", "HuberLoss",
    "CrossEntropyLoss", "NLLLoss",
}  # fmt: skip
_MAX_STEPS = 20


@dataclass(frozen=True)
class Term:
    """One term of a sum that was followed to what it is.

    Attributes:
        node: Where it stands in the sum.
        sign: +1 or −1, with the signs of its numeric factors.
        kind: `"loss"`, `"gaussian"` (1 + log σ² − μ² − σ²) or "".
        reduction: `"sum"` or `"mean"` over everything; None if it is something else or unknown.
    """

    node: ast.expr
    sign: int
    kind: str
    reduction: str | None


def sums(module: Module) -> Iterator[list[Term]]:
    """The terms of every outermost sum of the file."""
    for node in module.nodes:
        if _is_sum(node) and not _is_sum(module.parent(node)):
            yield [_follow(module, term, sign) for sign, term in signed_terms(node)]


def gaussian_sign(module: Module, node: ast.AST) -> int:
    """+1 for 1 + log σ² − μ² − σ² (minus twice the KL), −1 for its negative, 0 for anything else."""
    terms = signed_terms(node)
    if len(terms) != 4:
        return 0
    ones = [sign for sign, term in terms if _is_one(term)]
    rest = [(sign, term) for sign, term in terms if not _is_one(term)]
    if len(ones) != 1:
        return 0
    sign = ones[0]
    subtracted = [term for s, term in rest if s == -sign]
    added = [term for s, term in rest if s == sign]
    if len(subtracted) != 2 or len(added) != 1:
        return 0
    has_square = any(squared(module, term) is not None for term in subtracted)
    has_variance = any(exponent(module, term) is not None for term in subtracted)
    return sign if has_square and has_variance else 0


def _follow(module: Module, term: ast.expr, sign: int) -> Term:
    node: ast.expr | None = term
    reductions: list[str] = []
    for _ in range(_MAX_STEPS):
        if node is None:
            break
        gaussian = gaussian_sign(module, node)
        if gaussian:
            return Term(term, sign * gaussian, "gaussian", reductions[0] if len(reductions) == 1 else None)
        reduction = _loss_reduction(module, node)
        if reduction:
            return Term(term, sign, "loss", None if reductions or reduction == "none" else reduction)
        if isinstance(node, ast.Name):
            node = module.value(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -sign, node.operand
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
            left, right = node.left, node.right
            divides = isinstance(node.op, ast.Div)
            if divides and not is_number(right):
                reductions.append("divided")
            factor, other = (left, right) if _is_factor(module, left) and not divides else (right, left)
            sign *= -1 if _is_negative(factor) else 1
            node = other
        elif isinstance(node, ast.Call):
            node, applied = _inside_reduction(module, node)
            reductions.append(applied)
        else:
            break
    return Term(term, sign, "", None)


def _is_factor(module: Module, node: ast.expr) -> bool:
    """Whether a factor is a weight rather than the term itself: a number, or a name that is not a tensor expression."""
    if is_number(node):
        return True
    value = module.value(node) if isinstance(node, (ast.Name, ast.Attribute)) else node
    return value is None or isinstance(value, (ast.Name, ast.Attribute, ast.Constant))


def _inside_reduction(module: Module, call: ast.Call) -> tuple[ast.expr | None, str]:
    name = module.function(call)
    if name in {"torch.sum", "torch.mean"} and call.args:
        whole = len(call.args) == 1 and not any(k.arg in {"dim", "axis"} for k in call.keywords)
        return call.args[0], name[len("torch.") :] if whole else "partial"
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"sum", "mean"} and name is None:
        whole = not call.args and not any(k.arg in {"dim", "axis"} for k in call.keywords)
        return call.func.value, call.func.attr if whole else "partial"
    return None, "unknown"


def _loss_reduction(module: Module, node: ast.expr) -> str:
    """The reduction of a call of one of torch's reconstruction losses; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    name, settings = module.function(node) or "", node
    if not name.startswith("torch.nn."):
        constructor = module.constructor(node.func)
        if constructor is None:
            return ""
        name, settings = module.function(constructor) or "", constructor
    if not name.startswith("torch.nn.") or name.rpartition(".")[2] not in _LOSSES:
        return ""
    given = {k.arg: k.value.value for k in settings.keywords if isinstance(k.value, ast.Constant)}
    if given.get("size_average") is False or given.get("reduction") == "sum":
        return "sum"
    return "none" if given.get("reduction") == "none" or given.get("reduce") is False else "mean"


def _is_sum(node: ast.AST | None) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, bool) and node.value == 1


def _is_negative(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
