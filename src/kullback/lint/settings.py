"""Which rules run: `--select`, `--ignore` and `[tool.kullback.lint]` in pyproject.toml; used by the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kullback.lint.finding import Rule
from kullback.lint.rules import RULES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class SettingsError(Exception):
    """A setting that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Settings:
    """What to check.

    Attributes:
        rules: The rules to run.
        exclude: Patterns of files to leave out.
    """

    rules: tuple[Rule, ...]
    exclude: tuple[str, ...] = ()


def read_settings(start: Path, select: Sequence[str] | None = None, ignore: Sequence[str] | None = None) -> Settings:
    """The settings of the nearest pyproject.toml at or above `start`; the two arguments win over the file."""
    table = _table(start)
    unknown = set(table) - {"select", "ignore", "exclude"}
    if unknown:
        raise SettingsError(f"[tool.kullback.lint] has no setting {sorted(unknown)[0]!r}: select, ignore, exclude")
    selected = _codes(table.get("select", []) if select is None else select, "select")
    ignored = _codes(table.get("ignore", []) if ignore is None else ignore, "ignore")
    rules = [r for r in RULES if (r.code in selected if selected else r.on_by_default) and r.code not in ignored]
    return Settings(tuple(rules), tuple(_strings(table.get("exclude", []), "exclude")))


def _codes(given: Iterable[str], name: str) -> set[str]:
    """The codes that prefixes stand for: `KL00` is KL001 to KL009, `ALL` is all."""
    found: set[str] = set()
    for word in _strings(given, name):
        matching = {r.code for r in RULES if word.upper() == "ALL" or r.code.startswith(word.upper())}
        if not matching:
            raise SettingsError(f"{name}: there is no rule {word!r}; the rules are {RULES[0].code} to {RULES[-1].code}")
        found |= matching
    return found


def _strings(given: Any, name: str) -> list[str]:
    if not isinstance(given, (list, tuple, set)) or not all(isinstance(word, str) for word in given):
        raise SettingsError(f"{name} in [tool.kullback.lint] must be a list of strings")
    return [part.strip() for word in given for part in word.split(",") if part.strip()]


def _table(start: Path) -> dict[str, Any]:
    folder = start.resolve()
    for candidate in [folder, *folder.parents]:
        file = candidate / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file} is not valid TOML: {error}") from error
        table = content.get("tool", {}).get("kullback", {}).get("lint", {})
        return table if isinstance(table, dict) else {}
    return {}
