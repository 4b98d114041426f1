"""docs/architecture.md draws the rooms as the import rules have them."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_drawing_is_that_of_the_import_rules() -> None:
    tomllib = pytest.importorskip("tomllib")  # newer than the oldest Python supported
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [rooms] = [contract for contract in contracts if contract["id"] == "rooms"]
    layers = [line.replace("(", "").replace(")", "") for line in rooms["layers"]]
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page.split("```text\n")[1].split("\n```")[0].splitlines() == layers


def test_every_room_is_drawn() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder in (ROOT / "src" / "kullback").iterdir():
        if folder.is_dir() and (folder / "__init__.py").exists():
            assert folder.name in page, folder
