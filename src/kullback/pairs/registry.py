"""Which formula answers KL(p ‖ q): registration, and the most specific rule; `dispatch` asks, formulas register.

A rule belongs to a pair of classes and answers for their subclasses. Among the rules that apply, one is *more
specific* than another if both of its classes are subclasses of the other's; the most specific rule wins, and if no
rule is more specific than all others the pair is ambiguous and an error names the candidates. Nothing depends on the
order of registration.

A formula that somebody else registered with torch (Pyro, GPyTorch, a user) is a rule of method "torch". It answers in
place of the library's own rule for the same two classes, because whoever registered it replaced torch's formula on
purpose; but a rule of `register_kl` here comes first. Over structures such as Independent the library's rule comes
first: it asks for the pair inside.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

from torch import Tensor
from torch.distributions import Distribution, Independent, MixtureSameFamily, TransformedDistribution
from torch.distributions import kl as torch_kl

from kullback._core.errors import InputTypeError, RegistrationError, explain_problem

F = TypeVar("F", bound=Callable[..., object])
Key = tuple[type[Distribution], type[Distribution]]
TorchFormula = Callable[[Distribution, Distribution], Tensor]

# Classes whose objects are made of other distributions. Only the objects say which pair is inside.
STRUCTURES: tuple[type[Distribution], ...] = (Independent, MixtureSameFamily, TransformedDistribution)


class Handover(NamedTuple):
    """kullback's answer as an entry of torch's registry.

    Attributes:
        answer: `kl_divergence`.
        before: The formula that stood there before, or None.
    """

    answer: TorchFormula
    before: TorchFormula | None

    def __call__(self, p: Distribution, q: Distribution) -> Tensor:
        """The divergence, as kullback computes it."""
        return self.answer(p, q)


def is_third_party(formula: object) -> bool:
    """Whether a formula comes neither from torch nor from here."""
    own = isinstance(formula, Handover) or getattr(formula, "__module__", None) == torch_kl.__name__
    return formula is not None and not own


class Reduced(NamedTuple):
    """What a structural rule returns: KL(p ‖ q) of the outer pair is that of an inner one, summed, or of two.

    Attributes:
        p: The inner p.
        q: The inner q.
        summed: Over how many of the rightmost batch dimensions of the inner pair the divergence is summed.
        plus: A second pair, whose divergence is added.
    """

    p: Distribution
    q: Distribution
    summed: int = 0
    plus: Reduced | None = None


Formula = Callable[..., Any]


class Rule(NamedTuple):
    """One registered formula.

    Attributes:
        p: The class of the first distribution.
        q: The class of the second.
        formula: Takes (p, q). Returns the divergence in working precision, or the divergence and its error, or an inner
            pair; None if it does not answer these two objects after all. It says itself where the answer is infinite.
        method: "closed form", "integral", "series", "infinite", "structure", "user" or "torch".
        source: Where the formula comes from, in a few words.
        finished: Whether the formula's result is the answer as it is, in dtype and in the broadcast batch shape: it
            comes from one kernel.
    """

    p: type[Distribution]
    q: type[Distribution]
    formula: Formula
    method: str
    source: str
    finished: bool = False

    def __str__(self) -> str:
        return f"KL({self.p.__name__} || {self.q.__name__})"


class Route(NamedTuple):
    """How two objects are answered.

    Attributes:
        rule: The rule that applies.
        inner: Which pair inside is to be answered, where the rule is one of a structure.
    """

    rule: Rule
    inner: Reduced | None = None


_rules: dict[tuple[type, type], Rule] = {}
# Rules made of the formulas that others registered with torch, and all of torch's formulas when they were read.
_torch_rules: dict[tuple[type, type], Rule] = {}
_torch_entries: list[Any] = []
# Asked in this order for a rule where two objects have none of their own; `pairs.__init__` fills it.
fallbacks: list[Callable[[Distribution, Distribution], Rule | None]] = []
# What `dispatch` derived from the rules for two classes; every change of the rules empties it.
derived: dict[tuple[type, type], Any] = {}


def register(
    p: type[Distribution],
    q: type[Distribution],
    *,
    source: str,
    method: str = "closed form",
    finished: bool = False,
) -> Callable[[F], F]:
    """Decorate the library's own formula for KL(p ‖ q)."""

    def decorate(formula: F) -> F:
        add(Rule(p, q, cast("Formula", formula), method, source, finished))
        return formula

    return decorate


def register_kl(type_p: type[Distribution], type_q: type[Distribution], *, override: bool = False) -> Callable[[F], F]:
    """Register your own formula for KL(type_p ‖ type_q); it also answers for subclasses.

    The function receives the two distributions and returns a tensor of the broadcast batch shape.

    Args:
        type_p: The class of the first distribution.
        type_q: The class of the second.
        override: Replace a formula that exists already for exactly these two classes.

    Raises:
        InputTypeError: If the arguments are not distribution classes, or what is decorated is no function.
        RegistrationError: If the pair has a formula and `override` is False.

    Example:
        >>> import torch, kullback
        >>> from torch.distributions import Distribution, Normal
        >>> class Spike(Distribution):
        ...     arg_constraints = {}
        ...     def __init__(self, at):
        ...         self.at = at
        ...         super().__init__(at.shape, validate_args=False)
        >>> @kullback.register_kl(Spike, Spike)
        ... def kl_spike_spike(p, q):
        ...     return torch.where(p.at == q.at, 0.0, torch.inf)
        >>> kullback.kl_divergence(Spike(torch.tensor(1.0)), Spike(torch.tensor([1.0, 2.0])))
        tensor([0., inf])
    """
    for name, given in (("type_p", type_p), ("type_q", type_q)):
        if not (isinstance(given, type) and issubclass(given, Distribution)):
            raise InputTypeError(
                explain_problem(
                    f"register_kl() needs distribution classes; {name} is not one.",
                    got=repr(given),
                    expected="a subclass of torch.distributions.Distribution",
                    instead="@register_kl(Normal, MyDistribution)",
                )
            )

    def decorate(formula: F) -> F:
        if not callable(formula):
            raise InputTypeError(
                explain_problem(
                    f"register_kl({type_p.__name__}, {type_q.__name__}) decorates a function.",
                    got=repr(formula),
                    expected="a function of the two distributions",
                    instead=f"@register_kl({type_p.__name__}, {type_q.__name__}) above def formula(p, q): ...",
                )
            )
        rule = Rule(type_p, type_q, cast("Formula", formula), "user", where_defined(formula))
        if override:
            _rules.pop((type_p, type_q), None)
        add(rule)
        return formula

    return decorate


def add(rule: Rule) -> None:
    """Enter a rule; a pair has one formula."""
    known = _rules.get((rule.p, rule.q))
    if known is not None:
        raise RegistrationError(
            explain_problem(
                f"{rule} has a formula already.",
                got=f"a second one, {where_defined(rule.formula)}",
                expected=f"none: {where_defined(known.formula)} answers it",
                instead=f"@register_kl({rule.p.__name__}, {rule.q.__name__}, override=True)",
            )
        )
    _rules[rule.p, rule.q] = rule
    derived.clear()


def rules() -> list[Rule]:
    """Every registered rule, by name, without those of torch's registry."""
    return sorted(_rules.values(), key=lambda rule: (rule.p.__name__, rule.q.__name__))


def torch_rules() -> list[Rule]:
    """The rules made of formulas that others registered with torch."""
    return list(_torch_rules.values())


def follow_torch() -> None:
    """Read torch's registry again if it has changed since the last time."""
    now = list(torch_kl._KL_REGISTRY.values())
    if now == _torch_entries:
        return
    _torch_entries[:] = now
    _torch_rules.clear()
    for (p, q), entry in torch_kl._KL_REGISTRY.items():
        formula = entry.before if isinstance(entry, Handover) else entry
        if formula is not None and is_third_party(formula):
            source = f"torch.distributions.register_kl: {where_defined(formula)}"
            _torch_rules[p, q] = Rule(p, q, formula, "torch", source)
    derived.clear()


# torch.compiler.assume_constant_result sets this mark too, but imports the compiler for it, which takes seconds.
follow_torch._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _registered(p: type, q: type) -> Rule | None:
    """The rule registered for exactly these two classes, here or with torch."""
    own, theirs = _rules.get((p, q)), _torch_rules.get((p, q))
    prefer_own = own is not None and (own.method == "user" or _is_structure(p, q))
    if theirs is None or prefer_own:
        return own
    return None if _is_structure(p, q) else theirs


def _is_structure(p: type, q: type) -> bool:
    return p in STRUCTURES or q in STRUCTURES


def find(p: type, q: type) -> Rule | None:
    """The most specific rule for two classes, or None."""
    # The method resolution order lists a class before its bases, so with single inheritance the first hit on either
    # axis is the most specific one there.
    found = (_registered(a, b) for a in p.__mro__ for b in q.__mro__)
    applying = [rule for rule in found if rule is not None]
    if not applying:
        return None
    for rule in applying:
        if all(issubclass(rule.p, other.p) and issubclass(rule.q, other.q) for other in applying):
            return rule
    theirs = next((rule for rule in applying if rule.method == "torch"), None)
    if theirs is not None:  # torch prefers the closer first class, which comes first here
        return theirs
    best = [r for r in applying if not any(_is_narrower(other, r) for other in applying)]
    raise RegistrationError(
        explain_problem(
            f"KL({p.__name__} || {q.__name__}) is ambiguous: several formulas apply and none is the most specific.",
            got=" and ".join(f"{rule} ({where_defined(rule.formula)})" for rule in best),
            expected="one that fits both classes at least as closely as the others",
            instead=f"@register_kl({p.__name__}, {q.__name__})",
        )
    )


def find_route(p: Distribution, q: Distribution) -> Route | None:
    """The rule that answers two objects: their classes' own unless its structure does not fit, else a general one."""
    follow_torch()
    rule = find(type(p), type(q))
    route = None if rule is None else _route(rule, p, q)
    if route is not None:
        return route
    found = (rule_for(p, q) for rule_for in fallbacks)
    return next((_route(rule, p, q) for rule in found if rule is not None), None)


def _route(rule: Rule, p: Distribution, q: Distribution) -> Route | None:
    """The rule, with the pair inside if it is one of a structure; None where the structure does not fit."""
    if rule.method != "structure":
        return Route(rule)
    inner = rule.formula(p, q)
    return None if inner is None else Route(rule, inner)


def torch_structure(p: Distribution, q: Distribution) -> Rule | None:
    """A formula that others registered with torch for structures, where nothing here takes the structure apart."""
    found = (_torch_rules.get((a, b)) for a in type(p).__mro__ for b in type(q).__mro__)
    return next((rule for rule in found if rule is not None), None)


def _is_narrower(a: Rule, b: Rule) -> bool:
    return a is not b and issubclass(a.p, b.p) and issubclass(a.q, b.q)


def where_defined(formula: Callable[..., object]) -> str:
    """Module and name of a formula, for messages."""
    name = getattr(formula, "__qualname__", repr(formula))
    module = getattr(inspect.getmodule(formula), "__name__", "?")
    return f"{module}.{name}"
