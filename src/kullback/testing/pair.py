"""`check_pair`: the battery for the KL divergence of two distribution objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

import kullback
from kullback._core.errors import InputTypeError, ShapeError, explain_problem
from kullback.testing.pair_checks import PAIR_VALUES
from kullback.testing.pair_derivatives import PAIR_DERIVATIVES
from kullback.testing.pair_parameters import parameters, rebuild
from kullback.testing.pair_subject import Example, Make, PairSubject
from kullback.testing.report import Report
from kullback.testing.runner import Battery

PAIR_BATTERY: Battery[PairSubject] = Battery(PAIR_VALUES, PAIR_DERIVATIVES)

RTOL = {torch.float64: 1e-10, torch.float32: 1e-5}
"""The relative tolerance of a value, by the dtype it comes back in."""


def check_pair(
    p: Distribution | Make,
    q: Distribution | Iterable[Sequence[Any]],
    *,
    kl: Callable[[Distribution, Distribution], Tensor] | None = None,
    expected: Any = None,
    reference: Callable[[Distribution, Distribution], Any] | None = None,
    rtol: Mapping[torch.dtype, float] | None = None,
    gradient_rtol: float = 1e-7,
    only: Iterable[str] | str | None = None,
    skip: Iterable[str] | str = (),
    compile_backend: str = "aot_eager",
) -> Report:
    """Find out what is wrong with a KL divergence of two distributions: values, gradients, batches, transforms.

    The truth for scalar families is a quadrature or a sum in 30 digits over densities written in mpmath, from the
    parameters as stored. For other families pass `expected` or `reference`; the remaining checks hold either way.

    Args:
        p: A distribution; or a function `make(*parameters)` that returns p and q as a tuple.
        q: The other distribution; or, after a function, a list of examples, each a sequence of its parameters.
            Numbers become float64 tensors; whole numbers of type int are counts and are not differentiated.
        kl: The function under test, `kullback.kl_divergence` by default.
        expected: Known values: a number, or one an element of the batch or an example.
        reference: A function of two single distributions that returns the true value.
        rtol: Relative tolerances of values by the dtype of the result: 1e-10 in float64, 1e-5 in float32 by default.
        gradient_rtol: Tolerance of derivatives against differences in float64.
        only: Names of the checks to run; all by default.
        skip: Names of checks not to run.
        compile_backend: The backend of the compile check; "inductor" is thorough and slow.

    Returns:
        A `Report`; print it, or call its `raise_if_failed()` in a test.

    Raises:
        InputTypeError: If p and q are neither two distributions nor a function and examples.
        InputValueError: If `only` or `skip` names a check that does not exist.
        ShapeError: If `expected` has not one number an example.
        UnavailableError: If mpmath is missing.

    Example:
        >>> import torch
        >>> from torch.distributions import Poisson, kl_divergence
        >>> p, q = (Poisson(torch.tensor(rate, dtype=torch.float64)) for rate in (0.0, 1.0))
        >>> print(check_pair(p, q, kl=kl_divergence, only=["value", "batch"]))
        KL(Poisson || Poisson): 1 passed, 1 failed
          ✗ value: expected 1, got nan — p = Poisson(rate=0.; float64), q = Poisson(rate=1.; float64)
    """
    if isinstance(p, Distribution) and isinstance(q, Distribution):
        subject = _from_objects(p, q)
    elif callable(p) and not isinstance(q, Distribution | type):
        subject = _from_examples(p, q)
    else:
        raise InputTypeError(
            explain_problem(
                "check_pair takes two distributions, or a function and examples of its parameters.",
                got=f"{type(p).__name__} and {type(q).__name__}",
                instead="check_pair(Normal(0., 1.), Normal(1., 2.)) or check_pair(make, [(0., 1., 1., 2.)])",
            )
        )
    subject.kl = kullback.kl_divergence if kl is None else kl
    if expected is not None:
        subject.expected = torch.as_tensor(expected, dtype=torch.float64).flatten().tolist()
        if len(subject.expected) != len(subject.examples):
            raise ShapeError(
                explain_problem(
                    "expected= needs one value an example.",
                    got=f"{len(subject.expected)} values",
                    expected=f"{len(subject.examples)}",
                )
            )
    subject.reference = reference
    subject.rtol = {**RTOL, **(rtol or {})}
    subject.gradient_rtol = gradient_rtol
    subject.compile_backend = compile_backend
    first = subject.make(*subject.examples[0])
    return PAIR_BATTERY.run(subject, f"KL({type(first[0]).__name__} || {type(first[1]).__name__})", only, skip)


def _from_objects(p: Distribution, q: Distribution) -> PairSubject:
    batch = np.broadcast_shapes(p.batch_shape, q.batch_shape)
    make = rebuild(p, q)
    names = (*(f"p.{name}" for name in parameters(p)), *(f"q.{name}" for name in parameters(q)))
    varied = tuple(not name.endswith(".total_count") for name in names)
    if not batch:
        return PairSubject(_no_kl, make, [_detached(p, q)], varied, names)
    whole = _detached(p.expand(batch), q.expand(batch))
    places = itertools.product(*(range(size) for size in batch))
    return PairSubject(_no_kl, make, [tuple(x[place] for x in whole) for place in places], varied, names, (p, q))


def _detached(p: Distribution, q: Distribution) -> Example:
    return tuple(x.detach() for x in (*parameters(p).values(), *parameters(q).values()))


def _from_examples(make: Make, examples: Iterable[Sequence[Any]]) -> PairSubject:
    tables = [tuple(example) for example in examples]
    if not tables:
        raise ShapeError(explain_problem("check_pair needs at least one example.", got="none"))
    varied = tuple(not _is_count(x) for x in tables[0])
    names = tuple(f"parameter {i}" for i in range(len(varied)))
    return PairSubject(_no_kl, make, [tuple(_as_tensor(x) for x in example) for example in tables], varied, names)


def _is_count(x: Any) -> bool:
    return isinstance(x, int) or (isinstance(x, Tensor) and not x.is_floating_point())


def _as_tensor(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    return torch.tensor(x) if isinstance(x, int) else torch.tensor(x, dtype=torch.float64)


def _no_kl(_p: Distribution, _q: Distribution) -> Tensor:
    raise AssertionError("the function under test is set by check_pair")
