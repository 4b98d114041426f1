"""What a rule is and what it reports: `Rule`, `Finding`, `Edit`; used by every rule and every output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast

    from kullback.lint.resolver import Module

ERROR, WARNING, INFO = "error", "warning", "info"


@dataclass(frozen=True)
class Edit:
    """Replace the source between two positions (1-based lines, columns in UTF-8 bytes as `ast` counts them)."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One mistake at one place.

    Attributes:
        code: The rule, `"KL002"`.
        severity: `"error"`, `"warning"` or `"info"`.
        message: What is wrong and what to write instead, in one or two sentences.
        path: The file as it was named.
        line: 1-based line.
        column: 1-based column.
        end_line: Last line of the marked source.
        end_column: Column after the marked source.
        cell: Number of the notebook cell, 1-based; 0 in a plain file. Lines then count within the cell.
        edits: A rewrite that does not change the meaning; empty if there is none.
    """

    code: str
    severity: str
    message: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0
    edits: tuple[Edit, ...] = ()


Problem = tuple["ast.AST", str] | tuple["ast.AST", str, tuple[Edit, ...]]


@dataclass(frozen=True)
class Rule:
    """A mistake that the linter knows.

    Attributes:
        code: `"KL002"`.
        name: A few words, `"input is a probability"`.
        severity: `"error"`, `"warning"` or `"info"`.
        check: Yields a node, a message and, where a rewrite keeps the meaning, its edits.
        page: The rule's documentation: wrong code, what it returns, right code (the docstring of its file).
        needs: A regular expression without which the file has nothing for this rule; most files are never parsed.
        on_by_default: False for a rule that is too often wrong about code on purpose.
    """

    code: str
    name: str
    severity: str
    check: Callable[[Module], Iterable[Problem]]
    page: str
    needs: str
    on_by_default: bool = True


def replace(node: ast.AST, text: str) -> Edit:
    """The edit that puts `text` in the place of a node."""
    return Edit(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text)  # type: ignore[attr-defined]
