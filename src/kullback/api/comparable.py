"""The type of what two arguments of a divergence may be: both views of tensors, or both distributions."""

from __future__ import annotations

from typing import TypeVar

from torch.distributions import Distribution

from kullback.tensors.views import View

# A type checker refuses a bare tensor, and a view against a distribution.
Comparable = TypeVar("Comparable", View, Distribution)
