"""Subclasses that change the density: the formula of the family is theirs, too, and a warning says so once a class.

A subclass may override `log_prob` to be faster, to sum over a dimension or to squash the value on both sides alike, so
overriding is not an error; that KL(p ‖ q) does not follow `p.log_prob` must not stay unsaid, though.
"""

from __future__ import annotations

import warnings
from weakref import WeakSet

import torch
from torch.distributions import Distribution

from kullback._core.errors import KullbackWarning, explain_problem
from kullback.kernels.levels import tracer_active, transform_active

_POINTS = 8
# Two implementations of one density differ by roundings of float32 or, for bfloat16 parameters, not by this much.
_DIFFERENT = 0.05
_compared: WeakSet[type] = WeakSet()


def warn_of_other_densities(p: Distribution, q: Distribution) -> None:
    """Warn of a class that is not torch's and whose `log_prob` is another function than that of torch's class."""
    if torch.compiler.is_compiling() or transform_active() or tracer_active():
        return
    for law in (p, q):
        if not type(law).__module__.startswith("torch.") and type(law) not in _compared:
            _compare(law)


def _compare(law: Distribution) -> None:
    kind = type(law)
    _compared.add(kind)
    owners = [base for base in kind.__mro__ if "log_prob" in vars(base)]
    family = next((base for base in owners if base.__module__.startswith("torch.")), Distribution)
    if family is Distribution or owners[0] is family or _same_density(law, family):
        return
    name, parent = kind.__name__, family.__name__
    warnings.warn(
        explain_problem(
            f"{name}.log_prob is not the density of {parent}, and KL is computed with the formulas of {parent}.",
            got=f"{name}, a subclass of {parent} without formulas of its own",
            expected=f"a subclass with the density of {parent}, or a change that both sides share",
            instead=f"@register_kl({name}, {name}) above your own formula",
        ),
        KullbackWarning,
        stacklevel=5,
    )


def _same_density(law: Distribution, family: type[Distribution]) -> bool:
    """Whether two implementations agree at samples, or cannot be compared; the user's generator is left as it is.

    That of another device than the CPU would not be, so that nothing is drawn there.
    """
    if any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in vars(law).values()):
        return True
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            at = law.sample(torch.Size((_POINTS,)))
            own, inherited = law.log_prob(at), family.log_prob(law, at)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError):
        return True
    if own.shape != inherited.shape:
        return True
    far = (own - inherited).abs() > _DIFFERENT * (1 + inherited.abs())
    return not bool(far.any())
