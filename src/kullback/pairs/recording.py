"""The formula of two classes as a program: recorded on copies of two distributions whose parameters are examples.

What is recorded is the whole answer, the test of supports included. Of two laws that are infinite apart because of
where they live only that test is, and of a pair whose usual case is simpler than its formula, that case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution, LogNormal, Pareto, Uniform

from kullback._core.shapes import joint_shape
from kullback.kernels.program import Program, TooLargeError
from kullback.kernels.recorder import LENGTH, Recorder, RefusedError, Value
from kullback.pairs import registry, support
from kullback.pairs.parameters import gives_logits, made, working

Answer = Callable[[Distribution, Distribution], tuple[Tensor, Tensor | None, str]]
_CHOICES = ("probs", "logits")  # of which a maker gives one, and torch adds the other


class Reading(NamedTuple):
    """Which tensors of a distribution a program takes.

    Attributes:
        paths: Where they are, by attribute names joined with dots.
        parts: How many parameters each holds along its last dimension, 0 if it is one itself.
        choices: Of two names for one parameter: the attributes that lead to their owner, the given one, the other.
    """

    paths: tuple[str, ...]
    parts: tuple[int, ...]
    choices: tuple[tuple[str, ...], ...]


class Recording(NamedTuple):
    """A recorded formula.

    Attributes:
        program: The function of the parameters that were read.
        readings: Of p and of q.
        partial: It answers some elements only, and says NaN to the others.
    """

    program: Program
    readings: tuple[Reading, Reading]
    partial: bool


def record(p: Distribution, q: Distribution, answer: Answer) -> Recording | None:
    """The formula that answers two objects, as a function of their parameters; None if it is no elementwise one."""
    with torch.inference_mode(mode=False), torch.enable_grad():
        try:
            return _record(p, q, answer)
        except (RefusedError, TooLargeError):
            return None


def _record(p: Distribution, q: Distribution, answer: Answer) -> Recording:
    rule = registry.find(type(p), type(q))
    some = None if rule is None else rule.usual
    if some is None and _infinite_by_support(p, q, rule, answer):
        some = _where_infinite
    partial = some is not None
    if not partial and (rule is None or not _has_formula(rule, p, q)):
        raise RefusedError("no formula of its own")
    examples = Example(p), Example(q)

    def formula(*laws: Distribution) -> Tensor:
        return answer(laws[0], laws[1])[0] if some is None else some(*laws)

    leaves = [leaf for example in examples for leaf in example.leaves.values()]
    grad = _any_numbers()
    with Recorder() as recorder:
        for tensor in (*leaves, grad):
            recorder.input(tensor)
        value = formula(*(example.law for example in examples))
        if value.shape != (LENGTH,):
            raise RefusedError(f"a value of shape {tuple(value.shape)}")
        found: Sequence[Tensor | None] = [None] * len(leaves)
        if value.requires_grad:
            # Through a sum: handed `grad` directly, torch would import its symbolic shapes first, for seconds.
            total = recorder.run_unseen(_dot, value, grad)
            found = torch.autograd.grad(total, leaves, allow_unused=True)
    node, slopes = (
        recorder.node(value),
        [_spread(recorder.node(g), leaf) for g, leaf in zip(found, leaves, strict=True)],
    )
    assert isinstance(node, int)
    required = _own(examples) if partial else _at_least_one(examples)
    used = recorder.keep_inputs([node, *(n for slope in slopes for n in slope)], required)

    def of_tensors(*tensors: Tensor) -> Tensor:
        given = iter(tensors)
        every = [next(given) if keep else leaf.detach()[:1] for leaf, keep in zip(leaves, used, strict=True)]
        count = len(examples[0].leaves)
        return formula(examples[0].rebuilt(every[:count]), examples[1].rebuilt(every[count:]))

    kept = [i for i, keep in enumerate(used) if keep]
    gradients = [n for i in kept for n in slopes[i]]
    program = Program(recorder.graph, node, gradients, parts=[_parts(leaves[i]) for i in kept], formula=of_tensors)
    count = len(examples[0].leaves)
    readings = examples[0].reading(used[:count]), examples[1].reading(used[count:])
    return Recording(program, readings, partial)


def _any_numbers() -> Tensor:
    """Numbers like no others, from a generator of their own: the user's seed gives what it gave."""
    own = torch.Generator(device="cpu").manual_seed(0)
    return torch.rand(LENGTH, dtype=torch.float64, device="cpu", generator=own)


def _has_formula(rule: registry.Rule, p: Distribution, q: Distribution) -> bool:
    # Whether two transforms cancel depends on more than parameters; those of a LogNormal are always the same.
    return rule.method == "closed form" or (type(p) is type(q) is LogNormal)


def _infinite_by_support(p: Distribution, q: Distribution, rule: registry.Rule | None, answer: Answer) -> bool:
    """Whether these two are infinite everywhere because p's support is not inside q's, and no formula says otherwise.

    A law of counts may be a single atom, which is inside where its support is not.
    """
    inner, outer = support.interval(p), support.interval(q)
    if inner is not None and not inner.discrete and _sticks_out(p, q):
        return True
    if (
        inner is None
        or outer is None
        or (inner.discrete and outer.discrete)
        or (rule is not None and rule.decides_support)
    ):
        return False
    if support.nested(inner, outer) is False:
        return True
    return (rule is None or rule.method == "structure") and answer(p, q)[2] == "infinite"


def _where_infinite(p: Distribution, q: Distribution) -> Tensor:
    """Infinity where p's support is not inside q's, else NaN."""
    inside = support.contained(p, q)
    infinite = torch.full((LENGTH,), math.inf, dtype=torch.float64, device="cpu")
    if not isinstance(inside, Tensor) or _sticks_out(p, q):
        return infinite
    return torch.where(inside, math.nan, infinite)


def _sticks_out(p: Distribution, q: Distribution) -> bool:
    """Whether p's support is not inside q's whatever their parameters.

    Both bounds of a Uniform are finite, and a Pareto begins above 0.
    """
    inner = support.interval(p)
    if inner is None or not isinstance(q, Uniform | Pareto):
        return False
    below = isinstance(inner.lower, float) and inner.lower <= (0.0 if isinstance(q, Pareto) else -math.inf)
    above = isinstance(inner.upper, float) and inner.upper == math.inf
    return below or (above and isinstance(q, Uniform))


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum()


def _parts(leaf: Tensor) -> int:
    return leaf.shape[1] if leaf.dim() == 2 else 0


def _spread(value: Value, leaf: Tensor) -> tuple[int, ...]:
    """One node per parameter that a tensor holds; where there is no gradient, one zero for all."""
    return value if isinstance(value, tuple) else (value,) * (_parts(leaf) or 1)


def _at_least_one(examples: Sequence[Example]) -> list[int]:
    """An input of each side, whose shape and dtype count even if the value does not depend on it."""
    found, at = [], 0
    for example in examples:
        found.append(at)
        at += len(example.leaves)
    return found


def _own(examples: Sequence[Example]) -> list[int]:
    """The inputs that are a law's own, or all of one that keeps none itself: infinity is connected to these."""
    found, at = [], 0
    for example in examples:
        own = [i for i, path in enumerate(example.leaves) if "." not in path] or range(len(example.leaves))
        found += [at + i for i in own]
        at += len(example.leaves)
    return found


class Example:
    """A copy of a distribution whose parameters are leaves of the example length.

    Attributes:
        leaves: By the path under which an object of this class has the parameter.
        law: The copy.
    """

    def __init__(self, d: Distribution) -> None:
        self.leaves: dict[str, Tensor] = {}
        self._choices: list[tuple[str, ...]] = []
        self.law = self._copy(d, "")
        if not self.leaves:
            raise RefusedError("a law without parameters")

    def reading(self, used: Sequence[bool]) -> Reading:
        """How an object of this class is read."""
        kept = [(path, _parts(leaf)) for (path, leaf), keep in zip(self.leaves.items(), used, strict=True) if keep]
        return Reading(tuple(path for path, _ in kept), tuple(part for _, part in kept), tuple(self._choices))

    def rebuilt(self, tensors: Sequence[Tensor]) -> Distribution:
        """The same law with other parameters."""
        return _replaced(self.law, dict(zip(map(id, self.leaves.values()), tensors, strict=True)))

    def _copy(self, d: Distribution, prefix: str) -> Distribution:
        state = dict(vars(d))
        given = ""
        if any(name in state for name in _CHOICES):
            given, other = ("logits", "probs") if gives_logits(d) else ("probs", "logits")
            state.pop(other, None)
            state.pop("_param", None)  # torch's second name for the given one
            self._choices.append((*prefix.split(".")[:-1], given, other))
        # Tensors of its own first, so that a parameter is read where it is nearest.
        for name, value in sorted(state.items(), key=lambda item: not isinstance(item[1], Tensor)):
            if isinstance(value, Tensor) and value.is_floating_point():
                state[name] = self._leaf(value, prefix + name, value.dim() - len(d.batch_shape))
            elif isinstance(value, Distribution):
                state[name] = self._copy(value, f"{prefix}{name}.")
        if given:
            state["_param"] = state[given]
        return made(type(d), state, torch.Size([LENGTH]))

    def _leaf(self, value: Tensor, path: str, event_dims: int) -> Tensor:
        """One leaf per path, even if a maker handed the same tensor over twice."""
        if event_dims not in {0, 1}:
            raise RefusedError("a parameter that is no vector")
        first = value.detach().reshape(-1, *value.shape[value.dim() - event_dims :])[:1]
        self.leaves[path] = working(first).expand(LENGTH, *first.shape[1:]).clone().requires_grad_()
        return self.leaves[path]


def _replaced(d: Distribution, tensors: dict[int, Tensor]) -> Distribution:
    state = dict(vars(d))
    for name, value in state.items():
        if isinstance(value, Tensor):
            state[name] = tensors.get(id(value), value)
        elif isinstance(value, Distribution):
            state[name] = _replaced(value, tensors)
    event_dims = len(d.event_shape)
    shapes = [t.shape[: t.dim() - event_dims] for t in state.values() if isinstance(t, Tensor)]
    inner = [part.batch_shape for part in state.values() if isinstance(part, Distribution)]
    return made(type(d), state, joint_shape(*shapes, *inner))
