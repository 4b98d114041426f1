"""`kullback`: one sub-command per question.

A command is a file `cli/<name>.py` with a function `command`, whose parameters typer reads, and one line in
`build_app`. Such a file imports torch, rich and the rooms inside its function, so that `kullback --help` needs none.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer

from kullback import __version__
from kullback._core.errors import KullbackError, NoRouteError
from kullback.cli import compare, estimate, explain, fit, lint, pairs, status
from kullback.cli.options import INTERNAL, NO_ROUTE, OK, USAGE, Debug, one_line, write_any_encoding

_EPILOG = """Examples:

\b
kullback explain "Normal(0, 1)" "StudentT(3, 0, 1)"
kullback explain "0.3*Normal(0, 1) + 0.7*Normal(4, 1)" "Normal(2, 2)" --html report.html
kullback explain teacher.npy student.npy --as logits
kullback compare base.npy quantised.npy --as logits
kullback estimate x.npy y.npy
kullback pairs --p Gamma
kullback lint src/
"""


def build_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="kullback",
        help="KL divergence that is right the first time.",
        epilog=_EPILOG,
        rich_markup_mode=None,  # help as plain text: rich takes another fifth of a second to import
        pretty_exceptions_enable=False,
    )
    app.callback(epilog=_EPILOG)(_main_options)
    app.command("estimate", epilog=estimate.EPILOG)(estimate.command)
    app.command("explain", epilog=explain.EPILOG)(explain.command)
    app.command("fit", epilog=fit.EPILOG)(fit.command)
    app.command("lint", epilog=lint.EPILOG)(lint.command)
    app.command("compare", epilog=compare.EPILOG)(compare.command)
    app.command("pairs", epilog=pairs.EPILOG)(pairs.command)
    app.command("status")(status.command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"kullback {__version__}")
        raise typer.Exit


def _main_options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Debug = False,
) -> None:
    """KL divergence that is right the first time."""
    del version, debug  # read by the callback, and by main from the arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, 1 no route, 2 usage, 3 threshold exceeded."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    write_any_encoding()
    try:
        # A command returns its exit status; without standalone mode typer hands it on.
        code = typer.main.get_command(build_app())(arguments or ["--help"], "kullback", standalone_mode=False)
        sys.stdout.flush()
        return int(code or OK)
    except BrokenPipeError:
        # The reader, `head` say, has seen enough; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the last place where an error can become one line
        if "--debug" in arguments:
            traceback.print_exc()
        return _report(error)


def _report(error: Exception) -> int:
    """Print one line about an error, and return its exit status."""
    usage = getattr(error, "format_message", None)
    if usage is not None:  # typer's own: an unknown command or option, a missing argument
        path = getattr(getattr(error, "ctx", None), "command_path", "kullback")
        said = " ".join(str(usage()).split())
        if said.startswith("No such command") and "(" in said:  # an expression where a command belongs
            said += ' Did you mean kullback explain "Normal(0, 1)" "Normal(1, 2)"?'
        print(f"kullback: {said} (see {path} --help)", file=sys.stderr)
        return USAGE
    if isinstance(error, KullbackError):
        print(f"kullback: {one_line(error)}", file=sys.stderr)
        return NO_ROUTE if isinstance(error, NoRouteError) else USAGE
    print(f"kullback: {type(error).__name__}: {one_line(error)} (run again with --debug)", file=sys.stderr)
    return INTERNAL


if __name__ == "__main__":
    raise SystemExit(main())
