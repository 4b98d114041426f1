"""What the repository promises about itself: version, set-up commands, and what is never committed."""

import re
import subprocess
from pathlib import Path

import pytest

import kullback

ROOT = Path(__file__).parents[2]
in_repository = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs the repository, not a copy of the tests")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def tracked_files() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


@in_repository
def test_one_version_everywhere():
    version = kullback.__version__
    assert f'version = "{version}"' in read("pyproject.toml")
    assert f"version: {version}" in read("CITATION.cff")
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[1] == version


@in_repository
def test_readme_has_exactly_two_set_up_commands_and_ci_runs_both():
    commands = re.findall(r"^pip install uv && uv run .+$", read("README.md"), re.MULTILINE)
    assert len(commands) == 2
    assert commands[1] == "pip install uv && uv run --group test pytest -n auto"
    assert {f"({command})" for command in commands} <= set(read(".ci/run").splitlines())


@in_repository
def test_python_in_the_documentation_is_executed():
    pages = {"lint.md", "parallel.md"}  # a comment that silences a line, ranks of a process group
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        blocks = re.findall(r"```(?:python|py)\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
        assert path.name in pages or all(">>> " in block for block in blocks), path


@in_repository
def test_the_changelog_of_a_version_is_short():
    for version in read("CHANGELOG.md").split("\n## ")[1:]:
        assert len(version.strip().splitlines()) <= 40


@in_repository
def test_nothing_that_must_not_be_committed():
    index_address = re.compile(r"https?://[^\s\"']*(pypi|pythonhosted|simple/)", re.IGNORECASE)
    machine_path = re.compile(r"(?:^|[\s\"'=(])/(?:tmp|root|home|work|opt)/")
    for path in tracked_files():
        assert path.name not in {"uv.lock", "poetry.lock", "package-lock.json"}, path
        assert path.stat().st_size < 1_000_000, path
        if path.suffix == ".png" and path.is_relative_to(ROOT / "docs" / "images"):
            assert path.stat().st_size < 200_000, path
            continue
        text = path.read_bytes().decode("utf-8")
        assert "\0" not in text, f"{path} is binary"
        assert not index_address.search(text), path
        assert path == Path(__file__) or not machine_path.search(text), path


# What a reader would make, or what a program writes.
EXAMPLES_OF_NAMES = {
    "tests/golden/pairs/Beta_Weibull.json",
    "src/kullback/densities/families/x.py",
    "src/kullback/api/x.py",
}


@in_repository
def test_files_that_pages_name_are_there():
    names = ["/" + path.relative_to(ROOT).as_posix() for path in tracked_files()]
    for page in (path for path in tracked_files() if path.suffix == ".md"):
        for name in re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|md|json|cpp|h))`", page.read_text(encoding="utf-8")):
            if name not in EXAMPLES_OF_NAMES:
                assert any(known.endswith("/" + name) for known in names), f"{page.name} names {name}"


@in_repository
def test_no_source_file_holds_more_than_one_concept_can_need():
    long = {
        p.name: n
        for p in tracked_files()
        if p.is_relative_to(ROOT / "src") and (n := len(p.read_text("utf-8").splitlines())) > 400
    }
    assert not long
