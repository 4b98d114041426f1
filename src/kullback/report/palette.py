"""Colours by number, the same in every renderer; after Okabe and Ito, which the colour-blind can tell apart."""

from __future__ import annotations

LIGHT = ("#0072b2", "#c84e00", "#007a59", "#9b3f8c", "#5f6672")
DARK = ("#5cb8f0", "#ff9d4d", "#35c795", "#e295cf", "#a3abb8")
# The numbers of the 256 colours of terminals, readable on black and on white.
TERMINAL = (32, 208, 36, 170, 244)
SEVERITY = {"info": "info", "warning": "check", "error": "wrong"}


def cycle(colors: tuple[str, ...], number: int) -> str:
    """The colour of this number."""
    return colors[number % len(colors)]
