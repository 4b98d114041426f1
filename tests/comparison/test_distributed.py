"""torchrun: the same digits for 1, 2 and 4 processes, and no report when one dies."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest
import torch


def start(arguments, rank, size, port, program=("-m", "kullback", "compare")):
    environment = {
        **os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *program, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    base = generator.normal(size=(7, 20, 30)).astype(np.float32)
    names = [str(tmp_path / name) for name in ("a.npy", "b.npy", "c.npy")]
    for name, noise in zip(names, (0.0, 0.1, 0.2), strict=True):
        np.save(name, base + noise * generator.normal(size=base.shape).astype(np.float32))
    return names


def test_parts_of_the_rows_are_whole_blocks_and_cover_all():
    from kullback import Logits
    from kullback.comparison.compare import prepare
    from kullback.comparison.distributed import share_rows

    rows = Logits(torch.zeros(7, 20, 3))
    for size in (1, 2, 4, 9):
        parts = []
        for rank in range(size):
            job = prepare(rows, rows)
            share_rows(job, rank, size)
            parts.append((job.next_row, job.stop))
        assert parts[0][0] == 0
        assert parts[-1][1] == 140
        assert all(a[1] == b[0] and b[0] % 20 == 0 for a, b in itertools.pairwise(parts))


def run(arguments, size):
    port = free_port()
    ranks = [start(arguments, rank, size, port) for rank in range(size)]
    outputs = [rank.communicate(timeout=200) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * size, outputs
    assert all(not out for out, _ in outputs[1:])
    return outputs[0][0]


@pytest.mark.slow
def test_four_processes_give_the_digits_of_one(files):
    assert run([*files, "--as", "logits", "--json"], 4) == run([*files, "--as", "logits", "--json"], 1)


@pytest.mark.slow
def test_two_processes_give_the_digits_of_one(files):
    assert run([*files, "--as", "logits", "--json"], 2) == run([*files, "--as", "logits", "--json"], 1)


@pytest.mark.slow
def test_a_process_that_dies_leaves_no_report(files, tmp_path):
    report, port = tmp_path / "report.html", free_port()
    arguments = [*files, "--as", "logits", "--html", str(report)]
    first = start(arguments, 0, 2, port)
    # The second one meets the first and dies before it has anything to say.
    dying = (
        "import os, sys; from kullback.comparison import distributed as d; d.merge_ranks = lambda *a: os._exit(9); "
        "from kullback.cli.main import main; main(['compare', *sys.argv[1:]])"
    )
    environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    second = subprocess.Popen([sys.executable, "-c", dying, *arguments], env=environment)
    _, errors = first.communicate(timeout=200)
    second.wait(timeout=100)
    assert first.returncode != 0
    assert "died" in errors
    assert not report.exists()


@pytest.mark.slow
def test_ctrl_c_prints_what_all_processes_know(files, tmp_path):
    port = free_port()
    slow = (
        "import sys, time; from kullback.comparison import compare as c; take = c.Job.take; c._CHUNK_BYTES = 3000\n"
        "def slowly(job, *part): print(part[0], file=sys.stderr, flush=True); time.sleep(0.3); take(job, *part)\n"
        "c.Job.take = slowly\n"
        "from kullback.cli.main import main; sys.exit(main(['compare', *sys.argv[1:]]))"
    )
    arguments = [*files, "--as", "logits", "--json", "--resume", str(tmp_path / "state")]
    ranks = [start(arguments, rank, 2, port, program=["-c", slow]) for rank in range(2)]
    for rank in ranks:
        while not rank.stderr.readline().strip().isdigit():  # until it has begun
            assert rank.poll() is None
        rank.send_signal(signal.SIGINT)
    outputs = [rank.communicate(timeout=200) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [130, 0], outputs
    record = json.loads(outputs[0][0])
    assert not record["complete"]
    assert 0 < record["others"][0]["rows"] < 140
    finished = run(arguments, 2)
    assert finished == run([*files, "--as", "logits", "--json"], 1)
