"""The terms of the variational bound of a diffusion model: Gaussian KL between posteriors, per dimension."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kullback._core.errors import InputTypeError, InputValueError, ShapeError, explain_problem
from kullback._core.reduction import check_base, check_mask, check_reduction, reduce_rows
from kullback.losses.arguments import check_choice, check_rows_options, check_same_shape, check_tensor, widen
from kullback.losses.diffusion_decoder import Decoder, decoder_loss
from kullback.losses.gaussian import gaussian_kl, standard_gaussian_kl
from kullback.tensors.frame import values_hidden


def diffusion_kl(
    prediction: Tensor,
    x_start: Tensor,
    x_t: Tensor,
    t: Tensor,
    alphas_cumprod: Tensor,
    *,
    predicts: Literal["noise", "start", "v"] = "noise",
    variance: Literal["posterior", "beta", "learned_range"] = "posterior",
    variance_fraction: Tensor | None = None,
    weighting: Literal["bound", "simple"] = "bound",
    decoder: Decoder | None = None,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "none",
    base: float | None = None,
) -> Tensor:
    """KL(q(x_{t-1} | x_t, x_0) || p(x_{t-1} | x_t)) of every dimension, as it stands in the variational bound.

    With ᾱ = alphas_cumprod, β_t = 1 − ᾱ_t/ᾱ_{t-1} and β̃_t = β_t (1 − ᾱ_{t-1})/(1 − ᾱ_t), the true posterior has
    variance β̃_t and the means differ by √ᾱ_{t-1} β_t/(1 − ᾱ_t) · (x_0 − x̂_0), where x̂_0 follows from the prediction:

    - `"noise"`: x̂_0 = (x_t − √(1−ᾱ) ε̂)/√ᾱ (Ho et al. 2020, arXiv 2006.11239)
    - `"v"`: x̂_0 = √ᾱ x_t − √(1−ᾱ) v̂ (Salimans and Ho 2022, arXiv 2202.00512)
    - `"start"`: x̂_0 itself

    Args:
        prediction: Output of the network, in the shape of `x_start`.
        x_start: x_0, (batch, ...).
        x_t: The noisy data.
        t: Steps per sample, integers (batch,), from 0 to len(alphas_cumprod) − 1. Step 0 has no KL, since its posterior
            has variance 0: its term of the bound is −log p(x_0 | x_1), see `decoder`.
        alphas_cumprod: ᾱ of all steps, decreasing.
        predicts: What the network returns, see above.
        variance: Of p: `"posterior"` β̃, `"beta"` β, `"learned_range"` exp(v log β + (1−v) log β̃) with v =
            `variance_fraction` in [0, 1] (Nichol and Dhariwal 2021, arXiv 2102.09672).
        variance_fraction: v, in the shape of `x_start`; (output + 1) / 2 for a network that returns [−1, 1].
        weighting: `"bound"` the KL itself; `"simple"` (ε − ε̂)², Ho's L_simple, whatever is predicted.
        decoder: What stands at step 0, a Gaussian around x̂_0 (with β̃ of step 1, where `variance` asks for β̃):
            `"discretized"` −log of the probability of x_0's bin, for data in [−1, 1] of 256 levels (Ho et al., equation
            13); `"gaussian"` −log of the density, for continuous data, which may be negative. None: step 0 is refused
            in the bound.
        mask: Boolean per sample.
        weight: A number per sample.
        reduction: `"none"` per dimension; `"sum"` over samples of the mean over dimensions; `"mean"` the mean of both,
            so that `base=2` gives bits per dimension.
        base: 2 for bits.

    Example:
        >>> import torch
        >>> alphas_cumprod = torch.tensor([0.9, 0.8, 0.7])
        >>> x_start, noise, t = torch.zeros(1, 2), torch.ones(1, 2), torch.tensor([2])
        >>> x_t = 0.3**0.5 * noise
        >>> diffusion_kl(noise, x_start, x_t, t, alphas_cumprod)
        tensor([[0., 0.]])
        >>> diffusion_kl(0 * noise, x_start, x_t, t, alphas_cumprod, weighting="simple", reduction="mean")
        tensor(1.0000)
    """
    check_choice("predicts", predicts, ("noise", "start", "v"))
    check_choice("variance", variance, ("posterior", "beta", "learned_range"))
    check_choice("weighting", weighting, ("bound", "simple"))
    check_reduction(reduction)
    check_base(base)
    given = {"prediction": prediction, "x_start": x_start, "x_t": x_t}
    for name, tensor in given.items():
        check_tensor("diffusion_kl", name, tensor)
    check_same_shape("diffusion_kl", given)
    prediction, x_start, x_t = widen(prediction, x_start, x_t)
    if decoder is not None:
        check_choice("decoder", decoder, ("discretized", "gaussian"))
    _check_steps(t, alphas_cumprod, first=0 if decoder is not None or weighting == "simple" else 1)
    if x_start.dim() == 0 or t.shape[0] != x_start.shape[0]:
        raise ShapeError(
            explain_problem(
                "t holds one step per sample.",
                got=f"t of shape {tuple(t.shape)}, x_start of shape {tuple(x_start.shape)}",
                expected="t of shape (batch,) for x_start of shape (batch, ...)",
            )
        )
    shape = (-1,) + (1,) * (x_start.dim() - 1)
    if mask is not None:
        check_mask(mask, x_start.shape[:1])
        kept = mask.expand(x_start.shape[:1]).reshape(shape)
        prediction, x_start, x_t = (torch.where(kept, x, 0.0) for x in (prediction, x_start, x_t))
        if variance_fraction is not None:
            variance_fraction = torch.where(kept, variance_fraction, 0.0)
    every = alphas_cumprod.double()
    a, start = every[t].reshape(shape), (t == 0).reshape(shape)
    # At step 0 stand the variances of step 1: they are finite, and β̃ of step 1 is the decoder's.
    after = every[torch.where(t == 0, min(1, len(every) - 1), t)].reshape(shape)
    before = every[(t - 1).clamp_min(0)].reshape(shape)
    beta = 1 - after / before
    log_range = torch.log((1 - after) / (1 - before)).to(x_start.dtype)  # log β / β̃
    signal, noise = (a.sqrt().to(x_start.dtype), (1 - a).sqrt().to(x_start.dtype))
    if predicts == "noise":
        error = (noise * prediction - (x_t - signal * x_start)) / signal
    elif predicts == "v":
        error = x_start - (signal * x_t - noise * prediction)
    else:
        error = x_start - prediction
    if weighting == "simple":
        values = (signal / noise * error) ** 2
    else:
        # The difference of means over the standard deviation β̃ of the posterior.
        scale = (before * beta / ((1 - after) * (1 - before))).sqrt().to(x_start.dtype)
        narrower = _log_variance_ratio(variance, variance_fraction, log_range, x_start)
        offset = scale * error * (0.5 * narrower).exp()
        values = standard_gaussian_kl(offset, narrower.expand_as(offset), 0)
        if decoder is not None:
            # The decoder's variance lies between β̃ of step 1 and β of step 0.
            low = (beta * (1 - before) / (1 - after)).log()
            log_range = ((1 - a).log() - low).to(x_start.dtype)
            spread = low.to(x_start.dtype) - _log_variance_ratio(variance, variance_fraction, log_range, x_start)
            values = torch.where(start, decoder_loss(x_start, x_start - error, spread, decoder), values)
    return _per_sample(values, mask, weight, reduction, base)


def diffusion_prior_kl(
    x_start: Tensor,
    alphas_cumprod: Tensor,
    *,
    mask: Tensor | None = None,
    weight: Tensor | float | None = None,
    reduction: Literal["none", "sum", "mean"] = "none",
    base: float | None = None,
) -> Tensor:
    """KL(q(x_T | x_0) || N(0, 1)) of every dimension, the term of the bound that no network changes.

    Args:
        x_start: x_0, (batch, ...).
        alphas_cumprod: ᾱ of all steps; the last one counts.
        mask: As for `diffusion_kl`, and so are the others.
        weight: A number per sample.
        reduction: As for `diffusion_kl`.
        base: 2 for bits.

    Example:
        >>> import torch
        >>> diffusion_prior_kl(torch.ones(1, 1), torch.tensor([0.9, 0.5]))
        tensor([[0.3466]])
    """
    check_reduction(reduction)
    (x_start,) = widen(check_tensor("diffusion_prior_kl", "x_start", x_start))
    if mask is not None:
        check_mask(mask, x_start.shape[:1])
        kept = mask.expand(x_start.shape[:1]).reshape(-1, *(1,) * (x_start.dim() - 1))
        x_start = torch.where(kept, x_start, 0.0)
    last = alphas_cumprod.double()[-1]
    logvar = torch.log1p(-last).to(x_start.dtype)
    values = gaussian_kl(last.sqrt().to(x_start.dtype) * x_start, logvar=logvar.expand(x_start.shape))
    return _per_sample(values, mask, weight, reduction, base)


def _log_variance_ratio(variance: str, fraction: Tensor | None, log_range: Tensor, like: Tensor) -> Tensor:
    """Log of the posterior's variance over that of p: −v log(β / β̃)."""
    if (fraction is not None) != (variance == "learned_range"):
        raise InputTypeError(
            explain_problem(
                'variance="learned_range" and variance_fraction= belong together.',
                got=f"variance={variance!r}, variance_fraction {'missing' if fraction is None else 'given'}",
                expected="both or neither",
                instead='variance="learned_range", variance_fraction=(output + 1) / 2',
            )
        )
    if fraction is None:
        return torch.zeros_like(log_range) if variance == "posterior" else -log_range
    check_tensor("diffusion_kl", "variance_fraction", fraction)
    return -fraction.to(like.dtype) * log_range


def _check_steps(t: Tensor, alphas_cumprod: Tensor, *, first: int) -> None:
    if not isinstance(alphas_cumprod, Tensor) or alphas_cumprod.dim() != 1 or len(alphas_cumprod) < 2:
        raise InputTypeError(
            explain_problem(
                "alphas_cumprod holds ᾱ of every step.",
                got=f"shape {tuple(alphas_cumprod.shape)}" if isinstance(alphas_cumprod, Tensor) else "no tensor",
                expected="a tensor of shape (steps,), of at least two steps",
                instead="torch.cumprod(1 - betas, 0)",
            )
        )
    if not isinstance(t, Tensor) or t.is_floating_point() or t.dim() != 1:
        raise InputTypeError(
            explain_problem("t holds one integer step per sample.", got=str(t), expected="an integer tensor (batch,)")
        )
    if values_hidden() or t.device.type != "cpu" or t.numel() == 0:
        return
    low, high = int(t.min()), int(t.max())
    if low < first or high >= len(alphas_cumprod):
        raise InputValueError(
            explain_problem(
                "Only steps from 1 on have a KL; the term of step 0 is the log-likelihood of the data."
                if first
                else "A step is an index of alphas_cumprod.",
                got=f"t from {low} to {high}",
                expected=f"{first} to {len(alphas_cumprod) - 1}",
                instead='decoder="discretized" for pictures in [-1, 1], decoder="gaussian" for continuous data'
                if first and low == 0
                else "",
            )
        )


def _per_sample(
    values: Tensor, mask: Tensor | None, weight: Tensor | float | None, reduction: str, base: float | None
) -> Tensor:
    batch = values.shape[:1]
    check_rows_options(mask, weight, batch)
    if reduction != "none":
        return reduce_rows(values.flatten(1).mean(-1), mask=mask, weight=weight, reduction=reduction, base=base)
    shape = (-1,) + (1,) * (values.dim() - 1)
    keep = None if mask is None else mask.expand(batch).reshape(shape)
    factor = weight.expand(batch).reshape(shape) if isinstance(weight, Tensor) else weight
    return reduce_rows(values, mask=keep, weight=factor, base=None if base is None else float(base))
