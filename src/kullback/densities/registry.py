"""Which function describes which class: `family` enters one, `read` finds it for an object; `divergences` calls it.

A `Reading` keeps the parameters apart from the function that makes a `Density` of them, so that the engine can take the
parameters of some elements, or of one element for each of its panels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputTypeError, RegistrationError, explain_problem
from kullback.densities.density import Density
from kullback.densities.parameters import read as read_parameters
from kullback.densities.parameters import working

Maker = Callable[..., Density]
Reader = Callable[[Distribution], tuple[Tensor, ...]]


class Reading(NamedTuple):
    """A batch of univariate distributions: parameters of shape (elements,) each, and what makes a density of them.

    Attributes:
        parameters: One number per element each.
        make: The density of parameters with a trailing dimension of 1.
        components: For a mixture, the maker of each component and which parameters it takes; the first parameters are
            the logarithms of their weights.
        source: The class it was read from, for messages.
        searched: Whether the marks were found by looking at `log_prob`, so that nothing vouches for it.
        lattice: Whether it is a mass function on the integers.
    """

    parameters: tuple[Tensor, ...]
    make: Maker
    components: tuple[tuple[Maker, slice], ...] = ()
    source: type[Distribution] = Distribution
    searched: bool = False
    lattice: bool = False

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Reading:
        """The reading with every parameter changed alike."""
        return self._replace(parameters=tuple(change(t) for t in self.parameters))

    def density(self) -> Density:
        """The density, its tensors with a trailing dimension for the nodes."""
        return self.make(*(t.unsqueeze(-1) for t in self.parameters))

    def parts(self) -> list[Reading]:
        """The components of a mixture; of anything else itself."""
        if not self.components:
            return [self]
        return [
            self._replace(parameters=self.parameters[place], make=make, components=())
            for make, place in self.components
        ]


class _Family(NamedTuple):
    read: Reader
    make: Maker
    lattice: bool


_families: dict[type[Distribution], _Family] = {}


def family(
    cls: type[Distribution], *names: str, read: Reader | None = None, lattice: bool = False
) -> Callable[[Maker], Maker]:
    """Decorate the function from parameters to `Density` of a class, whose attributes they are."""

    def decorate(make: Maker) -> Maker:
        _families[cls] = _Family(read or (lambda d: read_parameters(d, *names)), make, lattice)
        return make

    return decorate


def register_density(
    cls: type[Distribution], *names: str, read: Reader | None = None, lattice: bool = False
) -> Callable[[Maker], Maker]:
    """Describe your own univariate class to the integrals, which then know its mass, kinks and tails without searching.

    A class with `log_prob` and `support` needs no description; one makes integrals faster, and exact about infinities.

    Args:
        cls: The class; subclasses with the same `log_prob` share the description.
        *names: The attributes that hold its parameters, one tensor of the batch shape each.
        read: Instead of names, a function from an object to its parameters.
        lattice: Whether it is a distribution of counts.

    Returns:
        A decorator for a function of the parameters, float64 tensors with a trailing dimension of 1, that returns a
        `kullback.densities.Density`.

    Raises:
        InputTypeError: If `cls` is no distribution class, or what is decorated is no function.
        RegistrationError: If the class is torch's own, whose description is the library's.

    Example:
        >>> import torch
        >>> import kullback as kb
        >>> from kullback.densities import exponential, on_line
        >>> from torch.distributions import Distribution, Laplace, constraints
        >>> class Logistic(Distribution):
        ...     arg_constraints, support = {}, constraints.real
        ...     def __init__(self, loc, scale):
        ...         self.loc, self.scale = loc, scale
        ...         super().__init__(loc.shape, validate_args=False)
        ...     def log_prob(self, x):
        ...         z = (x - self.loc) / self.scale
        ...         return -z - 2 * torch.nn.functional.softplus(-z) - self.scale.log()
        >>> @kb.register_density(Logistic, "loc", "scale")
        ... def logistic(loc, scale):
        ...     def log_prob(x):
        ...         z = x.z(loc, scale.log())
        ...         return -z - 2 * torch.nn.functional.softplus(-z) - scale.log()
        ...     tail = exponential(1.0, 1 / scale)
        ...     return on_line(loc, scale.log(), log_prob, tail, tail)
        >>> kb.kl(Logistic(torch.tensor(0.0), torch.tensor(1.0)), Laplace(0.0, 1.5))
        tensor(0.0228)
    """
    if not (isinstance(cls, type) and issubclass(cls, Distribution)):
        raise InputTypeError(
            explain_problem(
                "register_density() needs a distribution class.",
                got=repr(cls),
                expected="a subclass of torch.distributions.Distribution",
                instead='@register_density(MyDistribution, "loc", "scale")',
            )
        )
    if cls.__module__.startswith("torch.distributions."):
        raise RegistrationError(
            explain_problem(
                f"{cls.__name__} is torch's own class.",
                got="a description of your own for it",
                expected="a class of your own",
                instead=f"class Mine({cls.__name__}) with a log_prob of its own",
            )
        )

    def decorate(make: Maker) -> Maker:
        if not callable(make):
            raise InputTypeError(
                explain_problem(
                    f"register_density({cls.__name__}) decorates a function.",
                    got=repr(make),
                    expected="a function of the parameters that returns a Density",
                    instead=f"@register_density({cls.__name__}, ...) above def describe(loc, scale): ...",
                )
            )
        return family(cls, *names, read=read, lattice=lattice)(make)

    return decorate


def read_family(distribution: Distribution, shape: torch.Size) -> Reading | None:
    """The parameters of an object, expanded to a batch shape and flattened; None for a class without description.

    A subclass has that of its base if it has the same density.
    """
    cls = type(distribution)
    base = next((base for base in cls.__mro__ if base in _families), None)
    if base is None or cls.log_prob is not base.log_prob:
        return None
    found = _families[base]
    parameters = tuple(flat(t, shape) for t in found.read(distribution))
    return Reading(parameters, found.make, source=type(distribution), lattice=found.lattice)


def flat(tensor: Tensor, shape: torch.Size) -> Tensor:
    """A parameter in working precision, one number for each element of the batch."""
    return working(tensor).expand(shape).reshape(-1)
