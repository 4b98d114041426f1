"""Divergences that are finite for any supports: Jensen–Shannon and its relatives, skewed KL, total variation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution

from kullback._core.numbers import as_tensor
from kullback.kernels.f_rows import js_rows, scaled_js_rows, skew_kl_rows, total_variation_rows
from kullback.kernels.f_rows.generator import Generator
from kullback.kernels.f_rows.mixtures import scaled_js_generator, skew_kl_generator
from kullback.kernels.f_rows.ratios import root
from kullback.kernels.row_op import RowOp
from kullback.pairs.densities import describable
from kullback.pairs.densities.count_mixture import countable
from kullback.pairs.densities.programs import Constant
from kullback.pairs.dispatch import kl_divergence
from kullback.pairs.portions import in_portions
from kullback.pairs.sisters.atoms import atoms_of, rows_of
from kullback.pairs.sisters.count_programs import OfTerm, summed
from kullback.pairs.sisters.counts import both_countable, counts_of, sum_of
from kullback.pairs.sisters.expected import Known, completed
from kullback.pairs.sisters.f_integral import (
    CLOSE,
    FIRST_ORDER_CLOSE,
    distance,
    distance_by_programs,
    f_by_programs,
    f_divergence,
)
from kullback.pairs.sisters.frame import answer
from kullback.pairs.sisters.term import Term, half_distance, js_term, term_of
from kullback.pairs.visible import hidden

Integral = Callable[[Distribution, Distribution], tuple[Tensor, Tensor | bool]]


class Bounded(NamedTuple):
    """A divergence Σ p f(q/p) with f and its dual finite at 0.

    Attributes:
        name: The public function.
        term: What it takes from a unit of mass.
        most: Its value where p and q have nothing in common.
        rows: Its kernel on rows of classes.
        parameters: What the kernel takes besides the rows.
        integral: Of two laws with densities, with where they share nothing.
        natively: The same by recorded programs.
    """

    name: str
    term: Term
    most: float
    rows: RowOp
    parameters: tuple[float, ...] = ()
    integral: Integral | None = None
    natively: Callable[[Distribution, Distribution], Known | None] | None = None


def js(p: Distribution, q: Distribution) -> Tensor:
    """½ KL(p ‖ m) + ½ KL(q ‖ m), m = (p + q)/2."""
    return bounded(p, q, Bounded("js", js_term, math.log(2.0), js_rows))


def js_distance(p: Distribution, q: Distribution, unit: float) -> Tensor:
    """The root of the divergence in multiples of `unit` nats."""
    return root(js(p, q) / unit)


def skew_kl(p: Distribution, q: Distribution, alpha: float) -> Tensor:
    """KL(p ‖ αp + (1−α)q)."""
    if alpha == 0.0:
        return kl_divergence(p, q)
    term = _skew_term(alpha)
    return bounded(p, q, Bounded("skew_kl", term, -math.log(alpha), skew_kl_rows, (alpha,)))


def scaled_js(p: Distribution, q: Distribution, beta: float) -> Tensor:
    """[β KL(p ‖ m) + (1−β) KL(q ‖ m)]/(β(1−β)), m = βp + (1−β)q, and its limits."""
    if beta in (0.0, 1.0):
        return kl_divergence(p, q) if beta == 0.0 else kl_divergence(q, p)
    generator, term = _scaled_js_term(beta)
    most = generator.only_p + generator.only_q
    return bounded(p, q, Bounded("scaled_js", term, most, scaled_js_rows, (beta,)))


# What is recorded is known by its term.
@functools.lru_cache(maxsize=64)
def _skew_term(alpha: float) -> Term:
    return term_of(skew_kl_generator(alpha))


@functools.lru_cache(maxsize=64)
def _scaled_js_term(beta: float) -> tuple[Generator, Term]:
    generator = scaled_js_generator(beta)
    return generator, term_of(generator)


def total_variation(p: Distribution, q: Distribution) -> Tensor:
    """½ Σ |p − q|."""
    rows = total_variation_rows
    return bounded(p, q, Bounded("total_variation", half_distance, 1.0, rows, (), distance, distance_by_programs))


def bounded(p: Distribution, q: Distribution, divergence: Bounded) -> Tensor:
    """The divergence by sums over outcomes or integrals, whichever the pair has."""

    def formula(p: Distribution, q: Distribution) -> Tensor | None:
        by_rows = rows_of(p, q, divergence.rows, *divergence.parameters)
        if by_rows is not None:
            return by_rows
        atoms = atoms_of(p, q)
        if atoms is not None:
            return _capped(atoms.sum_of(divergence.term), divergence.most)
        if describable(p) and describable(q):
            return in_portions(functools.partial(_by_integral, divergence=divergence), p, q)
        if both_countable(p, q):
            return _capped(_by_series(p, q, divergence), divergence.most)
        return nothing_shared(p, q, divergence.most)

    return answer(divergence.name, p, q, formula)


def _by_integral(p: Distribution, q: Distribution, divergence: Bounded) -> Tensor:
    by_operations = divergence.integral or functools.partial(f_divergence, term=divergence.term)

    def formula(p: Distribution, q: Distribution) -> Tensor:
        return _most_where_apart(*by_operations(p, q), divergence.most)

    known = None if hidden() else _known(p, q, divergence)
    if known is None:
        return formula(p, q)
    return completed(
        known._replace(value=_most_where_apart(known.value, known.extreme, divergence.most)), formula, p, q
    )


def _known(p: Distribution, q: Distribution, divergence: Bounded) -> Known | None:
    """By recorded programs; None where there are none."""
    if divergence.natively is not None:
        return divergence.natively(p, q)
    return f_by_programs(p, q, divergence.term, *divergence.parameters)


def _by_series(p: Distribution, q: Distribution, divergence: Bounded) -> Tensor:
    def formula(p: Distribution, q: Distribution) -> Tensor:
        listed = counts_of(p, q)
        return sum_of(p, q, divergence.term) if listed is None else listed.sum_of(divergence.term)

    if hidden():
        return formula(p, q)
    constants = tuple(Constant(number) for number in divergence.parameters)
    close = CLOSE if divergence.natively is None else FIRST_ORDER_CLOSE
    known = summed(p, q, OfTerm(divergence.term, constants), close, formula)
    return formula(p, q) if known is None else completed(known, formula, p, q)


def _most_where_apart(value: Tensor, apart: Tensor | bool, most: float) -> Tensor:
    return torch.where(as_tensor(apart), most, _capped(value, most))


def _capped(value: Tensor, most: float) -> Tensor:
    """Not above the largest value, by rounding, nor below 0."""
    return torch.where(value > most, most, value)


def nothing_shared(p: Distribution, q: Distribution, most: float) -> Tensor | None:
    """The largest value for a law of counts against one with a density; None for others."""
    if (countable(p) and describable(q)) or (describable(p) and countable(q)):
        return as_tensor(most, torch.float64)
    return None
