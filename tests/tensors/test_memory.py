"""Promise 6: beyond the inputs and the gradients, memory is one number per row and the temporaries of one block."""

import json
import os
import subprocess
import sys

import pytest

# 8 more rows of 131072 float32 are 4 MiB a tensor. The temporaries of a block are there in both runs.
SCRIPT = """
import json, resource, sys
import torch
from kullback import Logits, kl
torch.set_num_threads(1)
second = sys.argv[1] == "second"
def peak(rows):
    a, b = (torch.empty(rows, 131072).normal_().requires_grad_() for _ in range(2))
    weight = torch.ones(rows)
    loss = kl(Logits(a), Logits(b), weight=weight, mask=weight > 0, reduction="mean")
    grads = torch.autograd.grad(loss, (a, b), create_graph=second)
    if second:
        torch.autograd.grad(grads[1], b, a.detach())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
few, many = peak(4), peak(12)
print(json.dumps(many - few))
"""
# Alive at the peak: a, b and their gradients; then also the two results of the second derivative.


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak resident size as Linux reports it")
@pytest.mark.parametrize(("order", "tensors"), [("first", 4), ("second", 6)])
@pytest.mark.sample(4)
def test_more_rows_cost_their_inputs_and_gradients_only(order, tensors, implementation):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, order]
    # A fixed threshold of 1 MiB makes glibc return every freed tensor, so that the peak is what was alive at once.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "1048576"}
    environment |= {"KULLBACK_NATIVE": "0"} if implementation == "reference" else {}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert json.loads(done.stdout) < tensors * 4 + 2
