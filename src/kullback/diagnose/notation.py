"""Read a distribution written as text: `Normal(0, 1)`, `Dirichlet([1, 2])`, `0.3*Normal(0, 1) + 0.7*Normal(4, 1)`.

The grammar is in `expression.py`. Names are the classes of torch.distributions, in any case, or their usual short
names; numbers become float64 tensors, except where torch wants an int. The command line calls `parse_distribution`.
"""

from __future__ import annotations

import difflib
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor, distributions
from torch.distributions import Categorical, Distribution, Independent, MixtureSameFamily, transforms
from torch.distributions.constraints import Constraint

from kullback._core.errors import InputValueError, explain_problem
from kullback.densities.mixed import Mixture as Mixed
from kullback.diagnose.constraint_words import words
from kullback.diagnose.curves import is_discrete
from kullback.diagnose.expression import Call, Mixture, Value, parse_expression, refuse

# Parameters that torch takes as Python integers only, and how large they may be: memory grows with them.
_INTEGERS = {
    ("Independent", "reinterpreted_batch_ndims"): 8,
    ("LKJCholesky", "dim"): 200,
    ("Multinomial", "total_count"): 100_000,
}
_DISTRIBUTIONS = {"base_distribution", "mixture_distribution", "component_distribution"}
_NOT_WRITABLE = {"validate_args"}
_ABSTRACT = {Distribution, distributions.ExponentialFamily}
# Numbers in all parameters together, after broadcasting.
_MAX_ELEMENTS = 100_000
_TRANSFORMS = {
    name: getattr(transforms, name)
    for name in ("AffineTransform", "ExpTransform", "PowerTransform", "SigmoidTransform", "TanhTransform")
}
_ALIASES = {
    "n": "Normal",
    "gauss": "Normal",
    "gaussian": "Normal",
    "mvn": "MultivariateNormal",
    "multivariategaussian": "MultivariateNormal",
    "t": "StudentT",
    "student": "StudentT",
    "studentst": "StudentT",
    "unif": "Uniform",
    "u": "Uniform",
    "exp": "Exponential",
    "expon": "Exponential",
    "bern": "Bernoulli",
    "binom": "Binomial",
    "nbinom": "NegativeBinomial",
    "negbinom": "NegativeBinomial",
    "pois": "Poisson",
    "geom": "Geometric",
    "cat": "Categorical",
    "discrete": "Categorical",
    "dir": "Dirichlet",
    "lognorm": "LogNormal",
    "halfnorm": "HalfNormal",
    "invgamma": "InverseGamma",
    "chisquared": "Chi2",
    "chisquare": "Chi2",
    "f": "FisherSnedecor",
    "lkj": "LKJCholesky",
    "mixture": "MixtureSameFamily",
}
# What textbooks and other libraries call the parameters; the first that a class has is meant. Letters whose meaning
# differs between books for one family (β of Exponential, p of NegativeBinomial) are not among them.
_PARAMETER_ALIASES = {
    **dict.fromkeys(("mu", "μ", "mean", "location"), ("loc",)),
    **dict.fromkeys(("sigma", "σ", "std", "sd", "stddev"), ("scale",)),
    **dict.fromkeys(("lambda", "lam", "λ"), ("rate",)),
    **dict.fromkeys(("alpha", "α", "a", "k"), ("concentration1", "concentration", "alpha", "low")),
    **dict.fromkeys(("beta", "β"), ("concentration0",)),
    **dict.fromkeys(("nu", "ν", "dof"), ("df",)),
    **dict.fromkeys(("cov", "covariance", "Sigma", "Σ"), ("covariance_matrix",)),
    **dict.fromkeys(("kappa", "κ"), ("concentration",)),
    **dict.fromkeys(("p", "prob"), ("probs",)),
    "b": ("concentration0", "high", "scale"),
    "n": ("total_count",),
}
_FAMILY_ALIASES = {"Gamma": {"beta": "rate", "β": "rate"}, "InverseGamma": {"beta": "rate", "β": "rate"}}
_NO_ALIASES = {("NegativeBinomial", "p"), ("NegativeBinomial", "prob")}
_SPREADS = {"var": "sqrt", "variance": "sqrt", "sigma2": "sqrt", "precision": "1/sqrt", "tau": "1/sqrt"}
_EXAMPLES = {
    "Normal": "Normal(0, 1)",
    "Wishart": "Wishart(3, [[1, 0], [0, 1]])",
    "MultivariateNormal": "MultivariateNormal([0, 0], [[1, 0], [0, 1]])",
    "LowRankMultivariateNormal": "LowRankMultivariateNormal([0, 0], [[1], [0]], [1, 1])",
    "Dirichlet": "Dirichlet([1, 2, 3])",
    "Categorical": "Categorical([0.2, 0.8])",
    "Independent": "Independent(Normal([0, 0], [1, 2]), 1)",
    "Multinomial": "Multinomial(4, [0.2, 0.8])",
    "MixtureSameFamily": "0.3*Normal(0, 1) + 0.7*Normal(4, 1)",
    "Binomial": "Binomial(5, 0.5)",
    "NegativeBinomial": "NegativeBinomial(5, 0.5)",
    "LKJCholesky": "LKJCholesky(3, 1)",
    "LogisticNormal": "LogisticNormal([0, 0], [1, 1])",
    "OneHotCategorical": "OneHotCategorical([0.2, 0.8])",
    "OneHotCategoricalStraightThrough": "OneHotCategoricalStraightThrough([0.2, 0.8])",
    "RelaxedBernoulli": "RelaxedBernoulli(0.5, 0.3)",
    "RelaxedOneHotCategorical": "RelaxedOneHotCategorical(0.5, [0.2, 0.8])",
    "TransformedDistribution": "TransformedDistribution(Normal(0, 1), [ExpTransform()])",
}


class _Built(NamedTuple):
    """A distribution and the arguments it was made of, which the parts of a mixture are stacked from."""

    kind: type[Distribution]
    arguments: Mapping[str, Any]
    distribution: Distribution


def names() -> dict[str, type[Distribution]]:
    """The classes that can be written down."""
    found = {name: getattr(distributions, name) for name in distributions.__all__}
    kinds = {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, Distribution)}
    return {name: kind for name, kind in kinds.items() if kind not in _ABSTRACT}


def parse_distribution(text: str) -> Distribution:
    """The distribution that `text` describes.

    Example:
        >>> parse_distribution("N(0, scale=2)").scale
        tensor(2., dtype=torch.float64)
        >>> parse_distribution("0.3*Normal(0, 1) + 0.7*Normal(4, 1)").mixture_distribution.probs
        tensor([0.3000, 0.7000], dtype=torch.float64)

    Raises:
        InputValueError: If the text is not in the grammar, names no distribution, or has impossible parameters.
    """
    value = parse_expression(text)
    if isinstance(value, Call | Mixture):
        return _build(value, text).distribution
    if isinstance(value, list):
        return refuse(text, "it is a list", f'"Categorical({_shown(text.strip())})"')
    return refuse(text, f"it is the number {value:g}")


def _build(value: Call | Mixture, text: str) -> _Built:
    if isinstance(value, Call):
        return _call(value, text)
    weights = [weight for weight, _ in value.parts]
    if not all(weight >= 0 for weight in weights) or abs(math.fsum(weights) - 1) > 1e-6:
        refuse(
            text,
            f"the weights of a mixture are at least 0 and sum to 1; these sum to {math.fsum(weights):.6g}",
            '"0.3*Normal(0, 1) + 0.7*Normal(4, 1)"',
        )
    parts = [_call(call, text) for _, call in value.parts]
    used = [at for at, weight in enumerate(weights) if weight > 0]
    weights, parts = [weights[at] for at in used], [parts[at] for at in used]
    return parts[0] if len(parts) == 1 else _mixture(weights, parts, text)


def _mixture(weights: Sequence[float], parts: Sequence[_Built], text: str) -> _Built:
    if any(part.kind is not parts[0].kind or part.arguments.keys() != parts[0].arguments.keys() for part in parts):
        return _mixed(weights, parts, text)
    shapes = {(part.distribution.batch_shape, part.distribution.event_shape) for part in parts}
    if len(shapes) > 1:
        refuse(text, "the parts of a mixture have different shapes")
    batch = parts[0].distribution.batch_shape
    components = _stack(parts, len(batch), text)
    mixing = Categorical(probs=torch.tensor(weights, dtype=torch.float64).expand((*batch, len(weights))))
    arguments = {"mixture_distribution": mixing, "component_distribution": components}
    return _construct(MixtureSameFamily, arguments, text)


def _mixed(weights: Sequence[float], parts: Sequence[_Built], text: str) -> _Built:
    """Parts of several families."""
    given = [part.distribution for part in parts]
    if any(d.event_shape for d in given):
        kinds = " and ".join(sorted({part.kind.__name__ for part in parts}))
        refuse(text, f"a mixture of vectors has parts of one family with the same parameters, here {kinds}")
    if len({is_discrete(d) for d in given}) > 1:
        refuse(text, "the parts of a mixture are all densities or all mass functions")
    try:
        return _Built(Mixed, {}, Mixed(torch.tensor(weights, dtype=torch.float64), given))
    except RuntimeError as error:
        refuse(text, f"the parts of a mixture have different shapes ({str(error).partition(chr(10))[0]})")


def _stack(parts: Sequence[_Built], dim: int, text: str) -> Distribution:
    """The parts as one distribution with one more batch dimension, the last."""
    kind, first = parts[0].kind, parts[0].arguments
    if kind in (MixtureSameFamily, distributions.TransformedDistribution):
        refuse(text, f"a mixture of {kind.__name__} cannot be written")
    arguments: dict[str, Any] = {}
    for name, value in first.items():
        given = [part.arguments[name] for part in parts]
        if isinstance(value, _Built):
            arguments[name] = _stack(given, dim, text)
        elif isinstance(value, Tensor):
            events = _event_dim(kind, name)
            shape = parts[0].distribution.batch_shape
            if kind is not Independent and value.dim() < events:
                refuse(text, f"{name} of {kind.__name__} has too few dimensions for a mixture")
            wide = [tensor.expand((*shape, *tensor.shape[tensor.dim() - events :])) for tensor in given]
            if len({tensor.shape for tensor in wide}) > 1:
                refuse(text, f"the parts of a mixture have {name} of different shapes")
            arguments[name] = torch.stack(wide, dim)
        elif any(item != value for item in given):
            refuse(text, f"the parts of a mixture have one {name}, here {' and '.join(map(str, given))}")
        else:
            arguments[name] = value
    return _construct(kind, arguments, text).distribution


def _call(call: Call, text: str) -> _Built:
    kind = _kind(call.name, text)
    bound = _bind(kind, call)
    arguments = {name: _argument(kind, name, value, call, text) for name, value in bound.items()}
    _check_size(kind, arguments, text)
    return _construct(kind, arguments, call.text)


def _construct(kind: type[Distribution], arguments: Mapping[str, Any], text: str) -> _Built:
    given = {k: v.distribution if isinstance(v, _Built) else v for k, v in arguments.items()}
    construct: Any = kind
    try:
        return _Built(kind, arguments, construct(**given, validate_args=True))
    except Exception as error:  # noqa: BLE001 - torch's constructors raise almost anything
        _refuse_parameters(kind, given, error, text)


def _kind(name: str, text: str) -> type[Distribution]:
    known = names()
    short = name.removeprefix("torch.").removeprefix("distributions.")
    lower = {each.lower(): each for each in known}
    folded = short.lower().replace("_", "")
    found = short if short in known else lower.get(folded) or _ALIASES.get(folded)
    if found is not None:
        return known[found]
    close = difflib.get_close_matches(folded, [*lower, *_ALIASES], n=3)
    proposals = list(dict.fromkeys(lower.get(each) or _ALIASES[each] for each in close))
    raise InputValueError(
        explain_problem(
            f"There is no distribution {name!r}." + (f" Did you mean {' or '.join(proposals)}?" if proposals else ""),
            got=repr(_shown(text)),
            expected="a class of torch.distributions",
            instead=_example(known[proposals[0]]) if proposals else "kullback pairs lists the names",
        )
    )


def _bind(kind: type[Distribution], call: Call) -> dict[str, Value]:
    """Arguments under their names, as the class would bind them."""
    signature = inspect.signature(kind).parameters
    parameters = [name for name in signature if name not in _NOT_WRITABLE]
    if len(call.arguments) > len(parameters):
        raise _misfit(kind, f"{kind.__name__} takes at most {len(parameters)} parameters.", call)
    bound = dict(zip(parameters, call.arguments, strict=False))
    for given, value in call.keywords:
        name = _parameter(kind.__name__, given, parameters)
        if name in bound:
            raise _misfit(kind, f"{kind.__name__} is given {name} twice.", call)
        if name not in parameters:
            close = difflib.get_close_matches(name, parameters, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            if given in _SPREADS and "scale" in parameters:
                hint = f" Write scale={_SPREADS[given]}(…)."
            raise _misfit(kind, f"{kind.__name__} has no parameter {name!r}.{hint}", call)
        bound[name] = value
    missing = [name for name in parameters if name not in bound and signature[name].default is inspect.Parameter.empty]
    if missing:
        raise _misfit(kind, f"{kind.__name__} also needs {' and '.join(missing)}.", call)
    return bound


def _parameter(family: str, given: str, parameters: Sequence[str]) -> str:
    """The parameter that a name stands for; the name itself where it stands for none."""
    if given in parameters or (family, given) in _NO_ALIASES:
        return given
    own = _FAMILY_ALIASES.get(family, {}).get(given)
    return own or next((each for each in _PARAMETER_ALIASES.get(given, ()) if each in parameters), given)


def _misfit(kind: type[Distribution], problem: str, call: Call) -> InputValueError:
    return InputValueError(
        explain_problem(problem, got=_shown(call.text), expected=_usage(kind), instead=_example(kind))
    )


def _argument(kind: type[Distribution], name: str, value: Value, call: Call, text: str) -> Any:
    if name in _DISTRIBUTIONS:
        if isinstance(value, Call | Mixture):
            return _build(value, text)
        raise _misfit(kind, f"{name} of {kind.__name__} is a distribution.", call)
    if name == "transforms":
        return [_transform(item, call, text) for item in (value if isinstance(value, list) else [value])]
    if isinstance(value, Call | Mixture) or (isinstance(value, list) and not _only_numbers(value)):
        raise _misfit(kind, f"{name} of {kind.__name__} is a number or a list of numbers.", call)
    most = _INTEGERS.get((kind.__name__, name))
    if most is not None:
        if not isinstance(value, float) or not value.is_integer() or not 0 <= value <= most:
            raise _misfit(kind, f"{name} of {kind.__name__} is a whole number from 0 to {most}.", call)
        return int(value)
    try:
        return torch.tensor(value, dtype=torch.float64)
    except (ValueError, TypeError) as error:
        raise _misfit(kind, f"{name} of {kind.__name__} is a list whose rows have different lengths.", call) from error


def _transform(value: Value, call: Call, text: str) -> transforms.Transform:
    if not isinstance(value, Call) or value.name not in _TRANSFORMS or value.keywords:
        refuse(
            text,
            f"a transform is one of {', '.join(_TRANSFORMS)}",
            '"TransformedDistribution(Normal(0, 1), [ExpTransform()])"',
        )
    numbers = [item for item in value.arguments if isinstance(item, float)]
    try:
        made = _TRANSFORMS[value.name](*numbers)
    except (TypeError, ValueError) as error:
        refuse(call.text, f"{value.name} does not take these parameters ({str(error).partition(chr(10))[0]})")
    assert isinstance(made, transforms.Transform)
    return made


def _only_numbers(value: list[Value]) -> bool:
    return all(_only_numbers(item) if isinstance(item, list) else isinstance(item, float) for item in value)


def _event_dim(kind: type[Distribution], name: str) -> int:
    constraints: Any = kind.arg_constraints  # a property of some classes
    constraint = constraints.get(name) if isinstance(constraints, dict) else None
    return int(constraint.event_dim) if isinstance(constraint, Constraint) else 0


def _check_size(kind: type[Distribution], arguments: Mapping[str, Any], text: str) -> None:
    """Refuse parameters that are small each but large when broadcast."""
    batches, largest = [], 1
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            events = min(_event_dim(kind, name), value.dim())
            batches.append(value.shape[: value.dim() - events])
            largest = max(largest, math.prod(value.shape[value.dim() - events :]))
    places = max(map(len, batches), default=0)
    batch = [max((s[-place] for s in batches if len(s) >= place), default=1) for place in range(1, places + 1)]
    if largest * math.prod(batch) > _MAX_ELEMENTS:
        refuse(text, f"its parameters have more than {_MAX_ELEMENTS} numbers when broadcast")


def _refuse_parameters(kind: type[Distribution], given: Mapping[str, Any], error: Exception, text: str) -> NoReturn:
    """Say in words what a class of torch complains about."""
    first = str(error).strip().partition("\n")[0]
    asked = re.match(r"Expected parameter (\w+) .* to satisfy the constraint (.+), but found", first)
    problem, got = f"{kind.__name__} does not take these parameters: {first or type(error).__name__}", _shown(text)
    if asked:
        own = isinstance(given.get(asked[1]), Tensor)
        # An inner distribution may complain under another name: a Beta is a Dirichlet inside.
        problem = f"{asked[1] if own else 'A parameter'} of {kind.__name__} must be {words(asked[2])}."
        got = f"{asked[1]} = {_written(given[asked[1]])} in {got}" if own else got
    raise InputValueError(explain_problem(problem, got=got, expected=_usage(kind), instead=_example(kind))) from error


def _usage(kind: type[Distribution]) -> str:
    parameters = [p for p in inspect.signature(kind).parameters.values() if p.name not in _NOT_WRITABLE]
    optional = [p.name for p in parameters if p.default is not inspect.Parameter.empty]
    shown = [f"[{p.name}]" if p.name in optional else p.name for p in parameters]
    return f"{kind.__name__}({', '.join(shown)})" + ("; parameters in [ ] may be left out" if optional else "")


def _example(kind: type[Distribution]) -> str:
    if kind.__name__ in _EXAMPLES:
        return f'"{_EXAMPLES[kind.__name__]}"'
    needed = [p.name for p in inspect.signature(kind).parameters.values() if p.default is inspect.Parameter.empty]
    numbers = [{"loc": "0", "low": "0", "df": "3"}.get(name, "1") for name in needed] or ["0.5"]
    return f'"{kind.__name__}({", ".join(numbers)})"'


def _written(tensor: Tensor) -> str:
    text = str(tensor.tolist() if tensor.numel() <= 12 else f"{tensor.flatten()[:6].tolist()} and more")
    return re.sub(r"\.0\b", "", text)


def _shown(text: str) -> str:
    return text if len(text) <= 120 else text[:120] + "…"
