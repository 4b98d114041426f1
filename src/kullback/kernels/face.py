"""The one face through which native code is called.

No single torch mechanism serves every caller, so an `Op` picks one per call:

| the call happens                                      | and runs                                                  |
|-------------------------------------------------------|-----------------------------------------------------------|
| inside vmap, grad, jvp, a dual level                  | the reference: pure torch, which the transform can follow |
| while compiling or exporting                          | a `torch.library` op (schema, fake kernel, autograd)      |
| on another device, a tensor subclass, under a tracer  | the reference                                             |
| in plain eager mode                                   | the native kernel, in an old-style `autograd.Function`    |

An op is defined once:

    def forward(p, q, beta):               # dense CPU tensors without history; returns all outputs, freshly made
        ...
        return value, row_max              # one visible output, one kept for backward

    def backward(grads, saved, needs, beta):   # first order, no graph; one gradient or None per tensor argument
        (grad,), (p, q, row_max) = grads, saved
        ...

    my_op = Op(
        "my_op", "(Tensor p, Tensor q, float beta) -> (Tensor, Tensor)",
        reference=my_reference,            # (p, q, beta) -> the visible outputs; differentiable in every way
        native=forward, backward=backward,
        fake=lambda p, q, beta: (p.new_empty(p.shape[:-1]), p.new_empty(p.shape[:-1])),
        kept=1,                            # how many outputs, at the end, only backward sees
    )
    my_op(p, q, 0.5)

Tensor arguments come first, options after them, all positional. Native outputs are contiguous. Second derivatives need
no code: when a backward pass is itself recorded, the gradient is taken through the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from kullback.kernels import native as _native
from kullback.kernels.levels import is_plain, tracer_active, transform_active

Outputs = Tensor | tuple[Tensor, ...]
Forward = Callable[..., Outputs]
Backward = Callable[..., Sequence[Tensor | None]]

_LIBRARY: Any = torch.library.Library("kullback", "FRAGMENT")  # type: ignore[no-untyped-call]
_HALF = (torch.float16, torch.bfloat16)


class Op:
    """One operation with a native kernel and a pure-torch reference; calling it picks between them.

    Args:
        name: Name of the `torch.library` op, `torch.ops.kullback.<name>`.
        schema: Its schema without the name: `(Tensor x, float beta) -> Tensor`.
        reference: Pure torch, same arguments, returns the visible outputs. It is the meaning of the op: every
            transform, device and subclass runs it, and so does every second derivative.
        native: The kernel, called with plain CPU tensors outside autograd; returns all outputs.
        backward: `(grads, saved, needs, *options)`, first order: `grads` per visible output, `saved` the tensor
            arguments followed by the kept outputs. Without it the gradient is taken through the reference.
        fake: Shapes and dtypes of all outputs; by default the contiguous shape of what the reference returns.
        kept: Number of trailing outputs that are not returned to the caller, only saved for `backward`.

    Attributes:
        live: Whether the native kernel is available; without it every call runs the reference.
    """

    def __init__(
        self,
        name: str,
        schema: str,
        *,
        reference: Forward,
        native: Forward,
        backward: Backward | None = None,
        fake: Forward | None = None,
        kept: int = 0,
    ) -> None:
        if kept and fake is None:
            raise ValueError(f"{name}: an op with kept outputs needs a fake kernel, the reference does not return them")
        self.name = name
        self.reference = reference
        self.live = _native.library() is not None
        arguments, returns = schema.split("->")
        self._schema, self._returns_tuple = schema, returns.strip().startswith("(")
        self._arity = arguments.count("Tensor ")
        self._native, self._backward, self._fake, self._kept = native, backward, fake, kept
        if self.live:
            self._library_op = self._register(arguments)

    def __call__(self, *args: Any) -> Any:
        """The visible outputs: a tensor, or a tuple where the op has several."""
        tensors, options = args[: self._arity], args[self._arity :]
        for tensor in tensors:  # loops, not generators: small inputs feel the difference
            if tensor.dtype in _HALF and torch.is_autocast_enabled(tensor.device.type):
                tensors = tuple(t.float() if t.dtype in _HALF else t for t in tensors)
                break
        if transform_active() or not self.live:
            return self.reference(*tensors, *options)
        if torch.compiler.is_compiling():
            if all(t.device.type == "cpu" for t in tensors):
                return self._visible(_as_tuple(self._library_op(*tensors, *options)))
            return self.reference(*tensors, *options)
        if tracer_active() or not all(map(is_plain, tensors)):
            return self.reference(*tensors, *options)
        if torch.is_grad_enabled():
            for tensor in tensors:
                if tensor.requires_grad:
                    return self._visible(_Eager.apply(self, *tensors, *options))
        outputs: Outputs = self._native(*tensors, *options)
        return self._visible(outputs) if isinstance(outputs, tuple) else outputs

    def _visible(self, outputs: tuple[Tensor, ...]) -> Outputs:
        shown = outputs[: len(outputs) - self._kept]
        return shown[0] if len(shown) == 1 else shown

    def _first_order(
        self, grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool], options: Sequence[Any]
    ) -> Sequence[Tensor | None]:
        if self._backward is None:
            return self._through_reference(grads, saved[: self._arity], needs, options)
        return self._backward(grads, saved, needs, *options)

    def _through_reference(
        self, grads: Sequence[Tensor], tensors: Sequence[Tensor], needs: Sequence[bool], options: Sequence[Any]
    ) -> Sequence[Tensor | None]:
        """The vector-Jacobian product of the reference, itself differentiable wherever gradients are recorded."""
        wanted = [t for t, need in zip(tensors, needs, strict=True) if need]

        def of_wanted(*values: Tensor) -> Outputs:
            given = iter(values)
            args = [next(given) if need else t for t, need in zip(tensors, needs, strict=True)]
            outputs: Outputs = self.reference(*args, *options)
            return outputs

        pull_back = torch.func.vjp(of_wanted, *wanted)[1]
        found = iter(pull_back(grads[0] if len(grads) == 1 else tuple(grads)))
        return [next(found) if need else None for need in needs]

    def _register(self, arguments: str) -> Any:
        """Define `kullback::<name>` and `kullback::<name>_backward` for the compiler."""
        forward_name, backward_name = f"kullback::{self.name}", f"kullback::{self.name}_backward"
        option_schema = "".join(f", {a.strip()}" for a in arguments.strip(" ()").split(",")[self._arity :])
        tags = (torch.Tag.pt2_compliant_tag,)
        _LIBRARY.define(f"{self.name}{self._schema}", tags=tags)
        _LIBRARY.define(
            f"{self.name}_backward(Tensor[] grads, Tensor[] saved, bool[] needs{option_schema}) -> Tensor[]", tags=tags
        )
        _LIBRARY.impl(self.name, self._native, "CPU")
        _LIBRARY.impl(f"{self.name}_backward", self._library_backward, "CPU")
        torch.library.register_fake(forward_name, self._fake or self._fake_from_reference, lib=_LIBRARY)
        torch.library.register_fake(backward_name, self._fake_backward, lib=_LIBRARY)
        forward_op = getattr(torch.ops.kullback, self.name).default
        backward_op = getattr(torch.ops.kullback, f"{self.name}_backward").default

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
            outputs = _as_tuple(output)
            ctx.save_for_backward(*inputs[: self._arity], *outputs[len(outputs) - self._kept :])
            ctx.options = inputs[self._arity :]

        def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            shown = [g for g in grads[: len(grads) - self._kept] if g is not None]
            needs = list(ctx.needs_input_grad[: self._arity])
            found = backward_op(shown, list(ctx.saved_tensors), needs, *ctx.options)
            to_tensors = [g if need else None for g, need in zip(found, needs, strict=True)]
            return (*to_tensors, *(None for _ in ctx.options))

        torch.library.register_autograd(forward_name, backward, setup_context=setup_context, lib=_LIBRARY)
        return forward_op

    def _library_backward(
        self, grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool], *options: Any
    ) -> list[Tensor]:
        found = self._first_order(grads, saved, needs, options)
        return [
            saved[i].new_zeros(saved[i].shape if needs[i] else 0) if g is None else g.contiguous()
            for i, g in enumerate(found)
        ]

    def _fake_from_reference(self, *args: Any) -> Outputs:
        outputs = [torch.empty_like(o, memory_format=torch.contiguous_format) for o in _as_tuple(self.reference(*args))]
        return tuple(outputs) if self._returns_tuple else outputs[0]

    @staticmethod
    def _fake_backward(
        grads: Sequence[Tensor], saved: Sequence[Tensor], needs: Sequence[bool], *options: Any
    ) -> list[Tensor]:
        del grads, options
        return [t.new_empty(t.shape if need else 0) for t, need in zip(saved, needs, strict=False)]


class _Eager(torch.autograd.Function):
    """Native forward and first-order backward; a recorded or transformed backward goes through the reference."""

    @staticmethod
    def forward(ctx: Any, op: Op, *args: Any) -> tuple[Tensor, ...]:
        outputs = _as_tuple(op._native(*args))
        kept = outputs[len(outputs) - op._kept :]
        ctx.save_for_backward(*args[: op._arity], *kept)
        ctx.mark_non_differentiable(*kept)
        ctx.op, ctx.options = op, args[op._arity :]
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        op: Op = ctx.op
        shown, saved = grads[: len(grads) - op._kept], ctx.saved_tensors
        needs = ctx.needs_input_grad[1 : 1 + op._arity]
        # Also inside vmap: torch.autograd.grad(is_grads_batched=True) hands a batch of gradients over at once.
        followed = torch.is_grad_enabled() or transform_active() or tracer_active()
        if followed or not all(map(is_plain, shown)):
            found = op._through_reference(shown, saved[: op._arity], needs, ctx.options)
        else:
            found = op._first_order(shown, saved, needs, ctx.options)
        return (None, *found, *(None for _ in ctx.options))


def _as_tuple(outputs: Outputs) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)
