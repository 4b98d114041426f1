"""The rules in the order of their codes; `run.py` asks each of them, the command line lists them."""

from __future__ import annotations

import importlib
import pkgutil

from kullback.lint.finding import Rule

_FILES = sorted(info.name for info in pkgutil.iter_modules(__path__) if info.name.startswith("kl"))
RULES: tuple[Rule, ...] = tuple(importlib.import_module(f"{__name__}.{name}").RULE for name in _FILES)
BY_CODE: dict[str, Rule] = {rule.code: rule for rule in RULES}
