"""Progress is shown on a terminal and nowhere else."""

import io
import sys

import pytest

from kullback._core.progress import follow


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("quiet", [True, False])
def test_silent_away_from_a_terminal(monkeypatch, quiet):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(follow(range(3), "counting", quiet=quiet)) == [0, 1, 2]
    assert stream.getvalue() == ""


def test_shown_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    assert list(follow(iter([1, 2]), "counting", total=2)) == [1, 2]
    assert "counting" in stream.getvalue()


def test_silent_without_rich(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert list(follow([1, 2], "counting")) == [1, 2]
    assert stream.getvalue() == ""
