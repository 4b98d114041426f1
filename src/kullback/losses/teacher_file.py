"""A teacher on disk: `TeacherWriter` and `TeacherReader`, for `topk_distillation` without the teacher in memory.

A teacher is a folder of safetensors files (no code is ever read from them) and an index:

    teacher.json                 format, version, vocabulary, k, temperature, tokenizer hash, and per part: file name,
                                 sequences, tokens, sha256 of the file
    part-00000.safetensors       ids        int32    (tokens, k)   class indices, -1 in empty slots
    part-00001.safetensors       log_probs  float16  (tokens, k)   or float32; in the whole vocabulary
    ...                          log_tail   float32  (tokens,)     logarithm of the mass of all other classes
                                 offsets    int64    (sequences + 1,)  where the sequences begin

The index is written last: a folder without one was not finished.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, ShapeError, explain_problem
from kullback.losses.sparse_distillation import SparseTeacher

FORMAT, VERSION = "kullback-teacher", 1
_INDEX = "teacher.json"
_MAX_CLASSES = (1 << 31) - 1  # ids are int32
_MAX_LOG_PROB = 1e-3
_TENSORS = {"ids": torch.int32, "log_probs": (torch.float16, torch.float32), "log_tail": torch.float32}


class TeacherInfo(NamedTuple):
    """What the index of a teacher says.

    Attributes:
        vocabulary: Number of classes.
        k: Classes per token.
        temperature: At which the teacher was recorded.
        tokenizer_hash: Whatever identifies the tokenizer; "" where it is not known.
        sequences: Number of sequences.
        tokens: Number of tokens.
    """

    vocabulary: int
    k: int
    temperature: float
    tokenizer_hash: str
    sequences: int
    tokens: int


class TeacherWriter:
    """Write a teacher sequence by sequence; a part goes to disk whenever it is full.

    Args:
        folder: Made if it does not exist; must not hold a teacher already.
        vocabulary: Number of classes.
        temperature: At which the log-probabilities are taken.
        tokenizer_hash: Whatever identifies the tokenizer, so that a student with another one is refused.
        half: Keep log-probabilities in float16 (their error is at most 0.05 % of their size) instead of float32.
        tokens_per_part: How many tokens are held in memory.

    Example:
        >>> import tempfile, torch
        >>> from kullback.losses import TeacherReader, TeacherWriter, topk_teacher
        >>> folder = tempfile.mkdtemp() + "/teacher"
        >>> with TeacherWriter(folder, vocabulary=100) as writer:
        ...     for length in (5, 7):
        ...         writer.write(topk_teacher(torch.randn(length, 100), 8))
        >>> reader = TeacherReader(folder)
        >>> len(reader), reader.info.tokens, reader[1].ids.shape
        (2, 12, torch.Size([7, 8]))
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        vocabulary: int,
        temperature: float = 1.0,
        tokenizer_hash: str = "",
        half: bool = True,
        tokens_per_part: int = 1 << 20,
    ) -> None:
        self.folder = Path(folder)
        if (self.folder / _INDEX).exists():
            raise InputValueError(
                explain_problem("There is a teacher in this folder already.", got=str(folder), expected="a new folder")
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._about: dict[str, Any] = {
            "vocabulary": vocabulary,
            "temperature": temperature,
            "tokenizer_hash": tokenizer_hash,
        }
        self._dtype = torch.float16 if half else torch.float32
        self._limit = tokens_per_part
        self._held: list[SparseTeacher] = []
        self._parts: list[dict[str, Any]] = []
        self._k: int | None = None

    def write(self, sequence: SparseTeacher) -> None:
        """Add one sequence: tensors of shape (tokens, k), (tokens, k) and (tokens,)."""
        log_probs, ids, log_tail = (t.detach().cpu() for t in sequence)
        if ids.dim() != 2 or log_probs.shape != ids.shape or log_tail.shape != ids.shape[:1]:
            raise ShapeError(
                explain_problem(
                    "A sequence has one row per token.",
                    got=f"log_probs {tuple(log_probs.shape)}, ids {tuple(ids.shape)}, log_tail {tuple(log_tail.shape)}",
                    expected="(tokens, k), (tokens, k) and (tokens,)",
                    instead="one write() per sequence of a batch",
                )
            )
        self._k = ids.shape[1] if self._k is None else self._k
        if ids.shape[1] != self._k:
            raise ShapeError(
                explain_problem(
                    "All sequences have as many classes per token.",
                    got=f"k = {ids.shape[1]}",
                    expected=f"k = {self._k}, with id -1 and log-probability -inf in empty slots",
                )
            )
        if ids.numel() and (int(ids.max()) >= self._about["vocabulary"] or int(ids.min()) < -1):
            raise InputValueError(
                explain_problem(
                    "An id is not in the vocabulary.",
                    got=f"ids from {int(ids.min())} to {int(ids.max())}",
                    expected=f"-1 to {self._about['vocabulary'] - 1}",
                )
            )
        self._held.append(SparseTeacher(log_probs.to(self._dtype), ids.to(torch.int32), log_tail.float()))
        if sum(len(held.ids) for held in self._held) >= self._limit:
            self._flush()

    def close(self) -> None:
        """Write what is held, and the index."""
        self._flush()
        index = {"format": FORMAT, "version": VERSION, **self._about, "k": self._k or 0, "parts": self._parts}
        (self.folder / _INDEX).write_text(json.dumps(index, indent=1), encoding="utf-8")

    def _flush(self) -> None:
        if not self._held:
            return
        from safetensors.torch import save_file

        lengths = torch.tensor([0, *(len(held.ids) for held in self._held)])
        tensors = {
            "ids": torch.cat([held.ids for held in self._held]),
            "log_probs": torch.cat([held.log_probs for held in self._held]),
            "log_tail": torch.cat([held.log_tail for held in self._held]),
            "offsets": lengths.cumsum(0),
        }
        name = f"part-{len(self._parts):05}.safetensors"
        save_file(tensors, self.folder / name, metadata={"format": FORMAT, "version": str(VERSION)})
        self._parts.append(
            {
                "file": name,
                "sequences": len(self._held),
                "tokens": int(lengths.sum()),
                "sha256": _sha256(self.folder / name),
            }
        )
        self._held = []

    def __enter__(self) -> TeacherWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


class TeacherReader:
    """Read a teacher: `len(reader)`, `reader[i]`, or all sequences in order, one part in memory at a time.

    Args:
        folder: What a `TeacherWriter` wrote.
        tokenizer_hash: If given, another one in the index is an error.
        verify: Compare every part with its SHA-256 before anything is read.
    """

    def __init__(self, folder: str | Path, *, tokenizer_hash: str | None = None, verify: bool = True) -> None:
        self.folder = Path(folder)
        index = self._read_index()
        self._parts: list[dict[str, Any]] = index["parts"]
        self._starts = [0]
        for part in self._parts:
            self._starts.append(self._starts[-1] + part["sequences"])
        tokens = sum(part["tokens"] for part in self._parts)
        self.info = TeacherInfo(
            index["vocabulary"],
            index["k"],
            index["temperature"],
            index["tokenizer_hash"],
            self._starts[-1],
            tokens,
        )
        if tokenizer_hash is not None and tokenizer_hash != self.info.tokenizer_hash:
            raise InputValueError(
                explain_problem(
                    "The teacher was recorded with another tokenizer: its ids mean other tokens.",
                    got=f"tokenizer hash {self.info.tokenizer_hash!r} in the file",
                    expected=repr(tokenizer_hash),
                )
            )
        for part in self._parts:
            self._check_file(part, verify=verify)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, position: int) -> SparseTeacher:
        if not -len(self) <= position < len(self):
            raise IndexError(f"sequence {position} of {len(self)}")
        position %= len(self)
        number = max(n for n, start in enumerate(self._starts[:-1]) if start <= position)
        with _open(self.folder / self._parts[number]["file"]) as part:
            offsets = _offsets(part, self._parts[number])
            place = position - self._starts[number]
            start, stop = int(offsets[place]), int(offsets[place + 1])
            return self._sequence({name: part.get_slice(name)[start:stop] for name in _TENSORS})

    def __iter__(self) -> Iterator[SparseTeacher]:
        for about in self._parts:
            with _open(self.folder / about["file"]) as part:
                offsets = _offsets(part, about)
                whole = {name: part.get_tensor(name) for name in _TENSORS}
            for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
                yield self._sequence({name: tensor[start:stop] for name, tensor in whole.items()})

    def _sequence(self, tensors: dict[str, Tensor]) -> SparseTeacher:
        ids = tensors["ids"].long()
        if ids.dim() != 2 or ids.shape[1] != self.info.k or tensors["log_probs"].shape != ids.shape:
            self._refuse(f"ids of shape {tuple(ids.shape)}", f"(tokens, {self.info.k})")
        if ids.numel() and not -1 <= int(ids.min()) <= int(ids.max()) < self.info.vocabulary:
            self._refuse(f"ids from {int(ids.min())} to {int(ids.max())}", f"-1 to {self.info.vocabulary - 1}")
        for name in ("log_probs", "log_tail"):
            # NaN fails the comparison too; half precision rounds a probability of 1 up by less than this.
            if not bool((tensors[name] <= _MAX_LOG_PROB).all()):
                self._refuse(f"{name} above 0 or NaN", "logarithms of probabilities")
        return SparseTeacher(tensors["log_probs"].float(), ids, tensors["log_tail"].float())

    def _read_index(self) -> dict[str, Any]:
        path = self.folder / _INDEX
        if not path.is_file():
            raise InputValueError(
                explain_problem(
                    "This folder holds no finished teacher: its index is written last.",
                    got=f"{self.folder} without {_INDEX}",
                    expected="a folder that a TeacherWriter has closed",
                )
            )
        try:
            index = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            self._refuse(f"an index that is not JSON ({error})", "JSON")
        if not isinstance(index, dict) or index.get("format") != FORMAT or index.get("version") != VERSION:
            about = index if isinstance(index, dict) else {}
            self._refuse(
                f"format {about.get('format')!r}, version {about.get('version')!r}", f"{FORMAT!r}, version {VERSION}"
            )
        kinds: dict[str, Any] = {"vocabulary": int, "k": int, "temperature": (int, float), "tokenizer_hash": str}
        for name, kind in kinds.items():
            if not isinstance(index.get(name), kind) or isinstance(index.get(name), bool):
                self._refuse(f"{name}={index.get(name)!r} in the index", f"a {name}")
        for name, low, high in (("vocabulary", 1, _MAX_CLASSES), ("k", 0, _MAX_CLASSES)):
            if not low <= index[name] <= high:
                self._refuse(f"{name}={index[name]!r} in the index", f"{low} to {high}")
        if not 0 < index["temperature"] < math.inf:
            self._refuse(f"temperature={index['temperature']!r} in the index", "a finite number above 0")
        self._check_parts(index.get("parts"))
        found: dict[str, Any] = index
        return found

    def _check_parts(self, parts: Any) -> None:
        if not isinstance(parts, list):
            self._refuse("an index without parts", "a list of parts")
        for part in parts:
            whole = isinstance(part, dict) and all(isinstance(part.get(n), int) for n in ("sequences", "tokens"))
            if not whole or not all(isinstance(part.get(n), str) for n in ("file", "sha256")):
                self._refuse(f"a part {part!r}", "file, sequences, tokens and sha256")
            if not all(0 <= part[n] < 1 << 62 for n in ("sequences", "tokens")):
                self._refuse(f"{part['sequences']} sequences, {part['tokens']} tokens in a part", "numbers of them")
            if Path(part["file"]).name != part["file"]:
                self._refuse(f"a part in {part['file']!r}", "the name of a file in this folder")

    def _check_file(self, part: dict[str, Any], *, verify: bool) -> None:
        path = self.folder / part["file"]
        if not path.is_file():
            self._refuse(f"no file {part['file']}", "every part of the index")
        if verify and _sha256(path) != part["sha256"]:
            self._refuse(f"{part['file']} with another SHA-256", "the file as it was written")

    def _refuse(self, got: str, expected: str) -> NoReturn:
        raise InputValueError(
            explain_problem(f"The teacher in {self.folder} is damaged or not one.", got=got, expected=expected)
        )


def _open(path: Path) -> Any:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        raise InputValueError(
            explain_problem(
                "A part of the teacher cannot be read.", got=f"{path.name}: {error}", expected="safetensors"
            )
        ) from error


def _offsets(part: Any, about: dict[str, Any]) -> Tensor:
    names = set(part.keys())
    offsets: Tensor = part.get_tensor("offsets") if names == {*_TENSORS, "offsets"} else torch.zeros(0)
    good = len(offsets) == about["sequences"] + 1 and int(offsets[0]) == 0 and int(offsets[-1]) == about["tokens"]
    if not good or bool((offsets.diff() < 0).any()):
        raise InputValueError(
            explain_problem(
                "A part of the teacher does not hold what the index says.",
                got=f"{about['file']} with tensors {sorted(names)}",
                expected=f"{about['sequences']} sequences of {about['tokens']} tokens",
            )
        )
    return offsets


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
