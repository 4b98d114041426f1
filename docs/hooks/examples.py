"""Griffe extension: show the section `Example:` of a docstring as code. `mkdocs.yml` loads it.

Griffe knows the plural `Examples:` only. It reads `Example:` as running text, where `>>>` becomes a quotation and an
output such as `['1', '2']` a link to nowhere.
"""

from __future__ import annotations

import re
from typing import Any

import griffe


class PluralExamples(griffe.Extension):
    """Give the section the name that griffe knows."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename the section in the docstring of one module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
