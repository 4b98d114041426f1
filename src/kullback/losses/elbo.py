"""The evidence lower bound of a batch, and its importance-weighted and multi-sample forms."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.reduction import check_mask, check_reduction, reduce_rows
from kullback.losses.arguments import check_choice, check_no_nan, check_rows_options, check_tensor, masked_rows, widen


def elbo(
    log_likelihood: Tensor,
    kl: Tensor,
    *,
    beta: float | Tensor = 1.0,
    n_data: int | None = None,
    n_batches: int | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
) -> Tensor:
    """The evidence lower bound log p(x|z) − β KL; both terms are in nats per data point. Maximise it.

    For a latent per data point (a VAE) `kl` has the shape of `log_likelihood`: elbo_i = log_likelihood_i − β kl_i.

    For one latent of the whole data set (the weights of a Bayesian network) `kl` is one number that has to be shared
    among all data points: with `n_data`, elbo_i = log_likelihood_i − β kl / n_data. With `n_batches` instead, every
    batch carries kl / n_batches, whatever its size (Blundell et al. 2015, arXiv 1505.05424). The sum over the
    batches of one epoch with `reduction="sum"` is then the bound of the data set.

    Args:
        log_likelihood: One value per data point, summed over pixels or tokens: (batch,).
        kl: One value per data point; or one number, see above. One number without `n_data` and `n_batches` is the
            mean per data point already, as `free_bits(...)` and `gaussian_kl(..., reduction="mean")` return it.
        beta: Factor of the KL term: a number or the value of a schedule.
        n_data: Data points in the whole data set.
        n_batches: Batches per epoch. Where `n_data` is given too, `n_data` decides.
        mask: Boolean per data point: True keeps it.
        weight: A number per data point; multiplies both terms.
        reduction: `"none"` per data point, `"sum"` over the batch, `"mean"` per data point of the batch.

    Example:
        >>> import torch
        >>> log_likelihood, kl = torch.tensor([-90.0, -110.0]), torch.tensor([4.0, 6.0])
        >>> elbo(log_likelihood, kl, beta=0.5)
        tensor(-102.5000)
        >>> elbo(log_likelihood, torch.tensor(500.0), n_data=1000)  # weights of a Bayesian network
        tensor(-100.5000)
    """
    check_reduction(reduction)
    check_tensor("elbo", "log_likelihood", log_likelihood)
    check_tensor("elbo", "kl", kl)
    log_likelihood, kl = widen(log_likelihood, kl)
    _check_shapes(log_likelihood, kl, n_data, n_batches)
    check_rows_options(mask, weight, log_likelihood.shape)
    check_no_nan("elbo", "log_likelihood", log_likelihood, mask)
    if n_data is not None:
        kl = kl / n_data
    elif n_batches is not None:
        # Every kept data point of the batch carries its share of kl / n_batches.
        ones = torch.ones_like(log_likelihood)
        count = reduce_rows(ones, mask=mask, weight=weight, reduction="sum")
        kl = kl / (n_batches * torch.where(count > 0, count, 1.0))
    rows = log_likelihood - beta * kl
    return reduce_rows(rows, mask=mask, weight=weight, reduction=reduction)


def _check_shapes(log_likelihood: Tensor, kl: Tensor, n_data: int | None, n_batches: int | None) -> None:
    for name, number in (("n_data", n_data), ("n_batches", n_batches)):
        if number is not None and not number >= 1:
            raise InputValueError(
                explain_problem(f"{name} is a count.", got=f"{name}={number!r}", expected="a number >= 1")
            )
    shared = n_data is not None or n_batches is not None
    if shared and kl.dim():
        raise ShapeError(
            explain_problem(
                "n_data and n_batches share one KL of the whole data set among its data points.",
                got=f"a kl of shape {tuple(kl.shape)}",
                expected="kl as one number",
                instead="kl.sum() for the parts of one posterior over weights; no n_data where kl is per data point",
            )
        )
    if kl.dim() and kl.shape != log_likelihood.shape:
        per_dimension = kl.dim() == log_likelihood.dim() + 1
        raise ShapeError(
            explain_problem(
                "log_likelihood and kl have one value per data point each.",
                got=f"log_likelihood of shape {tuple(log_likelihood.shape)}, kl of shape {tuple(kl.shape)}",
                expected="the same shape, or a kl that is one number",
                instead='gaussian_kl(..., reduction="sample"), or kl.sum(-1)' if per_dimension else "",
            )
        )


def importance_weighted_bound(
    log_weight: Tensor,
    *,
    dim: int = 0,
    gradient: Literal["standard", "doubly_reparameterized"] = "standard",
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
) -> Tensor:
    """The importance-weighted bound log (1/K Σ_k w_k) of K samples (Burda et al. 2015, arXiv 1509.00519).

    It lies between the ELBO (K = 1) and log p(x), and grows with K.

    Args:
        log_weight: log w = log p(x, z) − log q(z | x), with the K samples along `dim`.
        dim: The dimension of the samples.
        gradient: `"standard"`: Σ_k w̃_k ∇log w_k, with w̃ the normalised weights. `"doubly_reparameterized"`: the
            encoder's gradient Σ_k w̃_k² ∇log w_k of Tucker et al. 2018 (arXiv 1810.04152), whose variance does not
            grow with K. It is right for the parameters of q alone, and only if `log_weight` depends on them through z
            alone: write `path_log_prob(q, z)` for log q. Decoder parameters need the standard gradient.
        mask: Boolean per data point (the shape without `dim`): True keeps it.
        weight: A number per data point.
        reduction: Over data points.

    Example:
        >>> import torch
        >>> log_weight = torch.tensor([[-3.0], [-1.0]])  # two samples, one data point
        >>> importance_weighted_bound(log_weight), multi_sample_bound(log_weight)
        (tensor(-1.5662), tensor(-2.))
    """
    check_choice("gradient", gradient, ("standard", "doubly_reparameterized"))
    check_reduction(reduction)
    log_weight, dim = _check_log_weight(log_weight, dim, mask)
    count = log_weight.shape[dim]
    rows = torch.logsumexp(log_weight, dim) - math.log(count)
    if gradient == "doubly_reparameterized":
        # The value stays; the gradient is that of the second term, which is 0 in value.
        share = torch.softmax(log_weight, dim).detach()
        path = (share * share * log_weight).sum(dim)
        rows = rows.detach() + (path - path.detach())
    return masked_rows(rows, mask, weight, reduction)


def multi_sample_bound(
    log_weight: Tensor,
    *,
    dim: int = 0,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "mean",
) -> Tensor:
    """The ELBO averaged over K samples: 1/K Σ_k log w_k. Arguments as for `importance_weighted_bound`.

    Example:
        >>> import torch
        >>> multi_sample_bound(torch.tensor([[-3.0, -2.0], [-1.0, -2.0]]), reduction="none")
        tensor([-2., -2.])
    """
    check_reduction(reduction)
    log_weight, dim = _check_log_weight(log_weight, dim, mask)
    return masked_rows(log_weight.mean(dim), mask, weight, reduction)


def _check_log_weight(log_weight: Tensor, dim: int, mask: Tensor | None) -> tuple[Tensor, int]:
    """The log-weights, 0 where the mask leaves a data point out, and the dimension of the samples from the front."""
    (log_weight,) = widen(check_tensor("importance_weighted_bound", "log_weight", log_weight))
    rank = log_weight.dim()
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise InputTypeError(explain_problem("dim is an integer.", got=f"dim={dim!r}", expected="an integer"))
    if not -rank <= dim < rank or log_weight.shape[dim] == 0:
        raise ShapeError(
            explain_problem(
                "dim is the dimension of the samples, of which there is at least one.",
                got=f"dim={dim} for log_weight of shape {tuple(log_weight.shape)}",
                expected="a dimension of size >= 1",
            )
        )
    dim = dim % rank
    if mask is not None:
        check_mask(mask, log_weight.shape[:dim] + log_weight.shape[dim + 1 :])
        log_weight = torch.where(
            mask.expand(log_weight.shape[:dim] + log_weight.shape[dim + 1 :]).unsqueeze(dim), log_weight, 0.0
        )
    check_no_nan("importance_weighted_bound", "log_weight", log_weight)
    return log_weight, dim
