"""What the ranks of `test_parallel.py` run: python -m tests.parallel.ranks CHECK RANK RANKS FOLDER."""

import datetime
import math
import os
import sys
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

import kullback as kb
from kullback import Logits, Probs, parallel
from kullback.losses import distillation, linear_distillation, topk_distillation, topk_teacher
from kullback.parallel.parity import cases, shard_sizes

CLASSES = 23
FUNCTIONS = [
    ("kl", ()),
    ("js", ()),
    ("js_distance", ()),
    ("jeffreys", ()),
    ("skew_kl", (0.1,)),
    ("scaled_js", (0.3,)),
    ("scaled_js", (0.0,)),
    ("total_variation", ()),
    ("hellinger", ()),
    ("chi2", ()),
]


def join(rank, ranks, folder):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=300),
    )
    sizes = shard_sizes(CLASSES, ranks)
    return slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))


def report(rank, folder, work):
    """Write what went wrong, or nothing."""
    try:
        work()
        text = ""
    except BaseException:  # noqa: BLE001 - the parent reports it
        text = traceback.format_exc()
    Path(folder, f"result-{rank}").write_text(text)


def quick(rank, ranks, folder):
    """Everything once, and last a rank that dies: the others notice when the connection closes."""
    place = join(rank, ranks, folder)

    def work():
        values(rank, place, FUNCTIONS[:1], cases(CLASSES))
        values(rank, place, FUNCTIONS[1:], {name: cases(CLASSES)[name] for name in ("nearly equal", "large logits")})
        options(place)
        losses(place)
        labelled(place)
        sparse(place)
        heads(rank, place)
        refusals(rank, place)
        p, q = (t[:, place] for t in cases(CLASSES)["ordinary"])
        if rank == 0:
            return
        refused(lambda: parallel.kl(Logits(p), Logits(q)), "does not answer")

    report(rank, folder, work)
    os._exit(0)


def full(rank, ranks, folder):
    place = join(rank, ranks, folder)

    def work():
        values(rank, place, FUNCTIONS, cases(CLASSES))
        losses(place)
        labelled(place)
        sparse(place)
        heads(rank, place)
        refusals(rank, place)
        distributed_tensors(ranks)
        distributed_losses(ranks)
        sharded_parameters(rank, ranks)

    report(rank, folder, work)
    dist.destroy_process_group()


def compare(local, whole, about, rtol=2e-6):
    (rows, tensors), (expected, everything, place) = local, whole
    same = (rows == expected) | ((rows - expected).abs() <= rtol * expected.abs())
    assert same.all(), (about, rows, expected)
    # Rows are weighed differently, so that a gradient of the wrong row shows.
    factors = torch.arange(1.0, rows.numel() + 1).reshape(rows.shape)
    gradients = torch.autograd.grad((rows * factors).sum(), tensors)
    wanted = torch.autograd.grad((expected * factors).sum(), everything)
    for found, other, logits in zip(gradients, wanted, everything, strict=True):
        assert found.dtype == other.dtype
        allowed = 2 * rtol * other.abs().amax(-1, keepdim=True) + 1e-14 * moved_probability(logits.detach())
        near = (found - other[..., place]).abs() <= allowed[..., place]
        # A value beyond the largest number is infinite here, with zero gradient; one process may overflow earlier.
        assert (near | (rows == math.inf).unsqueeze(-1)).all(), (about, found, other[..., place])


def moved_probability(logits):
    """Of each class, or of all the others where it is the heaviest: what a softmax can move."""
    probs = logits.double().softmax(-1)
    heaviest = probs == probs.amax(-1, keepdim=True)
    return torch.where(heaviest, torch.where(heaviest, 0.0, probs).sum(-1, keepdim=True), probs)


def values(rank, place, functions, inputs):
    for name, parameters in functions:
        for title, (p, q) in inputs.items():
            tensors = [t[:, place].clone().requires_grad_() for t in (p, q)]
            whole = [t.clone().requires_grad_() for t in (p, q)]
            rows = getattr(parallel, name)(Logits(tensors[0]), Logits(tensors[1]), *parameters)
            expected = getattr(kb, name)(Logits(whole[0]), Logits(whole[1]), *parameters)
            compare((rows, tensors), (expected, whole, place), (rank, name, title))


def options(place):
    p, q = cases(CLASSES)["ordinary"]
    mask = torch.tensor([True, False, True, True])
    weight = torch.tensor([1.0, 2.0, 0.0, 3.0])
    bad = p.clone()
    bad[1] = math.nan
    found = parallel.kl(Logits(bad[:, place]), Logits(q[:, place]), mask=mask, weight=weight, reduction="mean", base=2)
    expected = kb.kl(Logits(p), Logits(q), mask=mask, weight=weight, reduction="mean", base=2)
    assert torch.allclose(found, expected, rtol=1e-5)
    probs = p.softmax(-1), q.softmax(-1)
    found = parallel.kl(Probs(probs[0][:, place]), Probs(probs[1][:, place]))
    assert torch.allclose(found, kb.kl(Probs(probs[0]), Probs(probs[1])), rtol=1e-5)
    # q excludes a class of p on one rank: infinite on every rank, with zero gradient.
    hole = q.clone()
    hole[0, 0] = -math.inf
    local = hole[:, place].clone().requires_grad_()
    rows = parallel.kl(Logits(p[:, place]), Logits(local))
    assert rows[0] == math.inf
    assert rows[1:].isfinite().all()
    (gradient,) = torch.autograd.grad(rows[1:].sum() + rows[0], local)
    assert (gradient[0] == 0).all()
    assert gradient.isfinite().all()


def losses(place):
    student, teacher = cases(CLASSES)["ordinary"]
    for options in (
        {"divergence": "forward"},
        {"divergence": "reverse", "temperature": 3.0, "t_squared": True},
        {"divergence": "gkd", "beta": 0.3},
        {"divergence": "alpha", "alpha": 0.3},
        {"divergence": "skew_reverse", "mask": torch.tensor([True, True, False, True])},
    ):
        local, whole = student[:, place].clone().requires_grad_(), student.clone().requires_grad_()
        loss = distillation(local, teacher[:, place], group=dist.group.WORLD, **options)
        expected = distillation(whole, teacher, **options)
        assert torch.allclose(loss, expected, rtol=1e-5), options
        (gradient,), (wanted,) = torch.autograd.grad(loss, local), torch.autograd.grad(expected, whole)
        assert torch.allclose(gradient, wanted[:, place], rtol=1e-4, atol=1e-7), options


def distributed_tensors(ranks):
    """Logits as a DTensor that is sharded over its classes, by torch's own rule."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (ranks,))
    p, q = cases(CLASSES)["ordinary"]
    whole = q.clone().requires_grad_()
    sharded_q = distribute_tensor(q, mesh, [Shard(1)]).requires_grad_()
    rows = parallel.kl(Logits(distribute_tensor(p, mesh, [Shard(1)])), Logits(sharded_q))
    expected = kb.kl(Logits(p), Logits(whole))
    assert torch.allclose(rows, expected, rtol=1e-5)
    rows.sum().backward()
    expected.sum().backward()
    assert isinstance(sharded_q.grad, DTensor)
    assert torch.allclose(sharded_q.grad.full_tensor(), whole.grad, rtol=1e-4, atol=1e-6)
    by_rows = distribute_tensor(p, mesh, [Shard(0)])
    refused(lambda: parallel.kl(Logits(by_rows), Logits(by_rows)), "sharded over one dimension")


def distributed_losses(ranks):
    """Logits and head weights as DTensors bring their group along; one rank may have no class at all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (ranks,))
    student, teacher = (t[:, : ranks - 1] for t in cases(CLASSES)["ordinary"])
    options = {"temperature": 2.0, "labels": LABELS.clamp(max=ranks - 2)}
    whole = student.clone().requires_grad_()
    expected = distillation(whole, teacher, **options)
    local = distribute_tensor(student, mesh, [Shard(1)]).requires_grad_()
    found = distillation(local, distribute_tensor(teacher, mesh, [Shard(1)]), **options)
    assert torch.allclose(found, expected, rtol=1e-5)
    expected.backward()
    found.backward()
    assert isinstance(local.grad, DTensor)
    assert torch.allclose(local.grad.full_tensor(), whole.grad, rtol=1e-4, atol=1e-6)

    generator = torch.Generator().manual_seed(4)
    hidden, other = torch.randn(2, 4, 6, generator=generator)
    weight, bias = torch.randn(CLASSES, 6, generator=generator), torch.randn(CLASSES, generator=generator)
    whole = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
    expected = linear_distillation(whole[0], whole[1], other, weight * 0.9, student_bias=whole[2])
    shards = [distribute_tensor(t, mesh, [Shard(0)]).requires_grad_() for t in (weight, bias)]
    replica = distribute_tensor(hidden, mesh, [Replicate()]).requires_grad_()
    teacher_weight = distribute_tensor(weight * 0.9, mesh, [Shard(0)])
    found = linear_distillation(replica, shards[0], other, teacher_weight, student_bias=shards[1])
    assert torch.allclose(found, expected, rtol=1e-5)
    expected.backward()
    found.backward()
    for tensor, right in zip((replica, *shards), whole, strict=True):
        assert torch.allclose(tensor.grad.full_tensor(), right.grad, rtol=1e-4, atol=1e-6)


class Student(torch.nn.Module):
    """A body and a head; the loss is part of the forward pass, so that FSDP has gathered the weight of the head."""

    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(6, 6), torch.nn.Linear(6, CLASSES, bias=False)

    def forward(self, x, teacher, mask, denominator, from_logits):
        hidden = torch.tanh(self.body(x))
        options = {"mask": mask, "denominator": denominator}
        if from_logits:
            return distillation(self.head(hidden), torch.nn.functional.linear(x, teacher), **options)
        return linear_distillation(hidden, self.head.weight, x, teacher, **options)


def sharded_parameters(rank, ranks):
    """FSDP2: every rank has other tokens, and not as many; the gradients are those of one process with all of them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    generator = torch.Generator().manual_seed(5)
    x, teacher = torch.randn(ranks, 4, 6, generator=generator), torch.randn(CLASSES, 6, generator=generator)
    mask = torch.arange(4) <= torch.arange(ranks).unsqueeze(-1)
    for from_logits in (True, False):
        torch.manual_seed(6)
        alone = Student()
        alone(x, teacher, mask, mask.sum(), from_logits).backward()
        torch.manual_seed(6)
        model = Student()
        mesh = init_device_mesh("cpu", (ranks,))
        fully_shard(model.body, mesh=mesh)
        fully_shard(model, mesh=mesh)
        # FSDP averages gradients over the ranks: the denominator is the mean number of tokens of a rank.
        model(x[rank], teacher, mask[rank], mask.sum() / ranks, from_logits).backward()
        for found, right in zip(model.parameters(), alone.parameters(), strict=True):
            assert torch.allclose(found.grad.full_tensor(), right.grad, rtol=1e-4, atol=1e-6), from_logits
    refused(
        lambda: linear_distillation(x[rank], model.head.weight, x[rank], model.head.weight), "different hidden states"
    )


LABELS = torch.tensor([2, 20, -100, 7])


def labelled(place):
    """The mix with cross-entropy; one class is certain, one label lies on each rank."""
    student, teacher = cases(CLASSES)["ordinary"]
    student = torch.where(torch.arange(CLASSES) == 20, student + 40.0, student)
    for options in ({}, {"temperature": 2.0, "t_squared": True, "mask": torch.tensor([True, True, True, False])}):
        local, whole = student[:, place].clone().requires_grad_(), student.clone().requires_grad_()
        rows = distillation(
            local, teacher[:, place], labels=LABELS, group=dist.group.WORLD, reduction="none", **options
        )
        expected = distillation(whole, teacher, labels=LABELS, reduction="none", **options)
        agree((rows, local), (expected, whole), place, options)
    wrong = LABELS.clone()
    wrong[0] = CLASSES
    refused(
        lambda: distillation(local, teacher[:, place], labels=wrong, group=dist.group.WORLD), "not one of the classes"
    )


def sparse(place):
    student, teacher = cases(CLASSES)["ordinary"]
    stored = topk_teacher(teacher, 5)
    ids = stored.ids.clone()
    ids[0, 4] = -1
    for options in ({}, {"tail": "renormalize"}, {"tail": "drop"}, {"divergence": "js", "temperature": 2.0}):
        local, whole = student[:, place].clone().requires_grad_(), student.clone().requires_grad_()
        rows = topk_distillation(local, stored.log_probs, ids, reduction="none", group=dist.group.WORLD, **options)
        expected = topk_distillation(whole, stored.log_probs, ids, reduction="none", **options)
        agree((rows, local), (expected, whole), place, options)


def heads(rank, place):
    generator = torch.Generator().manual_seed(3)
    hidden, other = torch.randn(2, 4, 6, generator=generator)
    weight, bias = torch.randn(CLASSES, 6, generator=generator), torch.randn(CLASSES, generator=generator)
    for options in (
        {},
        {"reduction": "none", "divergence": "js"},
        {"labels": LABELS, "chunk_tokens": 3, "logit_softcap": 5.0},
    ):
        whole = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
        local = [t.clone().requires_grad_() for t in (hidden, weight[place], bias[place])]
        expected = linear_distillation(whole[0], whole[1], other, weight * 0.9, student_bias=whole[2], **options)
        found = linear_distillation(
            local[0], local[1], other, weight[place] * 0.9, student_bias=local[2], group=dist.group.WORLD, **options
        )
        assert torch.allclose(found, expected, rtol=1e-5), options
        # The loss is on one rank; the others multiply it by zero.
        gradients = torch.autograd.grad(found.sum() * (rank == 0), local)
        wanted = torch.autograd.grad(expected.sum(), whole)
        for gradient, right in zip(gradients, (wanted[0], wanted[1][place], wanted[2][place]), strict=True):
            assert torch.allclose(gradient, right, rtol=1e-4, atol=1e-6), (options, gradient, right)


def agree(local, whole, place, about):
    assert local[0].dtype == whole[0].dtype
    assert torch.allclose(local[0], whole[0], rtol=1e-5, atol=0), (about, local[0], whole[0])
    (gradient,), (wanted,) = (torch.autograd.grad(rows.sum(), logits) for rows, logits in (local, whole))
    assert torch.allclose(gradient, wanted[:, place], rtol=1e-4, atol=1e-6), (about, gradient, wanted[:, place])


def refusals(rank, place):
    p, q = (t[:, place] for t in cases(CLASSES)["ordinary"])
    rows = 3 if rank == 0 else 4
    refused(lambda: parallel.kl(Logits(p[:rows]), Logits(q[:rows])), "different calls")
    refused(lambda: parallel.kl(Logits(p), Logits(q.double() if rank == 0 else q)), "different calls")
    refused(lambda: (parallel.kl if rank == 0 else parallel.js)(Logits(p), Logits(q)), "different calls")
    refused(lambda: parallel.kl(p if rank == 0 else Logits(p), Logits(q)), "bare tensor", "Another rank")
    refused(lambda: parallel.kl(Logits(p), Logits(q[:2] if rank == 0 else q)), "different shapes", "Another rank")
    broken = p.clone()
    broken[1, 0] = math.nan if rank == 0 else 0.0
    refused(lambda: parallel.kl(Logits(broken), Logits(q)), "Row 1 of p")
    empty = p.clone()
    empty[2] = -math.inf
    refused(lambda: parallel.kl(Logits(empty), Logits(q)), "Row 2 of p")
    assert parallel.kl(Logits(p), Logits(p)).tolist() == [0.0] * 4
    refused_losses(rank, p, q)


def refused_losses(rank, p, q):
    """What only one rank can see, or what differs between ranks, is an error on every rank, at once."""
    group = dist.group.WORLD
    short = LABELS[:3] if rank == 0 else LABELS
    refused(lambda: distillation(p, q, labels=short, group=group), "one label per token", "Another rank")
    refused(lambda: distillation(p, q, temperature=1.0 + rank, group=group), "different calls")
    refused(lambda: distillation(p, q, temperature=0.0 if rank else 1.0, group=group), "above 0", "Another rank")
    outside = torch.where(LABELS == 7, 7 + CLASSES * (rank == 0), LABELS)
    refused(lambda: distillation(p, q, labels=outside, group=group), "not one of the classes", "Another rank")
    weight, tokens = torch.ones(p.shape[1], 3), torch.ones(300 if rank == 0 else 600, 3)
    refused(lambda: linear_distillation(tokens, weight, tokens, weight, group=group), "different calls")
    other = torch.full((5, 3), 1.0 + rank)
    refused(lambda: linear_distillation(other, weight, other, weight, group=group), "different hidden states")
    ids, log_probs = torch.zeros(4, 1, dtype=torch.long), torch.full((4, 1), -0.5)
    ids = ids[:3] if rank == 0 else ids
    refused(lambda: topk_distillation(p, log_probs, ids, group=group), "same tokens", "Another rank")


def refused(call, *texts):
    try:
        call()
    except kb.KullbackError as error:
        assert any(text in str(error) for text in texts), error  # noqa: PT017 - not inside pytest here
    else:
        raise AssertionError(f"not refused: {texts}")


def sharded(p, q, group):
    return parallel.kl(Logits(p), Logits(q), group=group)


def whole(p, q):
    return kb.kl(Logits(p), Logits(q))


def too_large(p, q, group):
    """The usual mistake: gradients as many times too large as there are ranks."""
    rows = sharded(p, q, group)
    return dist.get_world_size() * (rows - rows.detach()) + rows.detach()


if __name__ == "__main__":
    {"quick": quick, "full": full}[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
