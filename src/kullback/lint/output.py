"""Write a report as text, JSON, SARIF or GitHub annotations; used by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from kullback.lint.finding import ERROR, INFO, WARNING
from kullback.lint.rules import RULES
from kullback.lint.run import Report

_SARIF_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "note"}
_GITHUB_LEVELS = {ERROR: "error", WARNING: "warning", INFO: "notice"}
_MAX_LINE = 200


def as_text(report: Report) -> str:
    """One paragraph a finding, with the source line and a caret below the place."""
    parts = []
    for f in report.findings:
        cell = f" cell {f.cell}" if f.cell else ""
        parts.append(f"{f.path}{cell}:{f.line}:{f.column}: {f.code} {f.severity}: {f.message}")
        lines = report.texts.get(f.path, "").split("\n")
        if not f.cell and f.line <= len(lines) and len(lines[f.line - 1]) <= _MAX_LINE:
            end = f.end_column if f.end_line == f.line else len(lines[f.line - 1]) + 1
            parts += [f"    {lines[f.line - 1]}", "    " + " " * (f.column - 1) + "^" * max(1, end - f.column)]
    parts += [f"{path}: skipped: {reason}" for path, reason in report.skipped]
    counts = {s: sum(f.severity == s for f in report.findings) for s in (ERROR, WARNING, INFO)}
    found = ", ".join(f"{n} {s}{'s' if n != 1 and s != INFO else ''}" for s, n in counts.items() if n)
    fixable = sum(bool(f.edits) for f in report.findings)
    hint = f" ({fixable} can be rewritten with --fix)" if fixable else ""
    parts.append(f"{report.files} file{'s' if report.files != 1 else ''} checked: {found or 'nothing found'}{hint}")
    return "\n".join(parts) + "\n"


def as_json(report: Report) -> str:
    """The findings as a JSON object."""
    findings = [
        {k: v for k, v in asdict(f).items() if k != "edits"} | {"fixable": bool(f.edits)} for f in report.findings
    ]
    skipped = [{"path": path, "reason": reason} for path, reason in report.skipped]
    return json.dumps({"version": 1, "files": report.files, "findings": findings, "skipped": skipped}, indent=2) + "\n"


def as_sarif(report: Report) -> str:
    """SARIF 2.1.0, which code hosts and editors read."""
    rules = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.name},
            "fullDescription": {"text": rule.page},
            "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity], "enabled": rule.on_by_default},
        }
        for rule in RULES
    ]
    results = [
        {
            "ruleId": f.code,
            "level": _SARIF_LEVELS[f.severity],
            "message": {"text": f.message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": f.path.replace("\\", "/")},
                        "region": {
                            "startLine": f.line, "startColumn": f.column,
                            "endLine": f.end_line, "endColumn": f.end_column,
                        },
                    }
                }
            ],
        }
        for f in report.findings
    ]  # fmt: skip
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    run = {"tool": {"driver": {"name": "kullback lint", "rules": rules}}, "results": results}
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def as_github(report: Report) -> str:
    """Workflow commands that GitHub shows beside the changed lines."""
    lines = []
    for f in report.findings:
        place = f"file={_property(f.path)},line={f.line},col={f.column},endLine={f.end_line},endColumn={f.end_column}"
        lines.append(f"::{_GITHUB_LEVELS[f.severity]} {place},title={f.code}::{_escape(f.message)}\n")
    return "".join(lines)


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "github": as_github,
}
