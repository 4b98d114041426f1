"""The logits file that `llama-perplexity --kl-divergence-base` writes; for `readers.py`.

    "_logits_", int32 n_ctx, n_vocab, n_chunk, int32 tokens[n_chunk * n_ctx]
    per chunk, for the tokens from n_ctx / 2 to n_ctx - 2: float32 scale, float32 lowest, uint16 codes[n_vocab]

A code c stands for the log-probability lowest + scale·c. Codes reach from the largest logit to 16 below it; what is
lower has code 0. So rows are read as logits, which are normalised again, and KL has a floor of about 1e-5 nats.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from kullback.comparison.readers import refuse

MAGIC = b"_logits_"


def is_llama_cpp(path: Path) -> bool:
    """Whether a file begins as llama.cpp's does."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


class LlamaRows:
    """Rows of log-probabilities with 16 bits each, and the tokens that follow as labels."""

    def __init__(self, name: str, path: Path, sizes: tuple[int, int, int], tokens: np.ndarray, begin: int) -> None:
        context, vocabulary, chunks = sizes
        first = context // 2
        self.name = name
        self.shape = (chunks, context - 1 - first, vocabulary)
        self.labels = torch.from_numpy(tokens.reshape(chunks, context)[:, first + 1 :].reshape(-1).astype(np.int64))
        self._path, self._begin = path, begin
        self._codes = 2 * ((vocabulary + 1) // 2) + 4

    def read(self, start: int, stop: int) -> Tensor:
        """Rows of logits in float32."""
        vocabulary, bytes_per_row = self.shape[-1], 2 * self._codes
        with self._path.open("rb") as file:
            file.seek(self._begin + start * bytes_per_row)
            content = bytearray(file.read((stop - start) * bytes_per_row))
        if len(content) != (stop - start) * bytes_per_row:
            refuse(self.name, f"it ends inside row {start + len(content) // bytes_per_row}")
        raw = np.frombuffer(content, dtype="<u2").reshape(stop - start, self._codes)
        header = np.ascontiguousarray(raw[:, :4]).view("<f4").astype(np.float32)
        codes = raw[:, 4 : 4 + vocabulary].astype(np.float32)
        return torch.from_numpy(codes * header[:, :1] + header[:, 1:])


def open_llama_cpp(name: str, path: Path) -> LlamaRows:
    """The rows of such a file, after its sizes were checked."""
    with path.open("rb") as file:
        file.seek(len(MAGIC))
        context, vocabulary, chunks = np.frombuffer(file.read(12), dtype="<i4").tolist()
    if context < 2 or vocabulary < 1 or chunks < 0:
        refuse(name, f"its header claims a context of {context}, {vocabulary} classes and {chunks} chunks")
    begin = len(MAGIC) + 12 + 4 * context * chunks
    rows = chunks * (context - 1 - context // 2)
    wanted = begin + rows * 2 * (2 * ((vocabulary + 1) // 2) + 4)
    if wanted != path.stat().st_size:
        refuse(name, f"its header promises {wanted} bytes, and the file has {path.stat().st_size}")
    tokens = np.fromfile(path, dtype="<i4", count=context * chunks, offset=len(MAGIC) + 12)
    return LlamaRows(name, path, (context, vocabulary, chunks), tokens, begin)
