"""Every registered pair has a case in the contract battery, sits in the file named after its p, and is imported."""

import importlib
import re
from pathlib import Path

import pytest

import kullback
from kullback.pairs import registry

HERE = Path(__file__).parent
# Structural rules are about wrappers, not families; `test_structure.py` is theirs.
RULES = [rule for rule in registry.rules() if rule.p.__module__.startswith("torch.") and rule.method != "structure"]
FORMULAS = [rule for rule in RULES if rule.p.__name__ not in ("ExponentialFamily", "Independent")]


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def cases():
    found = set()
    for path in HERE.glob("test_*.py"):
        if path.stem != Path(__file__).stem:
            module = importlib.import_module(f"tests.pairs.{path.stem}")
            found |= {(case.p, case.q) for case in getattr(module, "CASES", [])}
    return found


@pytest.mark.parametrize("rule", FORMULAS, ids=str)
def test_every_formula_sits_in_the_file_of_its_p_under_the_name_of_its_pair(rule):
    assert rule.formula.__module__ == f"kullback.pairs.{snake(rule.p.__name__)}"
    assert rule.source


def test_every_formula_has_a_case():
    assert not {(rule.p, rule.q) for rule in FORMULAS} - cases()


def test_every_file_of_formulas_is_imported_by_the_room():
    folder = Path(kullback.__file__).parent / "pairs"
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    with_rules = [p.stem for p in folder.glob("*.py") if "@register(" in p.read_text(encoding="utf-8")]
    assert with_rules
    assert all(re.search(rf"\b{stem}\b", text) for stem in with_rules)
