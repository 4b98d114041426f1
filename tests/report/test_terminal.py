"""Reports as text: plain for pipes, with pictures for terminals."""

import pytest

from kullback.report.page import Figure, Page, Section, Series, Table, format_cell
from kullback.report.scale import Scale, axis
from kullback.report.terminal import page_to_text
from kullback.report.terminal_figure import draw_figure
from tests.report.pages import HOSTILE, full_page


def test_plain_text_has_no_margin_and_no_escape_sequences():
    text = page_to_text(full_page(HOSTILE))
    assert "\x1b" not in text
    assert "b" * 90 in text
    assert "…" not in text


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_lines_end_at_the_width(width):
    text = page_to_text(full_page(), width=width, figures=True)
    assert max(map(len, text.splitlines())) <= max(width, 30)
    assert "densities token" in text
    assert "b" in text


def test_a_picture_shows_both_curves_with_ticks_and_legend():
    x = [i / 10 for i in range(100)]
    drawn = draw_figure(Figure("both", [Series("p", x, x), Series("q", x, x[::-1], color=1, dashed=True)]), 60, 8).plain
    assert "━━ p   ╺╺ q" in drawn
    assert sum(0x2801 <= ord(char) <= 0x28FF for char in drawn) > 50
    assert "10 │" in drawn


def test_tables_of_the_wrong_shape_are_refused():
    with pytest.raises(ValueError, match="2 cells under 1 columns"):
        Table(["a"], [[1, 2]])
    with pytest.raises(ValueError, match="no column 'b'"):
        Table(["a"], [[1]], bar="b")
    with pytest.raises(ValueError, match="1 x and 2 y"):
        Series("s", [1.0], [1.0, 2.0])


def test_markup_is_text():
    page = Page("[bold]x[/bold] :smile:", [Section("[red]", [Table(["[i]"], [["[/]"]])])])
    text = page_to_text(page)
    assert "[bold]x[/bold] :smile:" in text
    assert "[/]" in text


@pytest.mark.parametrize(
    "values", [[], [0.0], [1e308, -1e308], [5e-324, 1e-300], [float("nan")], [float("inf"), 1.0], [1.0, 1.0 + 1e-15]]
)
@pytest.mark.parametrize("log", [False, True])
def test_axes_of_hard_numbers(values, log):
    scale = axis(values, log=log)
    assert scale.low < scale.high
    assert 1 <= len(scale.ticks()) <= 50
    for value in values:
        place = scale.place(value)
        assert place is None or -0.05 <= place <= 1.05


def test_ticks_are_round():
    assert [text for _, text in Scale(-3.7, 6.1).ticks()] == ["-2", "0", "2", "4", "6"]
    assert format_cell(1 / 3, 3) == "0.333"
