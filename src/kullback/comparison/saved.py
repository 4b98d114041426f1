"""The state of a comparison in a JSON file, so that it can be resumed; for `kullback compare --resume`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kullback._core.errors import InputValueError, explain_problem
from kullback._core.files import write_whole
from kullback.comparison.compare import Job
from kullback.comparison.summary import Summary

_FORMAT = "kullback-comparison"
_MAX_BYTES = 1 << 28


def save_job(job: Job, path: Path) -> None:
    """Write what was found so far; the file is replaced at once, never half."""
    state = {
        "format": _FORMAT,
        "version": 1,
        "about": _about(job),
        "next_row": job.next_row,
        "accumulators": [accumulator.state_dict() for accumulator in job.accumulators],
        "paired": [[a, b, summary.state()] for (a, b), summary in job.paired.items()],
    }
    content = json.dumps(state)
    write_whole(path, lambda beside: beside.write_text(content, encoding="utf-8"))


def load_job(job: Job, path: Path) -> bool:
    """Continue from a file if there is one; whether there was.

    Raises:
        InputValueError: If it is damaged or belongs to another comparison.
    """
    if not path.exists():
        return False
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        state = json.loads(path.read_text(encoding="utf-8"))
        known = isinstance(state, dict) and state.get("format") == _FORMAT and state.get("version") == 1
    except (OSError, ValueError, RecursionError) as error:
        raise InputValueError(f"{path} is not a saved comparison: {error}.") from error
    if not known:
        raise InputValueError(f"{path} is not a saved comparison.")
    if state.get("about") != _about(job):
        raise InputValueError(
            explain_problem(
                "The saved comparison is of other files or settings.",
                got=str(state.get("about")),
                expected=str(_about(job)),
                instead="another file after --resume",
            )
        )
    try:
        next_row = int(state["next_row"])
        for accumulator, saved in zip(job.accumulators, state["accumulators"], strict=True):
            accumulator.load_state_dict(saved)
        job.paired = {(int(a), int(b)): Summary.from_state(saved) for a, b, saved in state["paired"]}
    except (KeyError, TypeError, ValueError) as error:
        raise InputValueError(f"{path} is damaged: {error}.") from error
    if not job.next_row <= next_row <= job.stop:
        raise InputValueError(f"{path} is damaged: it continues at row {next_row}.")
    job.next_row = next_row
    return True


def _about(job: Job) -> dict[str, Any]:
    """What must be the same: names, shapes and settings, and a digest of the first rows of every side."""
    sides = [job.base, *job.others]
    return {
        "files": [[side.rows.name, list(side.rows.shape), _digest(side)] for side in sides],
        "rows": [job.accumulators[0].first_row, job.stop],
        "block_rows": job.block_rows,
        "settings": job.accumulators[0]._settings(),
        "labels": job.labels is not None,
        "documents": job.documents is not None,
        "align": job.align,
    }


def _digest(side: Any) -> str:
    rows = side.rows.read(0, min(1, side.rows.shape[0]))
    return hashlib.sha256(rows.double().numpy().tobytes()).hexdigest()[:16]
