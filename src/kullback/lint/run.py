"""Check sources with the rules: parse, ask every rule, drop what comments silence; used by the command line."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from kullback.lint import suppression
from kullback.lint.finding import Finding, Rule
from kullback.lint.resolver import Module
from kullback.lint.rules import RULES
from kullback.lint.sources import Source, UnreadableError, find_files, read


@dataclass
class Report:
    """What was found.

    Attributes:
        findings: In the order of files and lines.
        skipped: Files that could not be checked, with the reason.
        texts: The source of each file with findings.
        files: How many files were looked at.
    """

    findings: list[Finding] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    files: int = 0


def lint_paths(paths: Sequence[str], rules: Sequence[Rule] | None = None, exclude: Sequence[str] = ()) -> Report:
    """Check files and folders."""
    report = Report()
    for path in find_files(paths, exclude):
        report.files += 1
        try:
            source = read(path)
            findings = check(source, rules)
        except UnreadableError as error:
            report.skipped.append((path, str(error)))
            continue
        if findings:
            report.findings += findings
            report.texts[source.path] = source.text
    return report


def lint_source(text: str, path: str = "<string>", rules: Sequence[Rule] | None = None) -> list[Finding]:
    r"""Check one piece of Python.

    Example:
        >>> code = "import torch.nn.functional as F\nloss = F.kl_div(F.softmax(x, -1), y, reduction='sum')"
        >>> [(finding.code, finding.line) for finding in lint_source(code)]
        [('KL002', 2)]
    """
    return check(Source(path, text), rules)


def check(source: Source, rules: Sequence[Rule] | None = None) -> list[Finding]:
    """The findings of one source; raises `UnreadableError` if it does not parse."""
    chosen = [rule for rule in RULES if rule.on_by_default] if rules is None else rules
    # Parsing takes most of the time: a file without "torch", or without the words that a rule needs, is not parsed.
    needs = {rule.needs for rule in chosen} if "torch" in source.text else set()
    present = {pattern for pattern in needs if re.search(pattern, source.text)}
    asked = [rule for rule in chosen if rule.needs in present]
    if not asked and "kullback:" not in source.text:
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler, about invalid escapes in the file
            tree = ast.parse(source.text)
        module = Module(tree, source.text, source.path)
        findings = [found for rule in asked for found in _ask(rule, module)]
    except SyntaxError as error:
        raise UnreadableError(f"does not parse (line {error.lineno}: {error.msg})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"does not parse ({type(error).__name__})") from error
    findings.sort(key=lambda finding: (finding.line, finding.column, finding.code))
    kept = suppression.apply(findings, source.text, source.path, [rule.code for rule in chosen])
    return [_in_cell(finding, source) for finding in kept] if source.cell_starts else kept


def _ask(rule: Rule, module: Module) -> list[Finding]:
    found = {}
    for node, message, *edits in rule.check(module):
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        line, column, end_line, end_column = place
        found[place] = Finding(
            rule.code, rule.severity, message, module.path, line, _characters(module, line, column),
            end_line, _characters(module, end_line, end_column), edits=edits[0] if edits else (),
        )  # fmt: skip
    return list(found.values())


def _characters(module: Module, line: int, column: int) -> int:
    """The 1-based column in characters of a column in bytes."""
    return len(module.lines[line - 1].encode()[:column].decode(errors="ignore")) + 1


def _in_cell(finding: Finding, source: Source) -> Finding:
    cell, line = source.cell_of(finding.line)
    moved = finding.line - line
    return Finding(
        finding.code, finding.severity, finding.message, finding.path, line, finding.column,
        finding.end_line - moved, finding.end_column, cell,
    )  # fmt: skip
