"""torch's own kl_div test cases as data: the shapes, reductions and target kinds of its operator and module tests."""

import itertools
import warnings

import torch
import torch.nn.functional as torch_functional

REDUCTIONS = ("none", "mean", "batchmean", "sum")

# (shape, whether the rows are normalised): operator samples are softmax outputs, module samples plain uniform numbers.
SHAPES = (((2,), True), ((2, 3), True), ((10, 10), False), ((), False), ((5,), False), ((2, 3, 4), True))

# (input shape, target shape) that torch broadcasts.
BROADCASTS = (((4, 7), (7,)), ((7,), (4, 7)), ((4, 7), (4, 1)), ((1, 7), (4, 7)), ((4, 1, 7), (4, 7)), ((7,), (7, 1)))
BROADCASTS += (((4, 7), ()), ((), (3,)), ((3, 0), (1, 0)), ((0, 5), (5,)))

CASES = [
    (shape, shape, normalised, reduction, log_target)
    for (shape, normalised), reduction, log_target in itertools.product(SHAPES, REDUCTIONS, (False, True))
]
CASES += [
    (left, right, False, reduction, log_target)
    for (left, right), reduction, log_target in itertools.product(BROADCASTS, REDUCTIONS, (False, True))
]


def case_id(case):
    left, right, normalised, reduction, log_target = case
    return f"{left}-{right}-{'softmax' if normalised else 'uniform'}-{reduction}-{'log' if log_target else 'prob'}"


def make(case, dtype=torch.float64, seed=0):
    """The two tensors of a case."""
    left, right, normalised, _, log_target = case
    generator = torch.Generator().manual_seed(seed)

    def log_probs(shape):
        values = torch.rand(shape, dtype=torch.float64, generator=generator) * 0.98 + 0.01
        return (torch.log_softmax(9 * values, -1) if normalised else values.log()).to(dtype)

    log_q, log_p = log_probs(left), log_probs(right)
    return log_q, (log_p if log_target else log_p.exp())


def torchs_kl_div(*args, **options):
    """torch's function without its advice about reduction="mean"."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch_functional.kl_div(*args, **options)
