"""`kullback lint`: find the KL mistakes in code, without torch and without running it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kullback._core.errors import InputValueError

EPILOG = """Examples:

\b
kullback lint src/ notebooks/
kullback lint train.py --select KL002,KL010 --format github
kullback lint src/ --diff
kullback lint --explain KL010

\b
A comment `# kullback: ignore[KL010]` silences one line; [tool.kullback.lint] in pyproject.toml has
select, ignore and exclude.
"""


def command(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH", help="Files, folders, notebooks; - for standard input.")
    ] = None,
    *,
    select: Annotated[list[str] | None, typer.Option(help="Only these codes (or prefixes, or ALL).")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="Not these codes.")] = None,
    format_: Annotated[str, typer.Option("--format", help="text, json, sarif or github.")] = "text",
    fix: Annotated[bool, typer.Option("--fix", help="Apply the rewrites that do not change the meaning.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show those rewrites, change nothing.")] = False,
    explain: Annotated[str | None, typer.Option(metavar="CODE", help="Print the page of a rule.")] = None,
) -> int:
    """Find KL mistakes in code: 0 nothing found, 1 findings, 2 usage."""
    from kullback.lint.output import FORMATS
    from kullback.lint.rules import BY_CODE
    from kullback.lint.run import lint_paths
    from kullback.lint.settings import SettingsError, read_settings

    if explain is not None:
        rule = BY_CODE.get(explain.upper())
        if rule is None:
            raise InputValueError(f"There is no rule {explain!r}. The rules are {', '.join(BY_CODE)}.")
        default = "" if rule.on_by_default else ", off by default"
        print(f"{rule.page.strip()}\n\nSeverity: {rule.severity}{default}.")
        return 0
    if not paths:
        raise InputValueError("Nothing to check. Write `kullback lint src/`, or - for standard input.")
    if format_ not in FORMATS:
        raise InputValueError(f"There is no format {format_!r}. Write one of {', '.join(FORMATS)}.")
    missing = [path for path in paths if path != "-" and not Path(path).exists()]
    if missing:
        raise InputValueError(f"{missing[0]} does not exist.")
    try:
        settings = read_settings(Path.cwd() if paths[0] == "-" else _folder(Path(paths[0])), select, ignore)
    except SettingsError as error:
        raise InputValueError(str(error)) from error
    report = lint_paths(paths, settings.rules, settings.exclude)
    if fix or diff:
        from kullback.lint.fix import rewrite

        shown = rewrite(report, write=fix and not diff)
        sys.stdout.write(shown)
        if diff:
            return 1 if shown else 0
        report = lint_paths([path for path in paths if path != "-"], settings.rules, settings.exclude)
    sys.stdout.write(FORMATS[format_](report))
    return 1 if report.findings else 0


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent
