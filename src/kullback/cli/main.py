"""`kullback`: one sub-command per question. Torch is imported only when a command needs it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from kullback import __version__
from kullback._core.errors import KullbackError
from kullback.cli import explain, pairs


def build_parser() -> argparse.ArgumentParser:
    """The whole grammar of the command line."""
    parser = argparse.ArgumentParser(prog="kullback", description="KL divergence that is right the first time.")
    parser.add_argument("--version", action="version", version=f"kullback {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", required=True)
    explain.add_parser(commands)
    pairs.add_parser(commands)
    status = commands.add_parser("status", help="what is installed here and which kernels are live")
    status.set_defaults(run=_status)
    return parser


def _status(_: argparse.Namespace) -> int:
    import torch

    from kullback import kernels

    print(f"kullback {__version__}")
    print(f"python   {sys.version.split()[0]}")
    print(f"torch    {torch.__version__} ({torch.get_num_threads()} threads)")
    print(f"kernels  {kernels.status()}")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, or 2 if the input cannot be used."""
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except KullbackError as error:
        print(f"kullback: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader, `head` say, has seen enough; what is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


if __name__ == "__main__":
    raise SystemExit(main())
