"""Bad input gets a clear error, never a number."""

import pytest
import torch

import kullback
from kullback import special

UNARY = ["expm1mx", "log1pmx", "log1mexp", "digamma", "trigamma", "binet", "log_ndtr"]
BINARY = [
    "logdiffexp",
    "rel_entr",
    "kl_div",
    "lgamma_bregman",
    "binet_bregman",
    "log_ndtr_diff",
    "log_iv",
    "bessel_ratio",
]
WRONG = [
    torch.tensor([1, 2]),
    torch.tensor([True]),
    torch.tensor([1.0 + 1.0j]),
    [1.0, 2.0],
    None,
]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("argument", [*WRONG, 1.0], ids=repr)
def test_unary_wants_a_float_tensor(name, argument):
    with pytest.raises(
        kullback.InputTypeError, match=rf"{name}\(\).*got:.*expected:.*write:|(?s:{name}.*got:.*expected:)"
    ):
        getattr(special, name)(argument)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("argument", [*WRONG, True], ids=repr)
def test_binary_wants_float_tensors(name, argument):
    good = torch.ones(2)
    with pytest.raises(TypeError, match=name):
        getattr(special, name)(good, argument)
    with pytest.raises(TypeError, match=name):
        getattr(special, name)(argument, good)


def test_sparse_tensors_are_refused():
    dense, sparse = torch.ones(3), torch.ones(3).to_sparse()
    with pytest.raises(kullback.InputTypeError, match=r"expm1mx\(\).*sparse(?s:.*)to_dense"):
        special.expm1mx(sparse)
    for arguments in ((dense, sparse), (sparse, dense), (sparse, sparse), (sparse, 0.5)):
        with pytest.raises(kullback.InputTypeError, match=r"kl_div\(\).*sparse(?s:.*)to_dense"):
            special.kl_div(*arguments)


@pytest.mark.parametrize("name", BINARY)
def test_two_numbers_are_not_enough(name):
    with pytest.raises(kullback.InputTypeError, match="floating-point tensors"):
        getattr(special, name)(1.0, 2.0)


@pytest.mark.parametrize("name", BINARY)
def test_shapes_that_do_not_broadcast(name):
    with pytest.raises(kullback.ShapeError, match=r"\(2, 3\).*\(2, 4\)"):
        getattr(special, name)(torch.ones(2, 3), torch.ones(2, 4))


@pytest.mark.parametrize("name", BINARY)
def test_two_devices(name):
    with pytest.raises(kullback.InputTypeError, match="one device"):
        getattr(special, name)(torch.ones(2), torch.ones(2, device="meta"))


@pytest.mark.parametrize(("order", "error"), [(4, ValueError), (-1, ValueError), (1.0, TypeError), (True, TypeError)])
def test_binet_order(order, error):
    with pytest.raises(error, match="order"):
        special.binet(torch.ones(2), order)


@pytest.mark.parametrize(("dimension", "error"), [(0, ValueError), (2.0, TypeError), (None, TypeError)])
def test_dimension(dimension, error):
    with pytest.raises(error, match="dimension"):
        special.multivariate_lgamma_bregman(torch.ones(2), torch.ones(2), dimension)


@pytest.mark.parametrize("name", ["log_iv", "log_ive", "bessel_ratio"])
def test_the_order_has_no_gradient(name):
    nu = torch.ones(2, requires_grad=True)
    with pytest.raises(kullback.InputTypeError, match="derivative with respect to the order"):
        getattr(special, name)(nu, torch.ones(2))
    with torch.no_grad():
        assert getattr(special, name)(nu, torch.ones(2)).shape == (2,)


def test_mixed_dtypes_promote_as_torch_does():
    p, q = torch.tensor([0.5], dtype=torch.float32), torch.tensor([0.25], dtype=torch.float64)
    assert special.kl_div(p, q).dtype == torch.float64
    assert special.kl_div(p.half(), q.bfloat16()).dtype == torch.float32
