"""Warnings that point at the user's line, count once per line whatever their numbers, and cost nothing when ignored."""

from __future__ import annotations

import sys
import warnings

from kullback._core.errors import KullbackWarning


class _Notice(str):
    """A warning text that equals every other text of its kind.

    Python's `default` filter shows a text once per line by comparing texts. The numbers in ours change from batch to
    batch, and a training loop must not print one warning per batch.
    """

    __slots__ = ("kind",)
    kind: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Notice) and self.kind == other.kind

    def __hash__(self) -> int:
        return hash(self.kind)


def warn_caller(kind: str, text: str, category: type[Warning] = KullbackWarning) -> None:
    """Warn at the nearest frame outside kullback and torch; `kind` is what makes two warnings at one line the same."""
    notice = _Notice(text)
    notice.kind = kind
    warnings.warn(notice, category, stacklevel=_depth_of_caller())


def is_ignored(category: type[Warning] = KullbackWarning) -> bool:
    """Whether Python's filters certainly drop a warning of this category, whatever its text and its line.

    The filters are searched as Python searches them. A filter that looks at the text, module or line might match or
    not, so from there on the answer is no and the caller does its checks.
    """
    if getattr(sys.flags, "context_aware_warnings", False):
        return False  # Python 3.14 may hold the filters in a context instead of in `warnings.filters`
    for action, text, kind, module, line in warnings.filters:
        if issubclass(category, kind):
            return action == "ignore" and text is None and module is None and line == 0
    return False


def _depth_of_caller() -> int:
    """The `stacklevel`, seen from the function that calls this one, of the first frame outside kullback and torch."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_library(str(frame.f_globals.get("__name__"))):
        depth, frame = depth + 1, frame.f_back
    return depth


def _is_library(module: str) -> bool:
    return module in {"kullback", "torch"} or module.startswith(("kullback.", "torch."))
