"""Closed forms of KL(p ‖ q), one file per family of p; importing this package registers them."""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
