"""Rows of a teacher on disk (`losses.TeacherWriter`) as k classes and the mass of all others; for `compare.py`.

A comparison with such a base is one of k + 1 classes: what the other gives to the teacher's k classes, and to all the
rest together. Merging classes can only lower a divergence, so every figure is a lower bound of that of all classes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from torch import Tensor

from kullback.comparison.measures import log_weights
from kullback.comparison.readers import ConcatenatedRows, FileRows, Rows, open_rows, refuse
from kullback.losses.teacher_file import TeacherReader
from kullback.tensors.views import Logits, View

ALL_OTHERS = -1  # in place of a class


def is_teacher(source: object) -> bool:
    """Whether it is a folder that a `TeacherWriter` finished."""
    return isinstance(source, str | Path) and (Path(source) / "teacher.json").is_file()


class TeacherRows:
    """Tokens of a teacher.

    Attributes:
        k: Classes per token.
        temperature: At which the teacher was recorded; others are divided by it.
    """

    def __init__(self, folder: str | Path) -> None:
        reader = TeacherReader(folder)
        self.name, self.k, self.temperature = str(folder), reader.info.k, reader.info.temperature
        self.shape = (reader.info.tokens, reader.info.vocabulary)
        files = [part["file"] for part in json.loads((Path(folder) / "teacher.json").read_text())["parts"]]
        if not files:
            refuse(self.name, "it holds no tokens")
        self._ids, self._log_probs, self._log_tail = (
            ConcatenatedRows(self.name, [_token_rows(Path(folder) / file, name) for file in files])
            for name in ("ids", "log_probs", "log_tail")
        )

    def ids(self, start: int, stop: int) -> Tensor:
        """The k classes of each token, -1 in empty slots."""
        found = self._ids.read(start, stop).long()
        if found.numel() and not -1 <= int(found.min()) <= int(found.max()) < self.shape[-1]:
            refuse(self.name, f"it holds ids from {int(found.min())} to {int(found.max())} of {self.shape[-1]} classes")
        return found

    def read(self, start: int, stop: int) -> Tensor:
        """Log-probabilities of the k classes and of all others together, (rows, k + 1)."""
        slots = self._log_probs.read(start, stop).float().masked_fill(self.ids(start, stop) < 0, -math.inf)
        return torch.cat([slots, self._log_tail.read(start, stop).float()], -1)

    def merged(self, view: View, start: int, stop: int) -> Logits:
        """Rows of all classes as those of the teacher's classes and all others."""
        ids = self.ids(start, stop)
        logs = log_weights(view, view.tensor).float() / self.temperature
        slots = logs.gather(-1, ids.clamp(min=0)).masked_fill(ids < 0, -math.inf)
        # Empty slots point to a class beyond the last.
        rest = torch.cat([logs, logs.new_full((len(logs), 1), -math.inf)], -1)
        rest.scatter_(-1, torch.where(ids < 0, logs.shape[-1], ids), -math.inf)
        return Logits(torch.cat([slots, rest.logsumexp(-1, keepdim=True)], -1))

    def class_of_slot(self, row: int, slot: int) -> int:
        """The class of a slot of one token."""
        return int(self.ids(row, row + 1)[0, slot]) if slot < self.k else ALL_OTHERS


def _token_rows(path: Path, name: str) -> Rows:
    """One tensor of a part, a row for each token; a vector is a column."""
    rows = open_rows(f"{path}:{name}")
    if name == "log_tail" and isinstance(rows, FileRows):
        rows.shape = (rows.shape[-1], 1)
    return rows


def note(rows: TeacherRows) -> str:
    """What the report says of such a base."""
    return (
        f"The base holds {rows.k} classes of {rows.shape[-1]} and the mass of all others: figures are of these "
        f"{rows.k + 1} classes, lower bounds of those of all."
    )
