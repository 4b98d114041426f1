"""Figures as matplotlib plots, and JSON for machines."""

import json
import sys

import pytest

from kullback import InputValueError, UnavailableError
from kullback.report.machine import to_json
from kullback.report.plots import draw_figures, save_figures
from tests.report.pages import HOSTILE, full_page


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("b.svg", b"<?xml"), ("c.PDF", b"%PDF")])
def test_files_of_each_format(tmp_path, name, start):
    save_figures(full_page(HOSTILE).figures(), tmp_path / name, title=HOSTILE)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(InputValueError, match=r"\.png, \.svg"):
        save_figures(full_page().figures(), tmp_path / "a.exe")


def test_one_pair_of_axes_for_each_figure():
    figures = full_page().figures()
    assert len(draw_figures(figures, interactive=False).axes) == len(figures)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnavailableError, match=r"kullback\[plot\]"):
        draw_figures(full_page().figures())


def test_json_is_strict_and_ascii():
    text = to_json({"a": [float("inf"), float("nan"), 1.0], "‖": (True, None)})
    assert text.isascii()
    assert json.loads(text) == {"a": ["inf", "nan", 1.0], "‖": [True, None]}
