"""MkDocs hook: take out of code blocks what only doctest reads."""

from __future__ import annotations

import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Remove comments such as `# doctest: +ELLIPSIS`; show `<BLANKLINE>` as an empty line."""
    markdown = re.sub(r"(?m)  # doctest: .*$", "", markdown)
    return re.sub(r"(?m)^<BLANKLINE>$", "", markdown)
