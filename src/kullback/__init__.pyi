"""The public names of kullback and the files they come from; read by `__init__.py` and by type checkers."""

from . import kernels as kernels
from . import losses as losses
from . import nn as nn
from . import special as special
from . import testing as testing
from ._core.errors import InputTypeError as InputTypeError
from ._core.errors import InputValueError as InputValueError
from ._core.errors import KullbackError as KullbackError
from ._core.errors import KullbackWarning as KullbackWarning
from ._core.errors import NoRouteError as NoRouteError
from ._core.errors import RegistrationError as RegistrationError
from ._core.errors import ShapeError as ShapeError
from ._core.errors import UnavailableError as UnavailableError
from .api.chi2 import chi2 as chi2
from .api.entropy import cross_entropy as cross_entropy
from .api.entropy import entropy as entropy
from .api.hellinger import hellinger as hellinger
from .api.jeffreys import jeffreys as jeffreys
from .api.js import js as js
from .api.js import js_distance as js_distance
from .api.kl import kl as kl
from .api.renyi import renyi as renyi
from .api.skew import scaled_js as scaled_js
from .api.skew import skew_kl as skew_kl
from .api.total_variation import total_variation as total_variation
from .diagnose.explain import explain as explain
from .diagnose.explanation import Explanation as Explanation
from .pairs import KLResult as KLResult
from .pairs import Pair as Pair
from .pairs import coverage as coverage
from .pairs import install_into_torch as install_into_torch
from .pairs import kl_divergence as kl_divergence
from .pairs import kl_method as kl_method
from .pairs import kl_with_error as kl_with_error
from .pairs import register_kl as register_kl
from .pairs import uninstall_from_torch as uninstall_from_torch
from .tensors.align import align as align
from .tensors.generalized_kl import generalized_kl as generalized_kl
from .tensors.pairwise import pairwise_kl as pairwise_kl
from .tensors.views import Counts as Counts
from .tensors.views import Logits as Logits
from .tensors.views import LogProbs as LogProbs
from .tensors.views import Probs as Probs
from .tensors.views import Samples as Samples

__version__: str
