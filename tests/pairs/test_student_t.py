"""KL(StudentT ‖ ·)."""

from torch.distributions import Cauchy, Normal, StudentT

from kullback.pairs import kl_with_error
from tests.pairs.contract import *  # noqa: F403

# Of a million degrees of freedom the slope is 1e-19 and what is left of numbers 1e7 times as large.
CASES = [Case(StudentT, StudentT, gradient_tolerance=1e-7), Case(StudentT, Normal)]  # noqa: F405


def double(*values: float) -> list[Tensor]:  # noqa: F405
    return [torch.tensor(v, dtype=torch.float64) for v in values]  # noqa: F405


@pytest.mark.parametrize(  # noqa: F405
    "parameters",
    [
        (0.0, 1.0, 1.0, 2.0),
        (0.0, 1.0, 0.0, 1e6),
        (0.0, 1.0, 0.0, 1e-6),
        (0.0, 1.0, 1e3, 1.0),
        (0.0, 1.0, -1e20, 1.0),
        (0.0, 1e-30, 1.0, 1e30),
        (0.0, 1e30, 1.0, 1e-30),
        (5.0, 1e-30, 5.0, 1e-30 * (1 + 1e-9)),
    ],
)
def test_one_degree_of_freedom_is_the_cauchy(parameters: tuple[float, ...]) -> None:
    loc_p, scale_p, loc_q, scale_q = double(*parameters)
    (one,) = double(1.0)
    result = kl_with_error(StudentT(one, loc_p, scale_p), StudentT(one, loc_q, scale_q))
    wanted = kl_divergence(Cauchy(loc_p, scale_p), Cauchy(loc_q, scale_q)).item()  # noqa: F405
    assert result.value.item() == pytest.approx(wanted, rel=1e-10)  # noqa: F405
    assert not result.certified


@pytest.mark.parametrize("df", [1e13, 1e15])  # noqa: F405
def test_many_degrees_of_freedom_are_the_normal(df: float) -> None:
    df, loc, scale = double(df, 1.0, 2.0)
    value = kl_divergence(StudentT(df), StudentT(df, loc, scale))  # noqa: F405
    wanted = kl_divergence(Normal(*double(0.0, 1.0)), Normal(loc, scale))  # noqa: F405
    assert value.item() == pytest.approx(wanted.item(), rel=1e-12)  # noqa: F405


def test_published_value() -> None:
    """Two Cauchys of scales 1 and 2, from the closed form of Chyzak and Nielsen."""
    one, four = double(1.0, 4.0)
    value = kl_divergence(StudentT(one), StudentT(one, scale=four.sqrt()))  # noqa: F405
    assert value.item() == pytest.approx(math.log(9 / 8), rel=1e-12)  # noqa: F405


@pytest.mark.parametrize("df", [1e-3, 0.3, 1.0, 7.0, 1e3, 1e6, 1e12])  # noqa: F405
@pytest.mark.parametrize("step", [1e-3, 1e-9])  # noqa: F405
def test_near_equality_half_the_fisher_information(df: float, step: float) -> None:
    """KL(scale·(1+ε)) = ½·2ν/(ν+3)·ε² + O(ε³), and for the location (ν+1)/(ν+3)·½(ε/scale)²."""
    df, scale, moved, loc = double(df, 1.3, 1.3 * (1 + step), 1.3 * step)
    relative = ((moved - scale) / scale).item()
    value = kl_divergence(StudentT(df, scale=scale), StudentT(df, scale=moved)).item()  # noqa: F405
    assert value == pytest.approx((df / (df + 3)).item() * relative**2, rel=3 * step)  # noqa: F405
    value = kl_divergence(StudentT(df, scale=scale), StudentT(df, loc, scale)).item()  # noqa: F405
    # Locations differ in units of √ν·scale.
    if loc < 0.1 * step**0.5 * df.sqrt():
        wanted = ((df + 1) / (df + 3)).item() * (loc / scale).item() ** 2 / 2
        assert value == pytest.approx(wanted, rel=3 * step)  # noqa: F405


def test_a_thousand_pairs_in_one_call() -> None:
    generator = torch.Generator().manual_seed(0)  # noqa: F405
    u = torch.rand(6, 1000, generator=generator, dtype=torch.float64) + 0.5  # noqa: F405
    p, q = StudentT(4 * u[0], u[1], u[2]), StudentT(4 * u[3], u[4], u[5])
    result = kl_with_error(p, q)
    assert (result.value > 0).all()
    assert (result.error < 1e-6 * result.value).all()
    alone = kl_divergence(StudentT(4 * u[0, 7], u[1, 7], u[2, 7]), StudentT(4 * u[3, 7], u[4, 7], u[5, 7]))  # noqa: F405
    assert result.value[7].item() == pytest.approx(alone.item(), rel=1e-13)  # noqa: F405


@pytest.mark.parametrize(  # noqa: F405
    ("p", "q", "expected"),
    [  # ∫ p·log(p/q) in mpmath, between points that crowd at q's singular points and its bend
        ((2.0**-20, 0.25, 1.0), (2.0**-20, 0.25, 2.0**-30), 1.86545512148390378e-5),
        ((2.0**-10, 0.25, 1.0), (2.0**-9, 0.25, 2.0**30), 0.49712886411427619989),
        ((2.0**-5, 0.0, 2.0**-90), (2.0**-5, -50.0, 0.375), 39.776242464362870075),
        ((1.0, 0.0, 1.0), (1e12, 0.5, 1e4), 107.59825465456181468),
    ],
)
def test_few_degrees_of_freedom_and_scales_far_apart(p: list[float], q: list[float], expected: float) -> None:
    """What matters happens far out in p's tails."""
    result = kl_with_error(StudentT(*double(*p)), StudentT(*double(*q)))
    assert abs(result.value.item() / expected - 1) < 1e-13


@pytest.mark.parametrize(  # noqa: F405
    ("p", "q", "expected", "slopes"),
    [  # by Gauss–Legendre panels in arb at 100 digits; slopes to ν, μ, σ of p and ν, σ of q by complex steps of 2^-160
        (
            (2.0**-6, 256.0, 5.0),
            (31.0, 2.0**24, 0.375),
            1990.6486716577965,
            (-121956.81412042263, -4.632237931443349e-07, 4.645702575469697, 63.839989438324665, -82.66666646927804),
        ),
        (
            (0.125, -30.0, 0.4375),
            (2.0**24, -50.0, 24.0),
            23449922.010249157,
            (-500935679.03417367, 0.027897396187621524, 6699976.821344639, 1.3103666970548793, -122135.01738692514),
        ),
        (
            (0.09375, 2.0**44, 2.0**50),
            (4.0, 0.0, 2.0**-40),
            277.8887555357801,
            (-425.77368784228446, 6.926309353150895e-17, 3.551631442964071e-15, 69.80270668780035, -4398046511104.0),
        ),
        (
            (0.25, 0.0, 1.0),
            (0.25, 2.0**150, 1.0),
            126.49666539400775,
            (17.370921958060066, -8.758115401999234e-46, -0.9999999999955939, 100.6973323152062, -0.25),
        ),
        (
            (0.125, 0.0, 1.0),
            (0.25, 2.0**-30, 10.0),
            0.37101925374300326,
            (
                -3.714766686437891,
                -1.1741812649176559e-11,
                -0.16765859898529212,
                2.2003158252572836,
                0.01676585989852921,
            ),
        ),
        (
            (2.0**40, 0.0, 1.0),
            (28.0, 2.0**20, 1.0),
            353.21732600382495,
            (
                8.27180612575221e-25,
                -2.7656555175102106e-05,
                -1.0000000000263753,
                11.678665538578388,
                -27.99999999926149,
            ),
        ),
        (
            (2.0**30, 0.0, 1.0),
            (10.0, 0.5, 1.5),
            0.21468364334791512,
            (
                5.17916762977476e-19,
                -0.2155900061583251,
                -0.5762341131614175,
                -0.003223992095881321,
                0.31229274005483665,
            ),
        ),
        (
            (2.0**34, 0.25, 20.0),
            (8.5, 0.0, 2.0**-80),
            480.1343564821561,
            (
                -1.2705494078378334e-20,
                0.005937190764871981,
                0.4249257851154391,
                56.18010991860639,
                -1.0275869466724348e25,
            ),
        ),
        (
            (2.0, 0.0625, 0.3125),
            (2.0, 0.0625 + 2.0**-44, 0.3125),
            9.926167350636332e-27,
            (
                8.50814344340257e-28,
                -3.4924596548080445e-13,
                -2.7226059018888226e-26,
                4.726746357445873e-28,
                -3.63014120251843e-26,
            ),
        ),
        (
            (0.25, 0.0625, 0.3125),
            (0.25, 0.0625 + 2.0**-40, 0.3125),
            1.6289095139505777e-24,
            (
                2.291213382260153e-24,
                -3.5820099023672253e-12,
                -5.957154793876398e-24,
                -1.4892886984690995e-24,
                -4.4678660954072985e-24,
            ),
        ),
    ],
)
def test_slopes_far_apart_and_when_only_the_locations_differ(
    p: list[float], q: list[float], expected: float, slopes: tuple[float, ...]
) -> None:
    """Far out cosh w overflows; beside a narrow q there is a pole; many degrees of freedom or a shift move little."""
    of_p, of_q = ([x.requires_grad_() for x in double(*side)] for side in (p, q))
    value = kl_divergence(StudentT(*of_p), StudentT(*of_q))  # noqa: F405
    value.backward()
    assert value.item() == pytest.approx(expected, rel=1e-12, abs=0)  # noqa: F405
    assert of_q[1].grad == -of_p[1].grad
    for got, wanted in zip((*of_p, of_q[0], of_q[2]), slopes, strict=True):
        assert got.grad.item() == pytest.approx(wanted, rel=1e-9, abs=0)  # noqa: F405
