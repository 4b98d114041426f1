"""What every divergence of two distributions does around its formula: check, take wrappers off, round, refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from torch import Tensor
from torch.distributions import Distribution, TransformedDistribution

from kullback._core.errors import NoRouteError, explain_problem
from kullback.pairs import registry
from kullback.pairs.dispatch import check_pair
from kullback.pairs.named import named
from kullback.pairs.parameters import result_dtype
from kullback.pairs.transformed_distribution import kl_transformed_transformed
from kullback.pairs.undefined import marked

Formula = Callable[[Distribution, Distribution], Tensor | None]


def answer(
    name: str,
    p: Distribution,
    q: Distribution,
    formula: Formula,
    *,
    additive: bool = False,
    finish: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """The formula's value in the parameters' own precision and in the broadcast batch shape.

    Args:
        name: The public function, for messages.
        p: The first distribution.
        q: The second.
        formula: The value in working precision; None where it does not know the pair.
        additive: Whether the formula's value for independent dimensions is the sum of theirs.
        finish: What the divergence is as a function of the formula's value.
    """
    shape = check_pair(p, q)
    value = _inside(*_simpler(p, q), formula, additive=additive)
    if value is None:
        _refuse(name, p, q, additive=additive)
    value = marked(value if finish is None else finish(value), p, q)
    # Adding 0 makes 0 of −0.
    return (value + 0.0).to(result_dtype(p, q)).expand(shape)


def _simpler(p: Distribution, q: Distribution) -> tuple[Distribution, Distribution]:
    """The laws by their names, before the last maps that both have in common: no divergence sees a bijection."""
    p, q = named(p), named(q)
    if not (isinstance(p, TransformedDistribution) and isinstance(q, TransformedDistribution)):
        return p, q
    before = kl_transformed_transformed(p, q)
    return (p, q) if before is None else (named(before.p), named(before.q))


def _inside(p: Distribution, q: Distribution, formula: Formula, *, additive: bool) -> Tensor | None:
    """The formula of the pair itself, else of what its wrappers hold; a bijection of both sides changes nothing."""
    value = formula(p, q)
    if value is not None:
        return value
    rule = registry.find(type(p), type(q))
    inner = rule.formula(p, q) if rule is not None and rule.method == "structure" else None
    if not isinstance(inner, registry.Reduced) or inner.plus is not None:  # two terms are a property of KL
        return None
    shape = check_pair(inner.p, inner.q)
    event = shape[len(shape) - inner.summed :]
    if event.numel() != 1 and not additive:
        return None
    value = _inside(inner.p, inner.q, formula, additive=additive)
    if value is None or not inner.summed:
        return value
    return marked(value, inner.p, inner.q).expand(shape).sum(tuple(range(-inner.summed, 0)))


def _refuse(name: str, p: Distribution, q: Distribution, *, additive: bool) -> NoReturn:
    several = bool(p.event_shape) and not additive
    raise NoRouteError(
        explain_problem(
            f"{name}() has no closed form, integral or series for these two distributions"
            + (": over several dimensions there is none." if several else "."),
            got=f"p = {type(p).__name__}, q = {type(q).__name__}, event shape {tuple(p.event_shape)}",
            expected="univariate distributions of torch, mixtures of them, or vectors of classes",
            instead="kl(p, q), jeffreys(p, q), renyi(p, q, 0.5) or hellinger(p, q), which add up over independent "
            "dimensions and know Gaussians and Dirichlet laws"
            if several
            else "an average over samples of p of what p.log_prob(x) and q.log_prob(x) say; of KL itself kl(p, q)",
        )
    )
