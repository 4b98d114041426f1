"""`kullback status`: what is installed here and which kernels are live."""

from __future__ import annotations

import sys

from kullback import __version__


def command() -> None:
    """Show what is installed here and which kernels are live."""
    import torch

    from kullback import kernels

    print(f"kullback {__version__}")
    print(f"python   {sys.version.split()[0]}")
    print(f"torch    {torch.__version__} ({torch.get_num_threads()} threads)")
    print(f"kernels  {kernels.status()}")
