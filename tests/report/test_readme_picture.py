"""README's first picture is what its main command prints."""

import re
import runpy
from html import unescape
from pathlib import Path

ROOT = Path(__file__).parents[2]


def words(svg: str) -> list[str]:
    """The words of a picture; numbers may differ in their last digits between processors, and dots with them."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    return re.findall(r"[A-Za-z]{2,}", unescape(" ".join(texts)))


def test_the_picture_is_current_and_shows_the_main_command(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    script = runpy.run_path(str(ROOT / "docs" / "hooks" / "terminal_picture.py"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    p, q = script["COMMAND"]
    assert f'kullback explain "{p}" "{q}"' in readme
    for name, svg in script["pictures"]().items():
        assert f"docs/images/{name}" in readme.partition("```")[0], "the picture comes before the first command"
        kept = (script["IMAGES"] / name).read_text(encoding="utf-8")
        assert words(kept) == words(svg), "python docs/hooks/terminal_picture.py draws it again"
