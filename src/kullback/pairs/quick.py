"""The short way for pairs of univariate laws: a formula that was recorded once, run natively ever after.

The first call with two classes of torch's records their formula (`recording`); later calls read the parameters and run
it in one pass. A pair whose formula is no elementwise function of parameters, an integral say, is remembered as such
and always takes the long way, and so does whatever a transform, the compiler or another device follows. A change of the
rules (`register_kl`) forgets everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution

from kullback._core.errors import KullbackError
from kullback.kernels import native
from kullback.kernels.levels import is_plain, tracer_active, transform_active
from kullback.pairs import registry
from kullback.pairs.parameters import gives_logits, made, recordable
from kullback.pairs.recording import Answer, Recording, record
from kullback.pairs.torch_registry import entry

Short = Callable[[Distribution, Distribution], Any]

# From here on a kernel that is a pair's own finds gradients faster than a program that calls it.
_MANY = 16384
# Classes whose objects differ in more than parameters.
_STRUCTURES = (Independent, MixtureSameFamily, TransformedDistribution)


class Ways:
    """What is known of two classes: a recorded formula for each choice of given parameters, or that there is none.

    Attributes:
        short: The formula in C for the choice that came last, for dense parameters without gradients; NotImplemented
            where it declines.
        key: The classes whose entry in torch's registry would take the place of the formula.
        in_torch: That entry when the formula was chosen.
    """

    def __init__(self, key: tuple[type, type]) -> None:
        self.key, self.in_torch = key, entry(key)
        self.short: Short = _declines
        self._known: dict[tuple[bool, bool], _Way | None] = {}

    def long(self, p: Distribution, q: Distribution, answer: Answer) -> Tensor | None:
        """The answer by a recorded formula, recorded now if need be; None where there is no such way."""
        if transform_active() or tracer_active():
            return None
        choice = gives_logits(p), gives_logits(q)
        if choice not in self._known:
            if not recordable(p, q):
                return None
            try:
                recording = record(p, q, answer)
            except KullbackError:  # these two are refused: the long way says why, of them and not of the examples
                return None
            self._known[choice] = None if recording is None else _Way(recording)
        way = self._known[choice]
        if way is None:
            return None
        self.short = way.short
        return way(p, q)


class _Way:
    def __init__(self, recording: Recording) -> None:
        self._program, readings, _ = recording
        self.short = _bind(recording)
        self._get = [attrgetter(path) for reading in readings for path in reading.paths]
        self._of_p = len(readings[0].paths)
        self._is_flat = self._program.is_flat

    def __call__(self, p: Distribution, q: Distribution) -> Tensor | None:
        tensors = [get(p if i < self._of_p else q) for i, get in enumerate(self._get)]
        differentiated = _differentiated(tensors)
        if p.batch_shape and not q.batch_shape and not differentiated:  # a prior made of numbers
            wide = _expanded(q, p.batch_shape)
            short: Tensor = NotImplemented if wide is None else self.short(p, wide)
            if short is not NotImplemented:
                return short
        if self._is_flat and differentiated:
            with torch.no_grad():
                value = self.short(p, q)
            if value is not NotImplemented:
                return self._program.connected(value, tensors)
        if not all(map(is_plain, tensors)):
            return None
        if self._program.forward.is_one_pair and tensors[0].numel() >= _MANY and differentiated:
            return None
        try:
            self._program.shape(tensors)
        except RuntimeError:  # shapes that do not broadcast: the long way explains it
            return None
        value = self._program(*tensors)
        return None if bool(value.detach().isnan().any()) else value


def _differentiated(tensors: Sequence[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _expanded(d: Distribution, shape: torch.Size) -> Distribution | None:
    """A law of single numbers as a batch of itself, which torch's own `expand` makes in tens of microseconds."""
    state = dict(vars(d))
    for name, value in state.items():
        if isinstance(value, Distribution) or (isinstance(value, Tensor) and value.dim()):
            return None
        if isinstance(value, Tensor):
            state[name] = value.expand(shape)
    return made(type(d), state, shape)


def ways_for(p: Distribution, q: Distribution) -> Ways | None:
    """An entry for the classes of two objects, made now; None for what is never answered this way."""
    if native.library() is None or not (_is_plain_law(p) and _is_plain_law(q)):
        return None
    rule = registry.find(type(p), type(q))
    if rule is not None and rule.method in ("user", "torch"):
        return None
    key = (type(p), type(q)) if rule is None else (rule.p, rule.q)
    ways = registry.quick[type(p), type(q)] = Ways(key)
    return ways


def ways_in_torch(ways: Ways | None) -> Ways | None:
    """An entry that is still right after torch's registry was read again."""
    if ways is not None:
        ways.in_torch = entry(ways.key)
    return ways


def _is_plain_law(d: object) -> bool:
    """A univariate class of torch's own: nothing but its parameters tells two of its objects apart."""
    kind = type(d)
    if not isinstance(d, Distribution):
        return False
    of_torch = kind.__module__.startswith("torch.distributions.") and kind not in _STRUCTURES
    return of_torch and not d.event_shape and d.batch_shape.numel() > 0


def _declines(p: Distribution, q: Distribution) -> Any:
    del p, q
    return NotImplemented


def _bind(recording: Recording) -> Short:
    """The short way in C, where it was built."""
    try:
        from kullback.kernels import _dense_call
    except ImportError:
        return _declines
    sides = list(enumerate(recording.readings))
    paths = [(side, path.split("."), n) for side, r in sides for path, n in zip(r.paths, r.parts, strict=True)]
    inputs = [(*path, unused) for path, unused in zip(paths, recording.program.unused(), strict=True)]
    read = {(side, *names) for side, names, _, unused in inputs if not unused}
    every = [(side, list(owner), [given, other]) for side, r in sides for *owner, given, other in r.choices]
    choices = [choice for choice in every if (choice[0], *choice[1], choice[2][0]) in read]
    packed = recording.program.forward
    bound: Short = _dense_call.bind_pair(packed.entry, packed.address, packed, inputs, choices, True)
    return bound
