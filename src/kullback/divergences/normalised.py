"""Whether a user's `log_prob` integrates to 1; every divergence asks before it believes one."""

from __future__ import annotations

import torch
from torch import Tensor

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.registry import Reading
from kullback.divergences.mixtures import over_components
from kullback.integrate.problem import Sample
from kullback.kernels.levels import is_traced

# log_prob may be computed in float32.
_TOLERANCE = 1e-4


class Mass:
    """The density itself."""

    def value(self, sample: Sample, close: Tensor) -> Tensor:
        """The integrand."""
        del close
        return torch.exp(sample.log_weight)

    def differentiated(self, sample: Sample) -> Tensor | None:
        """Nothing else is differentiated."""
        del sample
        return None

    def log_size(self, sample: Sample) -> Tensor:
        """Its logarithm."""
        return sample.log_weight

    def slope(self, sample: Sample, close: Tensor) -> Tensor:
        """A rounding of log_prob is one of the integrand."""
        del close
        return torch.ones_like(sample.log_weight)


def check_normalised(reading: Reading) -> None:
    """Refuse a searched density whose integral is not 1; where values cannot be looked at, it is believed."""
    if not reading.searched or is_traced():
        return
    with torch.no_grad():
        mass = over_components(reading, reading, Mass()).value
    wrong = ~((mass - 1).abs() < _TOLERANCE)
    if not bool(wrong.any()):
        return
    element = int(wrong.nonzero()[0])
    total = f"{'a sum' if reading.lattice else 'an integral'} of {mass[element].item():.6g}"
    raise InputValueError(
        explain_problem(
            f"{reading.source.__name__}.log_prob is not normalised.",
            got=f"{total} over its support, for element {element} of the batch",
            expected="1, as of every probability distribution",
            instead="log_prob less the logarithm of that number, or the support that the class really has",
        )
    )
