"""Names of classes: from a list, a dictionary, a function or a tokenizer; only those that are shown are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kullback._core.errors import InputTypeError, InputValueError, explain_problem


class Names:
    """Looks up the names of classes."""

    def __init__(self, labels: Any, classes: int) -> None:
        self.labels = labels
        if hasattr(labels, "convert_ids_to_tokens"):
            self.labels = labels.convert_ids_to_tokens
        if isinstance(labels, Sequence) and not isinstance(labels, str | bytes) and len(labels) < classes:
            raise InputValueError(
                explain_problem(
                    "There are fewer labels than classes.",
                    got=f"{len(labels)} labels, {classes} classes",
                    expected="one label for each class",
                )
            )
        if labels is not None and not (isinstance(self.labels, Sequence | Mapping) or callable(self.labels)):
            raise InputTypeError(
                explain_problem(
                    "labels= names the classes.",
                    got=f"a {type(labels).__name__}",
                    expected="a list of strings, a dictionary, or a function of a list of class numbers",
                    instead="labels=tokenizer.convert_ids_to_tokens",
                )
            )

    def of(self, classes: Sequence[int]) -> list[str]:
        """The names of these classes."""
        if self.labels is None:
            return [str(number) for number in classes]
        if isinstance(self.labels, Mapping):
            return [str(self.labels.get(number, number)) for number in classes]
        if callable(self.labels):
            return [str(name) for name in self.labels(list(classes))]
        return [str(self.labels[number]) for number in classes]
