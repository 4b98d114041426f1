"""What every loss promises, one row of a table per loss: masks, weights, reductions, half precision, transforms."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.distributions import Independent, Laplace, Normal

from kullback import Logits, losses


@dataclass(frozen=True)
class Case:
    """A loss as a function of tensors that have samples (or samples and time) first.

    Attributes:
        name: The public function, and a variant.
        call: `call(*tensors, **options)`.
        shapes: Of the tensors.
        rows: The shape of a mask.
        trained: Which tensors may have a gradient.
        make: What the standard normal draws become before the loss takes them; one function for all, or one each.
        entries: How the values of one row become one number: "sum", "mean", or "" where they are one number already.
        rowwise: Whether the mean is one of rows; it is not where a maximum is taken after a mean.
    """

    name: str
    call: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    rows: tuple[int, ...]
    entries: str = ""
    rowwise: bool = True
    trained: tuple[int, ...] = (0, 1, 2, 3)
    make: Callable[[torch.Tensor], torch.Tensor] | tuple[Callable[[torch.Tensor], torch.Tensor], ...] = torch.clone

    def inputs(self, dtype=torch.float64, seed=0):
        generator = torch.Generator().manual_seed(seed)
        draws = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in self.shapes]
        make = self.make if isinstance(self.make, tuple) else (self.make,) * len(draws)
        return [change(draw).to(dtype) for change, draw in zip(make, draws, strict=True)]

    def per_row(self, values):
        dims = tuple(range(len(self.rows), values.dim()))
        if not dims:
            return values
        return values.sum(dims) if self.entries == "sum" else values.mean(dims)


STEPS = torch.tensor([1, 5, 2, 9])
CUMULATIVE = torch.cumprod(1 - torch.linspace(1e-3, 0.1, 10, dtype=torch.float64), 0)
IDS = torch.arange(3).expand(4, 3)
ROWS, LATENT, TOKENS, VOCABULARY = (4,), (4, 3), (4, 5), (4, 5, 6)


def positive(x):
    return x.square() + 0.3


def log_prob(x):
    return -x.square()


def some_log_probs(x):
    return x.log_softmax(-1)[..., :4]


def diffusion(*x, learned=False, **options):
    if learned:
        options |= {"variance": "learned_range", "variance_fraction": x[3]}
    return losses.diffusion_kl(*x[:3], STEPS, CUMULATIVE, **options)


def path(loc, scale, **options):
    noise = torch.linspace(-1, 1, 5, dtype=loc.dtype).reshape(-1, *(1,) * loc.dim())
    q = Independent(Normal(loc, scale, validate_args=False), 1, validate_args=False)
    p = Independent(Laplace(torch.zeros_like(loc), torch.ones_like(loc), validate_args=False), 1, validate_args=False)
    return losses.path_kl(q, p, samples=loc + scale * noise, **options)


def sparse(student, teacher, **options):
    return losses.topk_distillation(student, teacher, IDS, **options)


def linear(a, b, **options):
    head = torch.eye(3, dtype=a.dtype)
    return losses.linear_distillation(a, head, b, head, **options)


def bound(function, **fixed):
    return lambda log_weight, **options: function(log_weight, dim=-1, **fixed, **options)


CASES = [
    Case("gaussian_kl logvar", lambda m, s, **o: losses.gaussian_kl(m, logvar=s, **o), (LATENT,) * 2, ROWS, "sum"),
    *(
        Case(
            f"gaussian_kl {name}",
            lambda m, s, name=name, **o: losses.gaussian_kl(m, **{name: s}, prior_std=0.7, prior_mean=0.2, **o),
            (LATENT,) * 2,
            ROWS,
            "sum",
            make=(torch.clone, positive),
        )
        for name in ("std", "var")
    ),
    *(
        Case(
            f"free_bits {over}",
            lambda x, over=over, **o: losses.free_bits(x, 0.5, over=over, **o),
            (LATENT,),
            ROWS,
            "sum",
            rowwise=over in ("dimension", "sample"),
            make=positive,
        )
        for over in ("dimension", "group", "sample", "batch")
    ),
    *(
        Case(
            f"kl_balance {variant}",
            lambda a, b, variant=variant, **o: losses.kl_balance(Logits(a), Logits(b), variant=variant, **o),
            (LATENT,) * 2,
            ROWS,
        )
        for variant in ("dreamer_v2", "dreamer_v3")
    ),
    Case(
        "kl_balance distributions",
        lambda a, b, **o: losses.kl_balance(
            Normal(a, 1.0, validate_args=False), Normal(b, 1.0, validate_args=False), event_dims=1, **o
        ),
        (LATENT,) * 2,
        ROWS,
    ),
    Case("elbo", losses.elbo, (ROWS,) * 2, ROWS),
    Case("importance_weighted_bound", bound(losses.importance_weighted_bound), (LATENT,), ROWS),
    Case("multi_sample_bound", bound(losses.multi_sample_bound), (LATENT,), ROWS),
    Case("path_kl", path, (LATENT,) * 2, ROWS, make=(torch.clone, positive)),
    *(
        Case(f"diffusion_kl {p}", lambda *x, p=p, **o: diffusion(*x, predicts=p, **o), (LATENT,) * 3, ROWS, "mean")
        for p in ("noise", "start", "v")
    ),
    Case(
        "diffusion_kl learned",
        lambda *x, **o: diffusion(*x, learned=True, **o),
        (LATENT,) * 4,
        ROWS,
        "mean",
        make=(torch.clone,) * 3 + (torch.sigmoid,),
    ),
    Case("diffusion_kl simple", lambda *x, **o: diffusion(*x, weighting="simple", **o), (LATENT,) * 3, ROWS, "mean"),
    Case("diffusion_prior_kl", lambda x, **o: losses.diffusion_prior_kl(x, CUMULATIVE, **o), (LATENT,), ROWS, "mean"),
    *(
        Case(
            f"policy_kl {e} {level}",
            lambda a, b, c, e=e, level=level, **o: losses.policy_kl(
                a, b, behaviour_log_prob=c, estimator=e, level=level, **o
            ),
            (TOKENS,) * 3,
            TOKENS,
            trained=(0,),
            make=log_prob,
        )
        for e in ("k1", "k2", "k3")
        for level in ("token", "sequence")
    ),
    *(
        Case(
            f"{function.__name__} {level}",
            lambda a, b, c, d, function=function, level=level, **o: function(
                a, b, log_prob=c, behaviour_log_prob=d, level=level, **o
            ),
            (VOCABULARY, VOCABULARY, TOKENS, TOKENS),
            TOKENS,
            make=(change, change, log_prob, log_prob),
        )
        for function, change in ((losses.exact_policy_kl, torch.clone), (losses.topk_policy_kl, some_log_probs))
        for level in ("token", "sequence")
    ),
    Case("reduce_tokens", losses.reduce_tokens, (TOKENS,), TOKENS),
    Case("distillation", losses.distillation, (LATENT,) * 2, ROWS),
    Case("topk_distillation", sparse, ((4, 6),) * 2, ROWS, make=(torch.clone, lambda x: some_log_probs(x)[..., :3])),
    Case("linear_distillation", linear, (LATENT,) * 2, ROWS),
]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

# What is no loss: reports, copies without gradient, and steps of an optimizer.
NOT_LOSSES = {
    "active_units",
    "audit_policy_kl",
    "check_log_prob_alignment",
    "collapse_report",
    "fisher_vector_product",
    "natural_step",
    "path_log_prob",
    "sample_teacher",
    "topk_kl_bounds",
    "topk_teacher",
}


def some_mask(case):
    mask = torch.ones(case.rows, dtype=torch.bool)
    mask[1] = False
    mask.flatten()[-1] = False
    return mask


def some_weight(case):
    return torch.linspace(0.5, 2.0, math.prod(case.rows), dtype=torch.float64).reshape(case.rows)


def test_every_public_function_has_a_case():
    functions = {name for name in losses.__all__ if inspect.isfunction(getattr(losses, name))}
    assert functions - NOT_LOSSES == {case.name.split()[0] for case in CASES}


@pytest.mark.parametrize("name", losses.__all__)
def test_every_public_name_has_an_executed_example(name):
    documented = inspect.getdoc(getattr(losses, name))
    results = {"AlignmentReport", "AuditFinding", "CollapseReport", "KLBounds", "LinearDistillation", "NaturalStep"}
    results |= {"PolicyAudit", "PolicyKLReport", "Schedule", "SparseTeacher", "TeacherInfo", "TeacherReader"}
    # What a function returns is shown in the example of that function.
    assert ">>>" in documented or name in results


@by_case
def test_reductions_and_weights(case):
    x = case.inputs()
    rows = case.per_row(case.call(*x, reduction="none"))
    assert not case.rowwise or rows.shape == case.rows
    if not case.rowwise:
        return
    weight = some_weight(case)
    torch.testing.assert_close(case.call(*x, reduction="sum"), rows.sum())
    torch.testing.assert_close(case.call(*x, reduction="mean"), rows.mean())
    torch.testing.assert_close(case.per_row(case.call(*x, reduction="none", weight=weight)), weight * rows)
    torch.testing.assert_close(case.call(*x, reduction="sum", weight=weight), (weight * rows).sum())
    torch.testing.assert_close(case.call(*x, reduction="mean", weight=weight), (weight * rows).sum() / weight.sum())
    torch.testing.assert_close(case.call(*x, reduction="mean", weight=2.0), rows.mean())


@by_case
@pytest.mark.parametrize("hostile", [math.nan, math.inf])
def test_a_masked_row_may_hold_anything(case, hostile):
    x, mask, weight = case.inputs(), some_mask(case), some_weight(case)
    bad = [t.clone() for t in x]
    for tensor in bad:
        tensor[~mask if tensor.shape[: mask.dim()] == mask.shape else ~mask.any(-1)] = hostile
        tensor.requires_grad_()
    clean = case.call(*x, reduction="none", mask=mask)
    got = case.call(*bad, reduction="none", mask=mask)
    torch.testing.assert_close(got, clean)
    if case.rowwise:
        assert bool((got[~mask] == 0).all())
    mean = case.call(*bad, reduction="mean", mask=mask, weight=weight)
    torch.testing.assert_close(mean, case.call(*x, reduction="mean", mask=mask, weight=weight))
    for gradient, tensor in zip(torch.autograd.grad(mean, bad, allow_unused=True), bad, strict=True):
        if gradient is not None:
            assert bool(gradient.isfinite().all())
            assert bool((gradient[tensor.detach().isnan() | tensor.detach().isinf()] == 0).all())
    nothing = case.call(*bad, reduction="mean", mask=torch.zeros_like(mask))
    assert nothing.item() == 0.0


@by_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(case, dtype):
    x = [t.requires_grad_() for t in case.inputs(dtype)]
    got = case.call(*x, reduction="mean", mask=some_mask(case), weight=some_weight(case))
    assert got.dtype == torch.float32
    wide = case.call(*(t.detach().float() for t in x), reduction="mean", mask=some_mask(case), weight=some_weight(case))
    torch.testing.assert_close(got, wide, rtol=1e-3, atol=1e-3)
    for gradient in torch.autograd.grad(got, x, allow_unused=True):
        assert gradient is None or (gradient.dtype == dtype and bool(gradient.isfinite().all()))


@by_case
def test_compiles_as_one_graph(case):
    torch.compiler.reset()
    x = [t.requires_grad_() for t in case.inputs()]
    mask, weight = some_mask(case), some_weight(case)

    def call(*tensors):
        return case.call(*tensors, reduction="none", mask=mask, weight=weight)

    want = call(*x)
    got = torch.compile(call, fullgraph=True, backend="aot_eager")(*x)
    torch.testing.assert_close(got, want)
    found, expected = (torch.autograd.grad(values.sum(), x, allow_unused=True) for values in (got, want))
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None or not bool(one.any())
        else:
            torch.testing.assert_close(one, other)


@by_case
def test_vmap_and_functional_gradients(case):
    stacks = [torch.stack(pair) for pair in zip(case.inputs(seed=0), case.inputs(seed=1), strict=True)]
    mask = torch.stack([some_mask(case), some_mask(case).flip(0)])

    def call(mask, *tensors):
        return case.call(*tensors, reduction="none", mask=mask, weight=some_weight(case))

    def mean(mask, *tensors):
        return case.call(*tensors, reduction="mean", mask=mask, weight=some_weight(case))

    got = torch.vmap(call)(mask, *stacks)
    each = [call(mask[i], *(s[i] for s in stacks)) for i in range(2)]
    torch.testing.assert_close(got, torch.stack(each))
    found = torch.vmap(torch.func.grad(mean, argnums=1))(mask, *stacks)
    leaves = [s.clone().requires_grad_() for s in stacks]
    total = sum(mean(mask[i], *(s[i] for s in leaves)) for i in range(2))
    torch.testing.assert_close(found, torch.autograd.grad(total, leaves[0])[0])


@by_case
def test_second_derivatives(case):
    """Of one tensor at a time: a stopped gradient, as in `kl_balance`, is part of the definition."""
    x = case.inputs()

    def call(i, tensor):
        given = [*x[:i], tensor, *x[i + 1 :]]
        return case.call(*given, reduction="mean", mask=some_mask(case), weight=some_weight(case))

    checked = 0
    for i, tensor in enumerate(x):
        leaf = tensor.clone().requires_grad_()
        if i in case.trained and call(i, leaf).requires_grad:
            checked += torch.autograd.gradgradcheck(lambda t, i=i: call(i, t), leaf)
    assert checked
