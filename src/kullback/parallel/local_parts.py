"""What this rank holds of a `DTensor`: its classes, or its copy; called by the divergences here and by the losses."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

from kullback._core.errors import ShapeError, explain_problem


def is_distributed(tensor: object) -> bool:
    """Whether this is a `DTensor`; nothing is imported where none can exist."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local_classes(tensor: Tensor, dim: int, group: Any) -> tuple[Tensor, Any]:
    """The local part of a DTensor and the group over which its classes are sharded; other tensors as they are."""
    if not is_distributed(tensor):
        return tensor, group
    distributed: Any = tensor
    classes = dim % tensor.dim()
    sharded = [i for i, place in enumerate(distributed.placements) if place.is_shard(classes)]
    if len(sharded) != 1 or any(place.is_partial() for place in distributed.placements):
        raise ShapeError(
            explain_problem(
                "The classes of a DTensor are sharded over one dimension of its mesh.",
                got=f"placements {distributed.placements}",
                expected=f"one Shard({classes}), and Replicate or Shard of other dimensions",
                instead=f"tensor.redistribute(placements=[Shard({classes})])",
            )
        )
    return distributed.to_local(), distributed.device_mesh.get_group(sharded[0])


def local_copy(name: str, tensor: Tensor) -> Tensor:
    """The copy that this rank has of a DTensor; other tensors as they are."""
    if not is_distributed(tensor):
        return tensor
    distributed: Any = tensor
    if not all(place.is_replicate() for place in distributed.placements):
        raise ShapeError(
            explain_problem(
                f"{name} is the same on every rank that holds a shard of the vocabulary.",
                got=f"placements {distributed.placements}",
                expected="Replicate throughout",
                instead=f"{name}.redistribute(placements=[Replicate()])",
            )
        )
    copy: Tensor = distributed.to_local()
    return copy
