"""KL divergence for PyTorch that is right the first time.

Names are resolved on first use, so that importing this package costs nothing beyond torch and the command line can
print its help without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kullback import kernels as kernels
    from kullback import nn as nn
    from kullback import special as special
    from kullback import testing as testing
    from kullback._core.errors import InputTypeError as InputTypeError
    from kullback._core.errors import InputValueError as InputValueError
    from kullback._core.errors import KullbackError as KullbackError
    from kullback._core.errors import KullbackWarning as KullbackWarning
    from kullback._core.errors import NoRouteError as NoRouteError
    from kullback._core.errors import RegistrationError as RegistrationError
    from kullback._core.errors import ShapeError as ShapeError
    from kullback._core.errors import UnavailableError as UnavailableError
    from kullback.api.chi2 import chi2 as chi2
    from kullback.api.entropy import cross_entropy as cross_entropy
    from kullback.api.entropy import entropy as entropy
    from kullback.api.hellinger import hellinger as hellinger
    from kullback.api.jeffreys import jeffreys as jeffreys
    from kullback.api.js import js as js
    from kullback.api.js import js_distance as js_distance
    from kullback.api.kl import kl as kl
    from kullback.api.renyi import renyi as renyi
    from kullback.api.skew import scaled_js as scaled_js
    from kullback.api.skew import skew_kl as skew_kl
    from kullback.api.total_variation import total_variation as total_variation
    from kullback.pairs import KLResult as KLResult
    from kullback.pairs import Pair as Pair
    from kullback.pairs import coverage as coverage
    from kullback.pairs import install_into_torch as install_into_torch
    from kullback.pairs import kl_divergence as kl_divergence
    from kullback.pairs import kl_method as kl_method
    from kullback.pairs import kl_with_error as kl_with_error
    from kullback.pairs import register_kl as register_kl
    from kullback.pairs import uninstall_from_torch as uninstall_from_torch
    from kullback.tensors.align import align as align
    from kullback.tensors.generalized_kl import generalized_kl as generalized_kl
    from kullback.tensors.pairwise import pairwise_kl as pairwise_kl
    from kullback.tensors.views import Counts as Counts
    from kullback.tensors.views import Logits as Logits
    from kullback.tensors.views import LogProbs as LogProbs
    from kullback.tensors.views import Probs as Probs
    from kullback.tensors.views import Samples as Samples

_ROOMS = ("kernels", "nn", "special", "testing")
_HOMES = {
    "Counts": "kullback.tensors.views",
    "InputTypeError": "kullback._core.errors",
    "InputValueError": "kullback._core.errors",
    "KullbackError": "kullback._core.errors",
    "KullbackWarning": "kullback._core.errors",
    "LogProbs": "kullback.tensors.views",
    "Logits": "kullback.tensors.views",
    "NoRouteError": "kullback._core.errors",
    "Probs": "kullback.tensors.views",
    "RegistrationError": "kullback._core.errors",
    "Samples": "kullback.tensors.views",
    "ShapeError": "kullback._core.errors",
    "UnavailableError": "kullback._core.errors",
    "KLResult": "kullback.pairs",
    "Pair": "kullback.pairs",
    "align": "kullback.tensors.align",
    "chi2": "kullback.api.chi2",
    "coverage": "kullback.pairs",
    "cross_entropy": "kullback.api.entropy",
    "entropy": "kullback.api.entropy",
    "generalized_kl": "kullback.tensors.generalized_kl",
    "hellinger": "kullback.api.hellinger",
    "install_into_torch": "kullback.pairs",
    "jeffreys": "kullback.api.jeffreys",
    "js": "kullback.api.js",
    "js_distance": "kullback.api.js",
    "kl": "kullback.api.kl",
    "kl_divergence": "kullback.pairs",
    "kl_method": "kullback.pairs",
    "kl_with_error": "kullback.pairs",
    "pairwise_kl": "kullback.tensors.pairwise",
    "register_kl": "kullback.pairs",
    "renyi": "kullback.api.renyi",
    "scaled_js": "kullback.api.skew",
    "skew_kl": "kullback.api.skew",
    "total_variation": "kullback.api.total_variation",
    "uninstall_from_torch": "kullback.pairs",
}

__version__ = "0.1.0"
__all__ = sorted([*_HOMES, *_ROOMS])  # noqa: PLE0605 - the two tables above are the one place a name is written


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        value: Any = importlib.import_module(f"kullback.{name}")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'kullback' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
