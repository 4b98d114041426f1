"""HTML reports: self-contained, escaped, and readable in a browser at any width, light and dark."""

import base64
import hashlib
import re

import pytest

from kullback.report.html import page_to_fragment, page_to_html
from tests.report.browser import CHROMIUM, measure
from tests.report.pages import HOSTILE, full_page


def test_a_document_fetches_nothing_and_allows_nothing():
    document = page_to_html(full_page())
    assert not re.search(r"https?://|src=|href=|url\(|@import|<script|javascript:|\son\w+=|style=", document)
    style = re.search(r"<style>(.*?)</style>", document, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in document


@pytest.mark.parametrize("render", [page_to_html, page_to_fragment])
def test_hostile_text_is_escaped_everywhere(render):
    document = render(full_page(HOSTILE))
    assert "<script" not in document
    assert "\x1b" not in document
    assert document.count("&lt;script&gt;") >= 10


def test_a_fragment_styles_nothing_else():
    style = re.search(r"<style>(.*?)</style>", page_to_fragment(full_page()), re.DOTALL)[1]
    rules = re.sub(r"/\*.*?\*/|@media[^{]*\{", "", style, flags=re.DOTALL)
    for selectors in re.findall(r"([^{}]+)\{", rules):
        assert all(".kullback" in selector for selector in selectors.split(",")), selectors


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_in_a_browser(tmp_path, dark):
    views, console = measure(page_to_html(full_page(HOSTILE)), tmp_path, dark=dark)
    assert console == []
    for view in views:
        assert view["resources"] == [], "something was fetched"
        assert view["scripts"] == 0
        assert view["scrollWidth"] <= view["width"], "the page scrolls sideways"
        assert view["smallest"] > 9, "text of figures is too small to read"
        paper, ink = (sum(map(int, re.findall(r"\d+", view[key])[:3])) / 765 for key in ("background", "color"))
        assert (paper < 0.2 and ink > 0.8) if dark else (paper > 0.9 and ink < 0.2)
        assert "<script>alert(1)</script>" in view["text"], "hostile text is shown as text"
