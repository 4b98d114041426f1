"""Reports for machines: strict JSON, in which numbers that JSON lacks are the strings "inf", "-inf" and "nan"."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> str:
    """JSON in ASCII, so that any terminal and any parser can read it.

    Example:
        >>> print(to_json({"kl": float("inf"), "rows": (0.5, None)}))
        {
         "kl": "inf",
         "rows": [
          0.5,
          null
         ]
        }
    """
    return json.dumps(_plain(value), indent=1, allow_nan=False, ensure_ascii=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
