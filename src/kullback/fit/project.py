"""`project`: fits a distribution by minimising KL. The public function of this package."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, overload

from torch import Tensor
from torch.distributions import Distribution

from kullback._core.errors import InputValueError, KullbackError, KullbackWarning, explain_problem
from kullback.fit.assemble import assemble_forward, assemble_reverse
from kullback.fit.families import Family, as_family
from kullback.fit.forward import project_forward
from kullback.fit.log_density import log_target_of
from kullback.fit.newton import Search
from kullback.fit.projection import Projection, Ranking
from kullback.fit.reverse import project_reverse
from kullback.fit.targets import LogDensity, as_distribution, read_target
from kullback.tensors.views import Samples, View

Direction = Literal["forward", "reverse"]
Criterion = Literal["kl", "aic", "bic"]
FamilyLike = type[Distribution] | str | Family
TargetLike = Distribution | Samples | View | LogDensity


@overload
def project(  # type: ignore[overload-overlap]
    target: TargetLike,
    family: FamilyLike,
    *,
    direction: Direction = ...,
    weights: Tensor | None = ...,
    criterion: Criterion | None = ...,
    seed: int = ...,
    restarts: int = ...,
    max_iterations: int = ...,
    dim: int | None = ...,
    start: Tensor | None = ...,
    quiet: bool = ...,
) -> Projection: ...
@overload
def project(
    target: TargetLike,
    family: Iterable[FamilyLike],
    *,
    direction: Direction = ...,
    weights: Tensor | None = ...,
    criterion: Criterion | None = ...,
    seed: int = ...,
    restarts: int = ...,
    max_iterations: int = ...,
    dim: int | None = ...,
    start: Tensor | None = ...,
    quiet: bool = ...,
) -> Ranking: ...
def project(
    target: TargetLike,
    family: FamilyLike | Iterable[FamilyLike],
    *,
    direction: Direction = "forward",
    weights: Tensor | None = None,
    criterion: Criterion | None = None,
    seed: int = 0,
    restarts: int = 12,
    max_iterations: int = 200,
    dim: int | None = None,
    start: Tensor | None = None,
    quiet: bool = False,
) -> Projection | Ranking:
    """The member of a family that is nearest to a target in KL divergence.

    Forward (M-projection): argmin KL(target ‖ q), which covers all the mass of the target. For samples and counts this
    is maximum likelihood; for a distribution and an exponential family it matches moments. Reverse (I-projection):
    argmin KL(q ‖ target), which sits where the target is large and may have several local optima; all that were found
    are in `optima`.

    Args:
        target: A torch Distribution; `Samples` of shape (n,) or (n, d); `Counts`, `Probs`, `Logits` or `LogProbs` over
            the numbers 0, 1, 2, …; or, for the reverse direction, a function that returns the logarithm of an
            unnormalised density. Samples of shape (n, d) are d data sets for a family over numbers and n vectors for a
            family over vectors.
        family: A distribution class, its name, a `Family`, or several of these, which are then ranked.
        direction: "forward" or "reverse".
        weights: One weight per sample.
        criterion: What ranks several families: "kl", "aic" or "bic"; by default "aic" for data, else "kl".
        seed: Of everything random; the same seed gives the same result.
        restarts: Starting points of the reverse direction and of mixtures.
        max_iterations: Newton steps before giving up; `converged` and `warnings` then say so.
        dim: Dimensions of a log-density over vectors.
        start: A point with positive density, for a log-density whose mass is far from 0.
        quiet: Show no progress.

    Returns:
        A `Projection`, or a `Ranking` for several families. The parameters of its distribution are differentiable with
        respect to the target. Where `converged` is False, a `KullbackWarning` says so too.

    Raises:
        InputValueError: If the target is empty, not finite or outside the family's support, or if no member is nearest.

    Example:
        >>> import torch
        >>> from torch.distributions import Categorical, MixtureSameFamily, Normal
        >>> bumps = Normal(torch.tensor([-2.0, 2.0]), torch.tensor([0.6, 0.6]))
        >>> two_bumps = MixtureSameFamily(Categorical(torch.ones(2)), bumps)
        >>> project(two_bumps, Normal).distribution.scale
        tensor(2.0881)
        >>> narrow = project(two_bumps, Normal, direction="reverse")
        >>> [round(abs(optimum.distribution.loc.item()), 3) for optimum in narrow.optima[:2]]  # one bump each
        [1.997, 1.997]
    """
    _check_options(direction, criterion, seed, restarts, max_iterations)
    options = _Options(direction, weights, Search(seed, restarts, max_iterations), dim, start, quiet)
    if not isinstance(family, str | type | Family | Distribution) and isinstance(family, Iterable):
        return _rank(target, list(family), criterion, options)
    return _project_one(target, as_family(family), options)


@dataclass(frozen=True)
class _Options:
    """What `project` was asked, beside target and family."""

    direction: Direction
    weights: Tensor | None
    search: Search
    dim: int | None
    start: Tensor | None
    quiet: bool


def _project_one(target: TargetLike, family: Family, options: _Options) -> Projection:
    read = read_target(target, options.weights)
    with _Line(family, options.quiet) as line:
        search = replace(options.search, progress=line.show) if line.shown else options.search
        if options.direction == "forward":
            if read.kind == "log-density":
                raise InputValueError(
                    explain_problem(
                        "The forward direction needs expectations under the target, which a log-density does not give.",
                        got="a function",
                        expected="a Distribution or Samples",
                        instead='direction="reverse"',
                    )
                )
            fitted, points = project_forward(read, family, search)
            return _warned(assemble_forward(read, fitted, points, search.seed))
        read = as_distribution(read)
        if read.distribution is None and read.kind != "log-density":
            raise InputValueError(
                explain_problem(
                    "The reverse direction needs the density of the target at every point, which data do not give.",
                    got=read.words,
                    expected="a Distribution or a log-density",
                    instead='direction="forward", which is maximum likelihood',
                )
            )
        log_target = log_target_of(read.distribution, read.log_density, family, options.dim, options.start)
        optima = project_reverse(read, log_target, family, search)
        return _warned(assemble_reverse(read, log_target, optima, search.seed))


def _warned(found: Projection) -> Projection:
    """The projection, after a warning if it is not an optimum."""
    if not found.converged:
        reason = found.warnings[0] if found.warnings else "give more max_iterations."
        warnings.warn(f"The fit of {found.family} did not converge: {reason}", KullbackWarning, stacklevel=4)
    return found


def _rank(target: TargetLike, families: list[FamilyLike], criterion: Criterion | None, options: _Options) -> Ranking:
    if not families:
        raise InputValueError(explain_problem("There is no family to fit.", got="[]", instead='["Normal", "Laplace"]'))
    found: list[Projection] = []
    failures: dict[str, str] = {}
    for each in [as_family(family) for family in families]:
        try:
            found.append(_project_one(target, each, options))
        except KullbackError as error:  # noqa: PERF203 - a family that does not fit is reported, the others go on
            failures[str(each)] = str(error)
            last = error
    if not found:
        raise InputValueError(
            "None of the families can be fitted:\n" + "\n".join(f"{k}: {v}" for k, v in failures.items())
        ) from last
    data = found[0].log_likelihood is not None
    if criterion in ("aic", "bic") and not data:
        raise InputValueError(
            explain_problem(
                f"{criterion} compares fits to samples or counts.", got="a distribution", instead='criterion="kl"'
            )
        )
    ranking = Ranking(found, criterion or ("aic" if data else "kl"), failures)
    scores = [ranking.score(each) for each in found]
    order = sorted(range(len(found)), key=lambda at: (math.isnan(scores[at]), scores[at]))
    return Ranking([found[at] for at in order], ranking.criterion, failures)


def _check_options(direction: str, criterion: str | None, seed: int, restarts: int, max_iterations: int) -> None:
    if direction not in ("forward", "reverse"):
        raise InputValueError(
            explain_problem(
                "Unknown direction.",
                got=repr(direction),
                expected='"forward" (KL(target ‖ q)) or "reverse" (KL(q ‖ target))',
            )
        )
    if criterion not in (None, "kl", "aic", "bic"):
        raise InputValueError(
            explain_problem("Unknown criterion.", got=repr(criterion), expected='"kl", "aic" or "bic"')
        )
    for name, number in (("restarts", restarts), ("max_iterations", max_iterations)):
        if not isinstance(number, int) or number < 1:
            raise InputValueError(explain_problem(f"{name} is a whole number from 1.", got=repr(number)))
    if not isinstance(seed, int) or seed < 0:
        raise InputValueError(explain_problem("seed is a whole number from 0.", got=repr(seed)))


class _Line:
    """A line on standard error with the number of the step, in a terminal and only for fits of several seconds."""

    def __init__(self, family: Family, quiet: bool) -> None:
        self.family = family
        self.shown = not quiet and sys.stderr.isatty()
        self.written = False

    def __enter__(self) -> _Line:
        return self

    def show(self, step: int, value: Tensor) -> None:
        """Write the step over the one before."""
        if step >= 10:
            sys.stderr.write(f"\rfit {self.family}: step {step}, {value.min().item():.6g}  ")
            self.written = True

    def __exit__(self, *_: object) -> None:
        if self.written:
            sys.stderr.write("\r\x1b[K")
