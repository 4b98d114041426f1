"""Every registered pair has a case in the contract battery, sits in the file named after its p, and is imported."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import kullback
from kullback.pairs import registry

HERE = Path(__file__).parent
# Structural rules are about wrappers, not families; `test_structure.py` is theirs.
RULES = [rule for rule in registry.rules() if rule.p.__module__.startswith("torch.") and rule.method != "structure"]
FORMULAS = [rule for rule in RULES if rule.p.__name__ != "Independent"]


# Families that are images of one another, or of one formula, share a file.
SHARED = {
    "Bernoulli": "counts",
    "Binomial": "counts",
    "Exponential": "gamma",
    "HalfCauchy": "cauchy",
    "HalfNormal": "normal",
    "InverseGamma": "gamma",
    "LogNormal": "normal",
    "Weibull": "gumbel",
    "Geometric": "counts",
    "LKJCholesky": "dirichlet",
    "Multinomial": "categorical",
    "OneHotCategorical": "categorical",
    "Poisson": "counts",
    "ExpRelaxedCategorical": "relaxed_one_hot_categorical",
    "LogitRelaxedBernoulli": "relaxed_bernoulli",
    "LowRankMultivariateNormal": "multivariate_normal",
}
BESIDE = {
    ("LowRankMultivariateNormal", "LowRankMultivariateNormal"): "low_rank",
    ("MultivariateNormal", "LowRankMultivariateNormal"): "low_rank",
}
# Two are infinite but for one certain outcome, so that there is nothing to differentiate in p: their tables are read by
# their own tests. ExpRelaxedCategorical answers for RelaxedOneHotCategorical, and is tested against RelaxedBernoulli.
BY_HAND = {
    ("ExpRelaxedCategorical", "ExpRelaxedCategorical"),
    ("Poisson", "Bernoulli"),
    ("Poisson", "Binomial"),
}


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
    assert rule.source
    name, pair = rule.p.__name__, (rule.p.__name__, rule.q.__name__)
    file = BESIDE.get(pair, SHARED.get(name, snake(name)))
    rooms = "kullback.pairs.closed", "kullback.pairs.gaussian", "kullback.pairs"
    assert rule.formula.__module__ in {f"{room}.{file}" for room in rooms}


def test_every_formula_has_a_case():
    covered = {(p.__name__, q.__name__) for p, q in cases()}
    assert not {(rule.p.__name__, rule.q.__name__) for rule in FORMULAS} - covered - BY_HAND
    assert not BY_HAND & covered


def test_every_file_of_formulas_is_imported_by_the_room():
    folder = Path(kullback.__file__).parent / "pairs"
    for package, room in (("kullback.pairs", folder), ("kullback.pairs.closed", folder / "closed")):
        with_rules = [p.stem for p in room.glob("*.py") if "@register(" in p.read_text(encoding="utf-8")]
        assert with_rules
        assert all(f"{package}.{stem}" in sys.modules for stem in with_rules)
