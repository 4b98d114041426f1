"""Every public function of two views has a row in the benchmark table, so that none becomes slow unseen."""

import re
from importlib.resources import files

from benchmarks.cases.tensor_functions import FUNCTIONS

NO_DIVERGENCE = {"align"}


def test_every_function_of_tensors_has_a_case():
    names = (files("kullback") / "__init__.pyi").read_text(encoding="utf-8")
    taken = set(re.findall(r"^from \.(?:api|tensors)\.\w+ import ([a-z]\w*) as", names, re.MULTILINE))
    assert {"kl", "renyi", "total_variation"} <= taken
    assert taken - NO_DIVERGENCE <= FUNCTIONS.keys()
