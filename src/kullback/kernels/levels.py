"""Who is watching a call: the predicates that keep native code away from tensors it must not look inside.

Everything private that this library asks of torch is asked here. Native code reads memory, so it is invisible to
whoever follows a computation by its torch calls; where one of them is at work, the pure-torch reference runs.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad


def transform_active() -> bool:
    """Whether a functorch transform (vmap, grad, vjp, jvp, functionalize) or a forward-mode dual level is active.

    Under `torch.compile` both predicates are folded to constants by Dynamo, so `compile(vmap(f))` sees them too.
    """
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def forward_mode_nested() -> bool:
    """Whether a jvp is followed by another one, from which an `autograd.Function` would hide its derivative."""
    stack = torch._C._functorch.get_interpreter_stack() or ()
    return sum(level.key() == torch._C._functorch.TransformType.Jvp for level in stack) > 1


def tracer_active() -> bool:
    """Whether a dispatch mode (`make_fx`, `FakeTensorMode`, a FLOP counter) or `torch.jit.trace` is recording."""
    return torch._C._len_torch_dispatch_stack() > 0 or torch._C._get_tracing_state() is not None


def is_traced() -> bool:
    """Whether values cannot be looked at: while compiling or tracing, and inside vmap, grad, jvp."""
    return torch.compiler.is_compiling() or transform_active() or tracer_active()


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor is its dense CPU memory: no subclass, other device, sparse layout or pending negation."""
    return tensor.is_cpu and is_strided(tensor)


def is_strided(tensor: Tensor) -> bool:
    """The same on any device."""
    kind = type(tensor)
    return (
        (kind is Tensor or kind is torch.nn.Parameter)
        and tensor.layout is torch.strided
        and not tensor.is_neg()
        and not is_batch_of_gradients(tensor)
    )


def is_dense(tensor: Tensor) -> bool:
    """Whether a tensor is plain and its elements follow one another in memory."""
    return is_plain(tensor) and tensor.is_contiguous()


def is_batch_of_gradients(tensor: Tensor) -> bool:
    """Whether `torch.autograd.grad(is_grads_batched=True)` handed a whole batch over.

    It has its own, older vmap, which is no functorch level; its tensors say so themselves.
    """
    return bool(torch._C._functorch.is_legacy_batchedtensor(tensor))


def known_true(mask: Tensor) -> bool:
    """Whether a mask holds everywhere; False where values cannot be looked at."""
    return not is_traced() and bool(mask.all())
