"""Comments that silence findings: `# kullback: ignore[KL002]`, `# kullback: ignore`; used by `run.py`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence

from kullback.lint.finding import WARNING, Finding

UNUSED = "KL000"
_COMMENT = re.compile(r"#\s*kullback:\s*ignore(?:\[([^\]]*)\])?", re.IGNORECASE)


def apply(findings: Sequence[Finding], text: str, path: str, active: Sequence[str]) -> list[Finding]:
    """Drop the silenced findings and report the comments that silence nothing.

    A comment counts for every finding whose marked source includes its line. A code that is not being checked
    (`active`) is never reported as unused.
    """
    comments = _comments(text)
    if not comments:
        return list(findings)
    used: set[tuple[int, str]] = set()
    kept = []
    for finding in findings:
        lines = [line for line in range(finding.line, finding.end_line + 1) if line in comments]
        silenced = [(line, code) for line in lines for code in comments[line][1] if code in ("", finding.code)]
        used.update(silenced)
        if not silenced:
            kept.append(finding)
    for line, (column, codes) in comments.items():
        for code in codes:
            if (line, code) in used or (code and code not in active):
                continue
            what = f"ignore[{code}]" if code else "ignore"
            message = f"`kullback: {what}` silences nothing on this line; remove it"
            kept.append(Finding(UNUSED, WARNING, message, path, line, column + 1, line, column + 2))
    return sorted(kept, key=lambda finding: (finding.line, finding.column, finding.code))


def _comments(text: str) -> dict[int, tuple[int, tuple[str, ...]]]:
    """For each line with such a comment: its column and the codes, ("",) for all."""
    if "kullback:" not in text:
        return {}
    found: dict[int, tuple[int, tuple[str, ...]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
            if match:
                codes = tuple(code.strip().upper() for code in (match[1] or "").split(",") if code.strip())
                found[token.start[0]] = (token.start[1], codes or ("",))
    except (tokenize.TokenError, SyntaxError):
        pass  # the comments before the place that does not tokenize still count
    return found
