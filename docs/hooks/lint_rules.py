"""MkDocs hook: one page per rule of `kullback lint`, made from the docstring of the rule's file."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from kullback.lint.rules import RULES

TABLE = "<!-- table of lint rules -->"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add `lint/KL001.md` and so on."""
    for rule in RULES:
        files.append(File.generated(config, f"lint/{rule.code}.md", content=_page(rule.page, rule.severity)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Fill the table of rules."""
    rows = [
        f"| [{r.code}](lint/{r.code}.md) | {r.severity}{'' if r.on_by_default else ', off by default'} | {r.name} |"
        for r in RULES
    ]
    return markdown.replace(TABLE, "\n".join(["| code | severity | what |", "|---|---|---|", *rows]))


def _page(docstring: str, severity: str) -> str:
    title, _, body = docstring.strip().partition("\n")
    lines, in_code = [f"# {title}", "", f"*Severity: {severity}.*"], False
    for line in body.split("\n"):
        if line.startswith(">>>") and not in_code:
            lines.append("```python")
            in_code = True
        elif not line.strip() and in_code:
            lines.append("```")
            in_code = False
        lines.append(line)
    return "\n".join([*lines, "```"] if in_code else lines) + "\n"
