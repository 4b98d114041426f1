"""Seed 001: the GeeksforGeeks article "Understanding KL Divergence in PyTorch".

Its code blocks are lost and only the printed results remain, so the inputs are a reconstruction:

- 0.0935: log_softmax of (0.8, 0.15, 0.05), although these are probabilities already, against (0.7, 0.2, 0.1): the
  numbers stand in another copy of the page (geeksforgeeks.org, understanding-kl-divergence-in-pytorch);
- 0.3499: Normal(0, 1) against Normal(1, 1.5), a pair of round numbers that prints it;
- the curve: found on a grid of round numbers. P = softmax of (0.5, 0.3, 0.2) moves towards Q = (0.7, 0.2, 0.1) by 100
  steps of Adam with learning rate 0.01 on KL(P || Q). With torch's kl_div the first six losses agree in every printed
  digit, the last three within 3e-8.
"""

import math

import pytest
import torch
from torch.distributions import Distribution, Normal

import kullback as kb
from tests.seeds.rooms import states

STATEMENTS = {
    "S001-01": "KL compares the predicted distribution of a model with the true one of the data",
    "S001-02": "It is the sum over x of P(x) log(P(x) / Q(x)) of two distributions over the same variable",
    "S001-03": "It is not symmetric",
    "S001-04": "It regularises models like VAEs",
    "S001-05": "It compares two distributions in practice",
    "S001-06": "Algorithms minimise it to optimise their models",
    "S001-07": "There are several ways to compute it, each for its scenario",
    "S001-08": "kl_div needs the input in log-probability form and the target in probability form",
    "S001-09": "kl_div prints tensor(0.0935)",
    "S001-10": "Reductions are none, sum, mean and batchmean, and batchmean is the mathematically correct one",
    "S001-11": "KLDivLoss, the class, prints tensor(0.0935) too",
    "S001-12": "KLDivLoss is a loss function: it compares a model's output with a target during training",
    "S001-13": "kl_divergence of two Gaussians prints tensor([0.3499])",
    "S001-14": "The distributions have to be registered",
    "S001-15": "Minimising prints 0.22997523844242096, 0.22365564107894897, ..., 0.004757806658744812",
    "S001-16": "Gradient descent brings P closer to Q",
    "S001-17": "Variational inference minimises the divergence between approximate and true posterior",
    "S001-18": "In VAEs it keeps the learned latent distribution close to a prior",
    "S001-19": "In policy optimisation it keeps the new policy from deviating too much from the previous one",
    "S001-20": "Which distribution is considered the true one changes the result",
    "S001-21": "Small probabilities are a numerical problem; log-probabilities mitigate it",
    "S001-22": "Tensors of different shapes have to be made compatible, by reshaping or padding",
}

FIRST_LOSSES = [
    0.22997523844242096,
    0.22365564107894897,
    0.21740710735321045,
    0.2112329602241516,
    0.20513615012168884,
    0.19912001490592957,
]
LAST_LOSSES = [0.00514531135559082, 0.004947632551193237, 0.004757806658744812]

# The original ran in float32, where sums of terms of size 0.3 are off by a few times 3e-8, and so is the path.
CURVE_TOLERANCE = 2.5e-7


def value(expected, rel=1e-12):
    return pytest.approx(expected, rel=rel, abs=0.0)


def double(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def minimise(loss_of):
    """The reconstructed example: 100 losses, and the distance |P - Q| / 2 before each step."""
    theta = torch.tensor([0.5, 0.3, 0.2], requires_grad=True)
    q = torch.tensor([0.7, 0.2, 0.1])
    optimizer = torch.optim.Adam([theta], lr=0.01)
    losses, distances = [], []
    for _ in range(100):
        optimizer.zero_grad()
        loss = loss_of(theta, q)
        loss.backward()
        losses.append(loss.item())
        distances.append(0.5 * (theta.detach().softmax(-1) - q).abs().sum().item())
        optimizer.step()
    return losses, distances


@states("S001-01", "S001-05", needs=("kl", "Counts"))
def test_the_better_model_is_closer_to_the_data():
    data = kb.Counts(double(40, 35, 15, 10))
    good, bad = kb.Counts(double(38, 36, 16, 10)), kb.Counts(double(10, 15, 35, 40))
    assert 0 < kb.kl(data, good).item() < 0.01 < kb.kl(data, bad).item()


@states("S001-02", "S001-03", "S001-20", needs=("kl", "Probs", "jeffreys"))
def test_definition_and_asymmetry():
    p, q = kb.Probs(double(0.9, 0.1)), kb.Probs(double(0.5, 0.5))
    forward, backward = kb.kl(p, q).item(), kb.kl(q, p).item()
    assert forward == value(0.9 * math.log(1.8) + 0.1 * math.log(0.2))
    assert backward == value(0.5 * math.log(1 / 1.8) + 0.5 * math.log(5))
    assert kb.jeffreys(p, q).item() == value(forward + backward)


@states("S001-07", needs=("kl", "Logits", "Probs", "nn"))
def test_the_ways_agree():
    logits, target = double(0.8, 0.15, 0.05)[None], double(0.7, 0.2, 0.1)[None]
    log_q = logits.log_softmax(-1)
    truth = (target * (target.log() - log_q)).sum().item()
    assert kb.kl(kb.Probs(target), kb.Logits(logits)).item() == value(truth)
    assert kb.nn.functional.kl_div(log_q, target, reduction="batchmean").item() == value(truth)
    assert kb.nn.KLDivLoss(reduction="batchmean")(log_q, target).item() == value(truth)


@states("S001-08", "S001-09", "S001-11", needs=("nn",))
def test_the_printed_value_of_kl_div_and_of_the_loss_class():
    log_q = torch.tensor([[0.8, 0.15, 0.05]]).log_softmax(1)
    p = torch.tensor([[0.7, 0.2, 0.1]])
    assert str(kb.nn.functional.kl_div(log_q, p, reduction="batchmean")) == "tensor(0.0935)"
    assert str(kb.nn.KLDivLoss(reduction="batchmean")(log_q, p)) == "tensor(0.0935)"


@states("S001-09", needs=("kl", "Probs", "Logits"))
def test_the_printed_value_is_that_of_softmaxed_probabilities():
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.8, 0.15, 0.05])
    assert f"{kb.kl(kb.Probs(p), kb.Logits(q)).item():.4f}" == "0.0935"
    # What was probably meant takes q for the probabilities that it is, and is four times smaller.
    truth = 0.7 * math.log(7 / 8) + 0.2 * math.log(4 / 3) + 0.1 * math.log(2)
    assert kb.kl(kb.Probs(p), kb.Probs(q)).item() == value(truth, rel=1e-6)


@states("S001-10", needs=("nn",))
def test_batchmean_is_the_mean_of_the_rows_divergences():
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.rand(4, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    per_row = (p * (p / q).log()).sum(-1)
    kl_div = kb.nn.functional.kl_div
    assert kl_div(q.log(), p, reduction="batchmean").item() == value(per_row.mean().item())
    assert kl_div(q.log(), p, reduction="sum").item() == value(per_row.sum().item())
    torch.testing.assert_close(kl_div(q.log(), p, reduction="none").sum(-1), per_row, rtol=1e-12, atol=0)
    with pytest.warns(kb.KullbackWarning, match="mean"):
        assert kl_div(q.log(), p).item() == value(per_row.mean().item() / 3)


@states("S001-12", needs=("nn",))
def test_the_loss_class_trains_a_model():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(32, 5, generator=generator, dtype=torch.float64)
    target = (inputs @ torch.randn(5, 3, generator=generator, dtype=torch.float64)).softmax(-1)
    weight = torch.zeros(5, 3, dtype=torch.float64, requires_grad=True)
    criterion = kb.nn.KLDivLoss(reduction="batchmean")
    first = criterion((inputs @ weight).log_softmax(-1), target)
    first.backward()
    # d/dlogits of the mean KL is (softmax - target) / rows, and the logits are linear in the weight.
    uniform = torch.full_like(target, 1 / 3)
    torch.testing.assert_close(weight.grad, inputs.T @ (uniform - target) / 32, rtol=1e-10, atol=1e-14)
    with torch.no_grad():
        weight -= 0.5 * weight.grad
    assert 0 < criterion((inputs @ weight).log_softmax(-1), target).item() < first.item()


@states("S001-13", needs=("kl", "kl_divergence"))
def test_the_printed_value_of_two_gaussians():
    p, q = (Normal(torch.tensor([mean]), torch.tensor([std])) for mean, std in ((0.0, 1.0), (1.0, 1.5)))
    assert str(kb.kl_divergence(p, q)) == "tensor([0.3499])"
    assert torch.equal(kb.kl(p, q), kb.kl_divergence(p, q))


@states("S001-14", needs=("kl_divergence", "register_kl"))
def test_pairs_have_to_be_registered():
    class Point(Distribution):
        arg_constraints = {}  # noqa: RUF012 - torch's protocol

    point = Point(validate_args=False)
    with pytest.raises(NotImplementedError, match="Point"):
        kb.kl_divergence(point, point)
    kb.register_kl(Point, Point)(lambda p, q: torch.tensor(0.25))
    assert kb.kl_divergence(point, point).item() == 0.25


@states("S001-06", "S001-15", "S001-16", needs=("kl", "Logits", "Probs"))
def test_the_printed_minimisation_curve():
    losses, distances = minimise(lambda theta, q: kb.kl(kb.Logits(theta), kb.Probs(q)))
    assert losses[:6] == pytest.approx(FIRST_LOSSES, rel=0, abs=CURVE_TOLERANCE)
    assert losses[-3:] == pytest.approx(LAST_LOSSES, rel=0, abs=CURVE_TOLERANCE)
    assert losses == sorted(losses, reverse=True)
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.2 * distances[0]


@states("S001-15", needs=("nn",))
def test_the_printed_minimisation_curve_by_the_drop_in():
    losses, _ = minimise(lambda theta, q: kb.nn.functional.kl_div(q.log(), theta.softmax(-1), reduction="sum"))
    assert losses[:6] == pytest.approx(FIRST_LOSSES, rel=0, abs=CURVE_TOLERANCE)
    assert losses[-3:] == pytest.approx(LAST_LOSSES, rel=0, abs=CURVE_TOLERANCE)


@states("S001-17", needs=("kl_divergence",))
def test_the_evidence_is_the_bound_plus_the_divergence_to_the_posterior():
    # z ~ N(0, 1), x | z ~ N(z, s): posterior N(x / (1 + s^2), s / sqrt(1 + s^2)), evidence N(x; 0, sqrt(1 + s^2)).
    x, s, mean, std = 1.3, 0.7, -0.4, 1.9
    q, prior = Normal(double(mean), double(std)), Normal(double(0.0), double(1.0))
    posterior = Normal(double(x / (1 + s**2)), double(s / math.sqrt(1 + s**2)))
    expected_log_likelihood = -0.5 * math.log(2 * math.pi * s**2) - ((x - mean) ** 2 + std**2) / (2 * s**2)
    elbo = expected_log_likelihood - kb.kl_divergence(q, prior).item()
    log_evidence = -0.5 * math.log(2 * math.pi * (1 + s**2)) - x**2 / (2 * (1 + s**2))
    assert log_evidence - elbo == value(kb.kl_divergence(q, posterior).item(), rel=1e-11)
    assert kb.kl_divergence(posterior, posterior).item() == 0.0


@states("S001-04", "S001-18", needs=("losses.gaussian_kl",))
def test_the_vae_regulariser_is_the_closed_form_and_pulls_towards_the_prior():
    generator = torch.Generator().manual_seed(0)
    mean, logvar = (torch.randn(6, 4, generator=generator, dtype=torch.float64).requires_grad_() for _ in range(2))
    loss = kb.losses.gaussian_kl(mean, logvar=logvar).sum()
    closed_form = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum()
    assert loss.item() == value(closed_form.item())
    loss.backward()
    torch.testing.assert_close(mean.grad, mean.detach(), rtol=1e-12, atol=0)
    torch.testing.assert_close(logvar.grad, (0.5 * torch.expm1(logvar)).detach(), rtol=1e-12, atol=0)


@states("S001-19", needs=("kl", "Logits"))
def test_a_policy_step_of_a_given_divergence():
    old, direction = double(0.3, -1.2, 0.8, 0.1), double(1.0, -0.5, 0.25, 2.0)
    new = old.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kb.kl(kb.Logits(old), kb.Logits(new)), new, create_graph=True)
    (fisher_times_direction,) = torch.autograd.grad(gradient @ direction, new)
    # At equality the Hessian of the KL is the Fisher matrix diag(p) - p p^T.
    p = old.softmax(-1)
    torch.testing.assert_close(fisher_times_direction, p * direction - p * (p @ direction), rtol=1e-10, atol=1e-14)
    limit = 1e-4
    step = (2 * limit / (direction @ fisher_times_direction)).sqrt() * direction
    reached = kb.kl(kb.Logits(old), kb.Logits(old + step)).item()
    assert reached == value(limit, rel=0.02)
    assert kb.kl(kb.Logits(old), kb.Logits(old + step / 2)).item() < limit < 4 * reached


@states("S001-21", needs=("kl", "LogProbs"))
def test_log_probabilities_reach_where_probabilities_underflow():
    # exp(-400) is 0 in float32; the KL of two near-certain rows is exp(-400) (e - 2) in float64's range.
    log_p, log_q = double(-400.0, 0.0), double(-399.0, 0.0)
    assert kb.kl(kb.LogProbs(log_p), kb.LogProbs(log_q)).item() == value(math.exp(-400) * (math.e - 2), rel=1e-10)
    steep, flat = torch.tensor([-400.0, 0.0]), torch.tensor([0.0, -400.0])
    assert kb.kl(kb.LogProbs(steep), kb.LogProbs(flat)).item() == 400.0


@states("S001-22", needs=("kl", "Probs", "align"))
def test_different_class_counts_are_refused_and_padding_mends_them():
    short, long = kb.Probs(double(0.5, 0.5)), kb.Probs(double(0.25, 0.25, 0.5))
    with pytest.raises(ValueError, match="align"):
        kb.kl(short, long)
    assert kb.kl(*kb.align(short, long, how="pad")).item() == value(math.log(2))
    assert kb.kl(*kb.align(long, short, how="pad")).item() == math.inf


@states("S001-22", needs=("kl", "Logits", "align"))
def test_truncating_drops_classes_and_renormalises():
    student, teacher = double(0.1, 0.7, -0.3), double(0.2, -0.4, 0.9, 5.0)
    truncated = kb.kl(*kb.align(kb.Logits(teacher), kb.Logits(student), how="truncate"))
    log_p, log_q = teacher[:3].log_softmax(-1), student.log_softmax(-1)
    assert truncated.item() == value((log_p.exp() * (log_p - log_q)).sum().item())


@states("S001-22", needs=("kl", "Probs"))
def test_one_class_is_not_broadcast_against_many():
    with pytest.raises(ValueError, match="class"):
        kb.kl(kb.Probs(double(1.0)), kb.Probs(double(0.25, 0.25, 0.5)))


@states("S001-22", needs=("kl", "Logits"))
def test_batch_shapes_broadcast_and_padded_rows_are_masked():
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 1, 4, generator=generator, dtype=torch.float64)
    b = torch.randn(5, 4, generator=generator, dtype=torch.float64)
    everything = kb.kl(kb.Logits(a), kb.Logits(b))
    log_p, log_q = a.log_softmax(-1), b.log_softmax(-1)
    torch.testing.assert_close(everything, (log_p.exp() * (log_p - log_q)).sum(-1), rtol=1e-12, atol=0)
    padded = torch.cat([b, torch.full((2, 4), math.nan, dtype=torch.float64)])
    mask = torch.arange(7) < 5
    masked = kb.kl(kb.Logits(a), kb.Logits(padded), mask=mask)
    assert torch.equal(masked[:, 5:], torch.zeros(3, 2, dtype=torch.float64))
    torch.testing.assert_close(masked[:, :5], everything, rtol=1e-14, atol=0)
