"""gaussian_kl against mpmath, under transforms, at the edges."""

import math

import mpmath
import pytest
import torch

from kullback.losses import gaussian_kl


def exact(mean: float, logvar: float, prior_mean: float = 0.0, prior_std: float = 1.0) -> float:
    with mpmath.workdps(60):
        m, s, pm, ps = (mpmath.mpf(float(v)) for v in (mean, logvar, prior_mean, prior_std))
        t = s - 2 * mpmath.log(ps)
        return float((((m - pm) / ps) ** 2 + mpmath.exp(t) - 1 - t) / 2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("logvar", [-80.0, -3.0, -1e-3, -1e-9, 0.0, 1e-12, 1e-5, 0.4, 2.0, 80.0])
@pytest.mark.parametrize("mean", [0.0, 1e-8, 2.5])
def test_value_and_gradient(dtype, logvar, mean):
    m = torch.tensor([mean], dtype=dtype, requires_grad=True)
    s = torch.tensor([logvar], dtype=dtype, requires_grad=True)
    value = gaussian_kl(m, logvar=s)
    rel = 1e-14 if dtype == torch.float64 else 5e-7
    assert value.item() == pytest.approx(exact(m.item(), s.item()), rel=rel, abs=0)
    value.sum().backward()
    assert float(m.grad) == pytest.approx(m.item(), rel=rel, abs=0)
    assert float(s.grad) == pytest.approx(float(mpmath.expm1(s.item()) / 2), rel=rel, abs=0)


def test_std_var_and_prior_agree_with_logvar():
    generator = torch.Generator().manual_seed(0)
    mean, logvar = torch.randn(2, 5, 3, dtype=torch.float64, generator=generator)
    options = {"prior_mean": torch.randn(3, dtype=torch.float64, generator=generator), "prior_std": 0.7}
    want = torch.tensor(
        [[exact(mean[i, j], logvar[i, j], options["prior_mean"][j], 0.7) for j in range(3)] for i in range(5)],
        dtype=torch.float64,
    )
    for spread in ({"logvar": logvar}, {"std": (logvar / 2).exp()}, {"var": logvar.exp()}):
        torch.testing.assert_close(gaussian_kl(mean, **spread, **options), want, rtol=1e-12, atol=0)


def test_nearly_equal_scales_keep_their_digits():
    std = torch.tensor([0.7 * (1 + 1e-9)], dtype=torch.float64)
    with mpmath.workdps(60):
        u = mpmath.mpf(float(std)) / mpmath.mpf(0.7)
        want = float((u**2 - 1 - 2 * mpmath.log(u)) / 2)
    assert float(gaussian_kl(torch.zeros(1), std=std, prior_std=0.7)) == pytest.approx(want, rel=1e-6, abs=0)


def test_infinite_variance_and_zero_variance():
    mean = torch.tensor([[1.0, 2.0], [1.0, 2.0]], requires_grad=True)
    logvar = torch.tensor([[0.5, -math.inf], [math.inf, 200.0]], requires_grad=True)
    value = gaussian_kl(mean, logvar=logvar)
    assert value.isinf().tolist() == [[False, True], [True, True]]
    rows = gaussian_kl(mean, logvar=logvar, reduction="sample")
    assert rows.isinf().all()
    value.sum().backward()
    assert mean.grad.tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert logvar.grad.isfinite().all()
    assert logvar.grad.flatten()[1:].tolist() == [0.0] * 3
    std = torch.tensor([0.0, 1.0], requires_grad=True)
    value = gaussian_kl(torch.zeros(2), std=std)
    assert value.tolist() == [math.inf, 0.0]
    value.sum().backward()
    assert std.grad.tolist() == [0.0, 0.0]


def test_reductions_masks_and_weights():
    mean, logvar = torch.randn(2, 4, 3, dtype=torch.float64)
    per = gaussian_kl(mean, logvar=logvar)
    rows = gaussian_kl(mean, logvar=logvar, reduction="sample")
    torch.testing.assert_close(rows, per.sum(-1))
    torch.testing.assert_close(gaussian_kl(mean, logvar=logvar, reduction="mean"), rows.mean())
    mask = torch.tensor([True, False, True, True])
    bad = mean.clone()
    bad[1] = math.nan
    weight = torch.tensor([1.0, 5.0, 2.0, 0.0], dtype=torch.float64)
    bad.requires_grad_()
    got = gaussian_kl(bad, logvar=logvar, mask=mask, weight=weight, reduction="mean")
    torch.testing.assert_close(got, (rows[0] + 2 * rows[2]) / 3)
    got.backward()
    assert bad.grad[1].tolist() == [0.0] * 3
    none = gaussian_kl(mean, logvar=logvar, mask=mask)
    torch.testing.assert_close(none, torch.where(mask[:, None], per, 0.0))
    maps = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(
        gaussian_kl(maps, logvar=maps, dim=(1, 2, 3), reduction="sample"),
        gaussian_kl(maps, logvar=maps).sum((1, 2, 3)),
    )
    torch.testing.assert_close(gaussian_kl(maps, logvar=maps, dim=1), gaussian_kl(maps, logvar=maps))
    torch.testing.assert_close(
        gaussian_kl(maps, logvar=maps, dim=1, reduction="sample"), gaussian_kl(maps, logvar=maps).sum(1)
    )
    torch.testing.assert_close(
        gaussian_kl(maps, logvar=maps, base=2, reduction="mean") * math.log(2),
        gaussian_kl(maps, logvar=maps, reduction="mean"),
    )


def test_half_precision_is_computed_in_float32():
    mean, logvar = torch.randn(2, 4, 3).bfloat16()
    got = gaussian_kl(mean, logvar=logvar)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got, gaussian_kl(mean.float(), logvar=logvar.float()))


@pytest.mark.parametrize("spread", ["logvar", "std", "var"])
def test_second_derivatives(spread):
    mean = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    value = torch.rand(2, 3, dtype=torch.float64).add(0.5).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, s: gaussian_kl(m, reduction="sample", **{spread: s}), (mean, value))
    assert torch.autograd.gradgradcheck(lambda m, s: gaussian_kl(m, reduction="sample", **{spread: s}), (mean, value))


def test_vmap_func_and_compile():
    mean, logvar = torch.randn(2, 4, 3, dtype=torch.float64)

    def loss(m, s):
        return gaussian_kl(m, logvar=s, prior_std=1.5, reduction="mean")

    torch.testing.assert_close(
        torch.vmap(lambda m, s: gaussian_kl(m, logvar=s))(mean, logvar), gaussian_kl(mean, logvar=logvar)
    )
    want = torch.func.grad(loss, (0, 1))(mean, logvar)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    m, s = mean.clone().requires_grad_(), logvar.clone().requires_grad_()
    compiled(m, s).backward()
    torch.testing.assert_close((m.grad, s.grad), want)


def test_errors_say_what_to_write():
    mean = torch.zeros(2, 3)
    with pytest.raises(TypeError, match="exactly one of logvar, std and var"):
        gaussian_kl(mean)
    with pytest.raises(TypeError, match="logvar, std"):
        gaussian_kl(mean, logvar=mean, std=mean)
    with pytest.raises(ValueError, match="logvar= if the network"):
        gaussian_kl(mean, std=mean - 1)
    with pytest.raises(ValueError, match="do not fit together"):
        gaussian_kl(mean, logvar=torch.zeros(4))
    with pytest.raises(ValueError, match="NaN at index"):
        gaussian_kl(mean, logvar=mean * math.nan)
    with pytest.raises(ValueError, match="prior_std is not positive"):
        gaussian_kl(mean, logvar=mean, prior_std=0.0)
    with pytest.raises(ValueError, match="reduction"):
        gaussian_kl(mean, logvar=mean, reduction="batchmean")


def test_empty_batch():
    empty = torch.zeros(0, 3)
    assert float(gaussian_kl(empty, logvar=empty, reduction="mean")) == 0.0
    assert gaussian_kl(empty, logvar=empty).shape == (0, 3)
