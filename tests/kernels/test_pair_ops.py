"""The native pair kernels against their pure-torch formulas: values, gradients, layouts, dtypes, instruction sets."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest
import torch
from torch.distributions import (
    Bernoulli,
    Beta,
    Cauchy,
    Chi2,
    Exponential,
    Gamma,
    Geometric,
    Gumbel,
    HalfNormal,
    InverseGamma,
    Laplace,
    Normal,
    Pareto,
    Poisson,
    Weibull,
)

from kullback import kernels
from kullback.pairs.closed import (
    beta,
    cauchy,
    counts,
    gamma,
    gumbel,
    laplace,
    normal,
    pareto,
)
from kullback.pairs.dispatch import kl_divergence

pytestmark = [
    pytest.mark.skipif(kernels.status().implementation == "reference", reason="no native library"),
    # torch's own: opcheck looks at .grad of what it was given.
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]

REAL, SCALE, SHAPE, PROBS, LOGITS = "real", "scale", "shape", "probs", "logits"
OPS = {
    "normal": (normal.normal_op, (REAL, SCALE, REAL, SCALE)),
    "gamma": (gamma.gamma_op, (SHAPE, SCALE, SHAPE, SCALE)),
    "poisson": (counts.poisson_op, (SCALE, SCALE)),
    "exponential": (gamma.exponential_op, (SCALE, SCALE)),
    "half_normal": (normal.half_normal_op, (SCALE, SCALE)),
    "laplace": (laplace.laplace_op, (REAL, SCALE, REAL, SCALE)),
    "gumbel": (gumbel.gumbel_op, (REAL, SCALE, REAL, SCALE)),
    "cauchy": (cauchy.cauchy_op, (REAL, SCALE, REAL, SCALE)),
    "pareto": (pareto.pareto_op, (SCALE, SCALE, SCALE, SCALE)),
    "weibull": (gumbel.weibull_op, (SCALE, SCALE, SCALE, SCALE)),
    **{
        f"geometric-{kind_p}-{kind_q}": (
            counts.GEOMETRIC_OPS[kind_p == LOGITS, kind_q == LOGITS],
            (kind_p, kind_q),
        )
        for kind_p, kind_q in itertools.product((PROBS, LOGITS), repeat=2)
    },
    **{
        f"bernoulli-{kind_p}-{kind_q}": (
            counts.BERNOULLI_OPS[kind_p == LOGITS, kind_q == LOGITS],
            (kind_p, kind_q),
        )
        for kind_p, kind_q in itertools.product((PROBS, LOGITS), repeat=2)
    },
    "beta": (beta.beta_op, (SHAPE, SHAPE)),
}
# Where one concentration is below 1e-6 and the other changes a thousandfold the formula, not the kernel, loses digits:
# KL(Beta(2.83, 1.1e-7) ‖ Beta(1717, 1.1e-7)) comes out 1.4e-11 off, the kernel's value is right to 4e-16.
FORMULA_LOSES = {"beta": 1e-10, "gumbel": 1e-9, "weibull": 1e-9, "gamma": 1e-10}
every_op = pytest.mark.parametrize("name", OPS)


def draw(kind: str, count: int, generator: torch.Generator) -> torch.Tensor:
    """Ordinary and extreme parameters, in turn; the formulas keep their digits from 1e-6 to 1e6."""
    u = torch.rand(count, generator=generator, dtype=torch.float64)
    wide = torch.rand(count, generator=generator, dtype=torch.float64) < 0.3
    spread = {REAL: (1.0, 3.0), SCALE: (1.0, 6.0), SHAPE: (1.5, 6.0), PROBS: (1.0, 6.0), LOGITS: (1.0, 2.0)}[kind]
    exponent = (2 * u - 1) * torch.where(wide, spread[1], spread[0])
    positive = 10**exponent
    if kind in {REAL, LOGITS}:
        return torch.where(torch.rand(count, generator=generator) < 0.5, positive, -positive)
    return positive / (1 + positive) if kind == PROBS else positive


def arguments(name: str, dtype: torch.dtype, count: int = 300) -> list[torch.Tensor]:
    """Parameters of p and q: a third nearly equal, by 1e-1 to 1e-6, a third in one of them only."""
    op, kinds = OPS[name]
    generator = torch.Generator().manual_seed(len(name))
    half = len(kinds) // 2
    found = [draw(kind, count * max(op.parts, 1), generator) for kind in kinds]
    size = len(found[0])
    moves = 10 ** (-1 - 5 * torch.rand(half, size, generator=generator, dtype=torch.float64))
    mode = torch.randint(3, (size,), generator=generator)
    for i in range(half if kinds[:half] == kinds[half:] else 0):
        near = found[i] * (1 - moves[i])
        found[half + i] = torch.where((mode == 0) | ((mode == 1) & (i == 0)), near, found[half + i])
        found[half + i] = torch.where((mode == 1) & (i > 0), found[i], found[half + i])
    if op.parts:
        found = [t.reshape(count, op.parts) for t in found]
    return [t.to(dtype) for t in found]


def value_and_gradients(function, given, keep=None):
    """The value, and the gradient of the sum over the elements to keep; by default over those that are finite."""
    leaves = [t.clone().requires_grad_() for t in given]
    value = function(*leaves)
    keep = ~value.isinf() if keep is None else keep
    return value.detach(), torch.autograd.grad(torch.where(keep, value, 0.0).sum(), leaves)


@every_op
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_native_agrees_with_the_formula(name, dtype):
    op, _ = OPS[name]
    given = arguments(name, dtype)
    value, gradients = value_and_gradients(op, given)
    wide, wide_gradients = value_and_gradients(op.formula, [t.double() for t in given], ~value.isinf())
    assert value.dtype == dtype
    assert bool((value >= 0).all())
    tiny = torch.finfo(dtype).smallest_normal
    loose = {torch.float64: (FORMULA_LOSES.get(name, 1e-12), 1e-8), torch.float32: (2e-6, 1e-5)}[dtype]
    torch.testing.assert_close(value, wide.to(dtype), rtol=loose[0], atol=tiny)
    for got, want, at in zip(gradients, wide_gradients, given, strict=True):
        both = [got, want.to(dtype)]
        if op.parts:  # a slope that hardly counts beside the other one is a difference in the formula
            share = (both[1] * at).abs().amax(-1, keepdim=True).clamp_min(tiny)
            both = [2 + slope * at / share for slope in both]
        torch.testing.assert_close(*both, rtol=loose[1], atol=tiny)


@every_op
def test_every_layout_gives_the_same(name):
    op, _ = OPS[name]
    given = arguments(name, torch.float64, 24)
    tail = (op.parts,) if op.parts else ()
    plain = [t.reshape(2, 3, 4, *tail) for t in given]
    want, want_gradients = value_and_gradients(op, plain)
    order = (2, 0, 1, 3) if op.parts else (2, 0, 1)
    back = (1, 2, 0, 3) if op.parts else (1, 2, 0)
    turned = [t.permute(order).contiguous().permute(back) for t in plain]
    stepped = [torch.stack([t, t], 0).transpose(0, 1)[:, 0] for t in plain]
    for strange in (turned, stepped, [turned[0], *plain[1:]]):
        value, gradients = value_and_gradients(op, strange)
        assert value.is_contiguous()
        torch.testing.assert_close(value, want, rtol=0, atol=0)
        for got, expected in zip(gradients, want_gradients, strict=True):
            torch.testing.assert_close(got, expected, rtol=0, atol=0)


@every_op
def test_broadcast_parameters_collect_their_gradients(name):
    op, _ = OPS[name]
    given = arguments(name, torch.float64, 12)
    tail = (op.parts,) if op.parts else ()
    shapes = itertools.cycle([(4, 1), (3,), (), (4, 3)])
    small = []
    for t, shape in zip(given, shapes, strict=False):
        count = torch.Size(shape).numel()
        small.append(t[:count].reshape((*shape, *tail)))
    shape = torch.broadcast_shapes(*(t.shape[: t.dim() - len(tail)] for t in small))
    full = [t.expand(*shape, *tail).contiguous() for t in small]
    value, gradients = value_and_gradients(op, small)
    want, want_gradients = value_and_gradients(op, full)
    torch.testing.assert_close(value, want, rtol=0, atol=0)
    for got, expected, t in zip(gradients, want_gradients, small, strict=True):
        torch.testing.assert_close(got, expected.sum_to_size(t.shape), rtol=1e-12, atol=0)


@every_op
def test_empty_and_single(name):
    op, _ = OPS[name]
    given = arguments(name, torch.float32, 5)
    empty = [t[:0] for t in given]
    value, gradients = value_and_gradients(op, empty)
    assert value.shape == (0,)
    assert all(g.shape == t.shape for g, t in zip(gradients, empty, strict=True))
    single = [t[3] for t in given]
    assert op(*single).shape == ()
    assert op(*single).item() == op(*given)[3].item()


@every_op
def test_gradients_are_weighted_and_only_those_asked_for(name):
    op, _ = OPS[name]
    given = [t.requires_grad_() for t in arguments(name, torch.float64, 40)]
    weight = torch.linspace(-1, 1, 80, dtype=torch.float64)[::2]
    weight[3] = 0.0
    every = torch.autograd.grad(op(*given), given, weight)
    for i, t in enumerate(given):
        others = [u.detach() for u in given]
        others[i] = t
        (alone,) = torch.autograd.grad(op(*others), t, weight)
        torch.testing.assert_close(alone, every[i], rtol=0, atol=0)
        assert bool((alone[3] == 0).all())


def test_dtypes_mix_as_the_contract_says():
    loc, scale = torch.tensor([0.5, 1.0]), torch.tensor([2.0, 0.25])
    exact = kl_divergence(Normal(loc.double(), scale.double()), Normal(0.0 * loc.double(), 1 + 0 * scale.double()))
    mixed = kl_divergence(Normal(loc.double(), scale.double()), Normal(0 * loc, 1 + 0 * scale))
    assert mixed.dtype == torch.float64
    torch.testing.assert_close(mixed, exact, rtol=1e-15, atol=0)
    for narrow in (torch.bfloat16, torch.float16):
        leaf = loc.to(narrow).requires_grad_()
        value = kl_divergence(Normal(leaf, scale.to(narrow)), Normal(0 * loc, 1 + 0 * scale))
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, exact.float(), rtol=1e-6, atol=0)
        value.sum().backward()
        assert leaf.grad.dtype == narrow


def test_an_element_that_is_infinite_or_not_asked_for_leaves_no_nan():
    p = torch.tensor([0.0, 0.5, 1.0, 0.5], dtype=torch.float64, requires_grad=True)
    q = torch.tensor([0.5, 0.0, 0.5, 1.0], dtype=torch.float64, requires_grad=True)
    value = counts.BERNOULLI_OPS[False, False](p, q)
    assert value.tolist() == pytest.approx([0.6931471805599453, torch.inf, 0.6931471805599453, torch.inf])
    to_p, to_q = torch.autograd.grad(value.sum(), (p, q))
    assert to_p.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert to_q.tolist() == [2.0, 0.0, -2.0, 0.0]
    huge, one = torch.tensor(1e200, dtype=torch.float64, requires_grad=True), torch.ones((), dtype=torch.float64)
    value = kl_divergence(Normal(one, huge), Normal(one, one * 1e-200))
    (slope,) = torch.autograd.grad(value * 0.0 if value.isfinite() else torch.where(value.isinf(), 0.0, value), huge)
    assert not bool(slope.isnan())


@pytest.mark.parametrize("family", [Gamma, Beta])
def test_compiles_with_one_op_in_the_graph(family):
    torch.compiler.reset()

    def divergence(a, b):
        return kl_divergence(family(a, b, validate_args=False), family(b, a, validate_args=False))

    leaves = [torch.tensor([0.5, 2.0, 30.0], dtype=torch.float64) * s for s in (1, 3)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    got = torch.compile(divergence, fullgraph=True, backend="aot_eager")(*leaves)
    torch.testing.assert_close(got, divergence(*leaves), rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ["normal", "beta"])
def test_opcheck(name):
    op, _ = OPS[name]
    leaves = tuple(t.clone().requires_grad_() for t in arguments(name, torch.float64, 6))
    torch.library.opcheck(getattr(torch.ops.kullback, op.op.name).default, leaves)


def summary_of_all():
    """Per function: its value and gradients, each in one number."""
    return {
        name: [t.nan_to_num(posinf=-1.0).abs().log1p().sum().item() for t in (value, *gradients)]
        for name, (op, _) in OPS.items()
        for value, gradients in [value_and_gradients(op, arguments(name, torch.float64))]
    }


@pytest.mark.parametrize("wanted", ["baseline", "avx2"])
@pytest.mark.sample(2)
def test_instruction_sets_agree(wanted):
    code = "import json; from tests.kernels.test_pair_ops import summary_of_all; print(json.dumps(summary_of_all()))"
    environment = {**os.environ, "KULLBACK_ISA": wanted, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    theirs = json.loads(done.stdout)
    for name, numbers in summary_of_all().items():
        assert theirs[name] == pytest.approx(numbers, rel=1e-13), name


@pytest.mark.parametrize("count", [1, 255, 257, 20_000])
def test_threads_and_blocks_do_not_matter(count):
    before = torch.get_num_threads()
    u = torch.linspace(0.05, 4.0, count, dtype=torch.float64)
    given = [u, u.flip(0), 1 + 0 * u, 2 * u]
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(value_and_gradients(gamma.gamma_op, given))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=0)


INF = torch.inf
# Parameters that torch's validation allows although a formula has no value there.
INFINITE = {
    "Gumbel": (Gumbel, [(0.0, INF), (INF, 1.0), (-INF, INF)]),
    "Weibull": (Weibull, [(1.0, INF), (INF, 1.0), (INF, INF)]),
    "Gamma": (Gamma, [(INF, 1.0), (1.0, INF), (INF, INF)]),
    "InverseGamma": (InverseGamma, [(INF, 1.0), (1.0, INF)]),
    "Chi2": (Chi2, [(INF,)]),
    "Poisson": (Poisson, [(INF,)]),
    "Normal": (Normal, [(0.0, INF), (INF, 1.0)]),
    "Laplace": (Laplace, [(0.0, INF), (INF, 1.0)]),
    "Cauchy": (Cauchy, [(0.0, INF), (INF, 1.0)]),
    "Exponential": (Exponential, [(INF,)]),
    "HalfNormal": (HalfNormal, [(INF,)]),
    "Pareto": (Pareto, [(1.0, INF), (INF, 1.0)]),
    "Beta": (Beta, [(INF, 1.0), (INF, INF)]),
    "Bernoulli": (lambda logits: Bernoulli(logits=logits), [(INF,), (-INF,)]),
    "Geometric": (lambda logits: Geometric(logits=logits), [(INF,), (-INF,)]),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("family", INFINITE)
def test_equal_infinite_parameters(family, dtype):
    make, rows = INFINITE[family]
    columns = [torch.tensor(column, dtype=dtype) for column in zip(*rows, strict=True)]
    own, other = ([c.clone().requires_grad_() for c in columns] for _ in range(2))
    with torch.no_grad():
        assert torch.equal(kl_divergence(make(*own), make(*other)), torch.zeros(len(rows), dtype=dtype))
    value = kl_divergence(make(*own), make(*other))
    assert torch.equal(value, torch.zeros_like(value))
    for gradient in torch.autograd.grad(value, [*own, *other], torch.full_like(value, 2.0)):
        assert torch.equal(gradient, torch.zeros_like(gradient))
