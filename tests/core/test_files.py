"""Files that are never half written."""

import os
import signal
import subprocess
import sys

import pytest

from kullback._core.files import write_whole


def test_a_killed_process_leaves_the_file_that_was_there(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    program = (
        "import os, signal, sys; from pathlib import Path; from kullback._core.files import write_whole\n"
        "def half(beside): beside.write_text('half'); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_whole(Path(sys.argv[1]), half)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False, timeout=100)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"


def test_a_stop_while_writing_leaves_nothing(tmp_path):
    def stopped(beside):
        beside.write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "report.html", stopped)
    assert not list(tmp_path.iterdir())


def test_links_modes_and_devices_stay_what_they_are(tmp_path):
    path, link = tmp_path / "report.html", tmp_path / "link.html"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole(link, lambda beside: beside.write_text("new"))
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, lambda beside: beside.write_text("through"))
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert sorted(tmp_path.iterdir()) == [link, pipe, path]
