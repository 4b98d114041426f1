"""Rows of logits that a local `transformers` checkpoint computes over a text, window by window; nothing is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, UnavailableError, explain_problem
from kullback.comparison.readers import refuse

_MAX_TEXT = 1 << 30
DTYPES = {"auto": "auto", "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def is_checkpoint(source: object) -> bool:
    """Whether it is a folder with the configuration of a model."""
    return isinstance(source, str | Path) and (Path(source) / "config.json").is_file()


class CheckpointRows:
    """Logits of a model for every scored token: shape (windows, stride, vocabulary).

    A window is `context` tokens and begins `stride` tokens after the one before; its last `stride` predictions are
    scored, so that each has at least context − stride tokens before it.

    Attributes:
        labels: The token that follows each row; -100 after the last.
    """

    def __init__(self, name: str, model: Any, tokens: Tensor, context: int, stride: int) -> None:
        context = min(context, len(tokens))
        stride = min(stride, context)
        starts = torch.arange(0, len(tokens) - context + 1, stride)
        self.name, self._model, self._tokens = name, model, tokens
        self._context, self._stride = context, stride
        self.shape = (len(starts), stride, int(model.config.get_text_config().vocab_size))
        places = starts.unsqueeze(-1) + torch.arange(context - stride, context) + 1
        padded = torch.cat([tokens, torch.tensor([-100])])
        self.labels = padded[places.clamp(max=len(tokens))].reshape(-1)
        self._window: tuple[int, Tensor] | None = None
        self.shape = (len(starts), stride, self._logits(0).shape[-1])

    def read(self, start: int, stop: int) -> Tensor:
        """Logits of these rows, in float32."""
        first, last = start // self._stride, -(-stop // self._stride)
        parts = []
        for window in range(first, last):
            begin = window * self._stride
            parts.append(self._logits(window)[max(start - begin, 0) : stop - begin])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _logits(self, window: int) -> Tensor:
        """The scored rows of a window; the last window stays, because a chunk may end inside it."""
        if self._window is None or self._window[0] != window:
            begin = window * self._stride
            with torch.inference_mode():
                output = self._model(input_ids=self._tokens[begin : begin + self._context].unsqueeze(0))
            self._window = (window, output.logits[0, -self._stride :].float().clone())
        return self._window[1]


def open_checkpoints(
    base: str | Path,
    others: list[str],
    text: str | Path,
    *,
    dtype: str = "auto",
    context: int = 512,
    stride: int | None = None,
) -> tuple[CheckpointRows, list[CheckpointRows], Any, list[str]]:
    """Models of local folders over the same tokens, the tokenizer of the base, and notes for the report.

    Raises:
        UnavailableError: Without the extra `hf`.
        InputValueError: If a folder is no checkpoint, or a tokenizer differs from that of the base.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise UnavailableError('Checkpoints need the extra "hf": pip install "kullback[hf]".') from error
    for folder in (base, *others):
        if not is_checkpoint(folder):
            refuse(str(folder), "it is no folder with a config.json", "a folder that save_pretrained wrote")
    path = Path(text)
    if not path.is_file() or path.stat().st_size > _MAX_TEXT:
        refuse(str(text), "it is no text file of up to 1 GiB")
    tokenizer = _load(AutoTokenizer, base)
    notes = []
    for other in others:
        notes += _tokenizer_differences(tokenizer, base, other, AutoTokenizer)
    content = path.read_text(encoding="utf-8", errors="replace")
    tokens = torch.tensor(tokenizer(content, verbose=False)["input_ids"], dtype=torch.int64)
    if len(tokens) < 2:
        raise InputValueError(f"{text} has {len(tokens)} tokens; at least 2 are needed.")
    opened = [
        CheckpointRows(str(folder), _model(folder, dtype), tokens, context, stride or context)
        for folder in (base, *others)
    ]
    notes.append(f"{len(tokens)} tokens of {text} in windows of {min(context, len(tokens))}")
    return opened[0], opened[1:], tokenizer, notes


def _model(folder: str | Path, dtype: str) -> Any:
    from transformers import AutoModelForCausalLM

    if dtype not in DTYPES:
        raise InputValueError(explain_problem("There is no such dtype.", got=dtype, expected=", ".join(DTYPES)))
    return _load(AutoModelForCausalLM, folder, torch_dtype=DTYPES[dtype], use_safetensors=True).eval()


def _load(loader: Any, folder: str | Path, **options: Any) -> Any:
    """What `from_pretrained` gives, from this folder alone: no download, no code of the checkpoint, no pickle."""
    try:
        return loader.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **options)
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError) as error:
        refuse(str(folder), f"transformers says: {' '.join(str(error).split())[:300]}")


def _tokenizer_differences(tokenizer: Any, base: str | Path, other: str, loader: Any) -> list[str]:
    try:
        second = _load(loader, other)
    except InputValueError:
        return [f"{other} has no tokenizer; that of {base} is used."]
    first_ids, second_ids = tokenizer.get_vocab(), second.get_vocab()
    changed = sorted(word for word, number in first_ids.items() if second_ids.get(word) != number)
    added = sorted(word for word in second_ids if word not in first_ids)
    if changed:
        shown = ", ".join(f"{word!r} ({first_ids[word]} and {second_ids.get(word, 'none')})" for word in changed[:4])
        raise InputValueError(
            explain_problem(
                "The tokenizers differ: the same class means different tokens.",
                got=f"{len(changed)} of {len(first_ids)} tokens have another number in {other}: {shown}",
                expected="the same vocabulary",
            )
        )
    if added:
        return [f"The tokenizer of {other} has {len(added)} more tokens: {', '.join(map(repr, added[:4]))}."]
    return []
