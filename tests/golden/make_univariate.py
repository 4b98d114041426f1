"""Tables of KL(p ‖ q) for ordered pairs of univariate continuous families at typical and at hard parameters.

    python -m tests.golden.make_univariate [typical hard gradients steep]

writes tests/golden/univariate_<table>.json: rows {"p", "p_parameters", "q", "q_parameters", "kl"}, parameters being the
stored float64 values, the divergence to 20 digits; "gradient" by central differences where asked for. Pairs whose
divergence is infinite are left out; tests/pairs/test_univariate.py states those by rule.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import mpmath as mp

from tests.golden import univariate_laws as laws

FOLDER = Path(__file__).parent
Numbers = dict[str, float]

TYPICAL: dict[str, dict[str, float]] = {
    "Beta": {"concentration1": 2.25, "concentration0": 1.375},
    "Cauchy": {"loc": 0.3125, "scale": 0.8125},
    "Chi2": {"df": 3.25},
    "ContinuousBernoulli": {"probs": 0.3125},
    "Exponential": {"rate": 1.3125},
    "FisherSnedecor": {"df1": 5.0, "df2": 7.0},
    "Gamma": {"concentration": 2.1875, "rate": 1.375},
    "GeneralizedPareto": {"loc": 0.0, "scale": 1.1875, "concentration": 0.1875},
    "Gumbel": {"loc": 0.4375, "scale": 1.125},
    "HalfCauchy": {"scale": 0.875},
    "HalfNormal": {"scale": 1.1875},
    "InverseGamma": {"concentration": 3.25, "rate": 2.0},
    "Kumaraswamy": {"concentration1": 1.6875, "concentration0": 2.625},
    "Laplace": {"loc": -0.1875, "scale": 0.6875},
    "LogNormal": {"loc": 0.1875, "scale": 0.625},
    "LogitRelaxedBernoulli": {"temperature": 0.8125, "logits": 0.3125},
    "Normal": {"loc": 0.1875, "scale": 1.125},
    "Pareto": {"scale": 0.6875, "alpha": 3.125},
    "RelaxedBernoulli": {"temperature": 0.8125, "logits": 0.4375},
    "StudentT": {"df": 4.1875, "loc": 0.125, "scale": 1.1875},
    "Uniform": {"low": 0.125, "high": 0.875},
    "VonMises": {"loc": 0.4375, "concentration": 1.6875},
    "Weibull": {"scale": 1.125, "concentration": 1.625},
}
# Narrow, wide, far away, heavy, nearly degenerate.
HARD: dict[str, list[dict[str, float]]] = {
    "Beta": [{"concentration1": 0.03125, "concentration0": 40.0}, {"concentration1": 2e4, "concentration0": 3e4}],
    "Cauchy": [{"loc": 0.25, "scale": 1e-8}, {"loc": -1e6, "scale": 1.0}],
    "Chi2": [{"df": 400.0}],
    "ContinuousBernoulli": [{"probs": 1e-6}, {"probs": 0.999}],
    "Exponential": [{"rate": 1e8}, {"rate": 1e-4}],
    "FisherSnedecor": [{"df1": 1.25, "df2": 2.5}, {"df1": 300.0, "df2": 9.0}],
    "Gamma": [{"concentration": 0.03125, "rate": 3.0}, {"concentration": 1e6, "rate": 1e6}],
    "GeneralizedPareto": [
        {"loc": 0.0, "scale": 1.0, "concentration": 1.75},
        {"loc": 0.0, "scale": 0.5, "concentration": -0.625},
        {"loc": 0.0, "scale": 2.0, "concentration": 0.0},
    ],
    "Gumbel": [{"loc": 30.0, "scale": 0.5}],
    "HalfCauchy": [{"scale": 1e-8}, {"scale": 1e6}],
    "HalfNormal": [{"scale": 1e-8}, {"scale": 1e4}],
    "InverseGamma": [{"concentration": 1.0625, "rate": 3.0}, {"concentration": 200.0, "rate": 5.0}],
    "Kumaraswamy": [
        {"concentration1": 0.125, "concentration0": 30.0},
        {"concentration1": 50.0, "concentration0": 0.25},
    ],
    "Laplace": [{"loc": 0.375, "scale": 1e-8}, {"loc": -40.0, "scale": 2.0}],
    "LogNormal": [{"loc": -3.0, "scale": 3.0}, {"loc": 0.5, "scale": 1e-6}],
    "LogitRelaxedBernoulli": [{"temperature": 100.0, "logits": -30.0}],
    "Normal": [{"loc": 0.375, "scale": 1e-8}, {"loc": 50.0, "scale": 3.0}],
    "Pareto": [{"scale": 1e-6, "alpha": 1.0625}, {"scale": 0.5, "alpha": 80.0}],
    "RelaxedBernoulli": [{"temperature": 0.125, "logits": 1.0}, {"temperature": 6.0, "logits": -9.0}],
    "StudentT": [{"df": 1.0625, "loc": 0.25, "scale": 1e-4}, {"df": 300.0, "loc": -20.0, "scale": 1.0}],
    "Uniform": [{"low": 1e-6, "high": 1.0}, {"low": 0.5, "high": 0.5000001}],
    "VonMises": [{"loc": 3.0, "concentration": 1e4}, {"loc": -1.0, "concentration": 1e-3}],
    "Weibull": [{"scale": 2.0, "concentration": 0.3125}, {"scale": 0.5, "concentration": 30.0}],
}
GRADIENTS = [
    ("Beta", "Kumaraswamy"), ("Beta", "Laplace"), ("Gamma", "LogNormal"), ("Gamma", "Weibull"), ("Gumbel", "StudentT"),
    ("HalfCauchy", "FisherSnedecor"), ("InverseGamma", "Normal"), ("Kumaraswamy", "RelaxedBernoulli"),
    ("Laplace", "Cauchy"),
    ("LogNormal", "GeneralizedPareto"), ("Normal", "LogitRelaxedBernoulli"), ("Pareto", "InverseGamma"),
    ("StudentT", "Laplace"), ("Uniform", "VonMises"), ("Uniform", "HalfCauchy"), ("VonMises", "Normal"),
    ("Weibull", "GeneralizedPareto"), ("GeneralizedPareto", "HalfCauchy"), ("FisherSnedecor", "Gamma"),
    ("Laplace", "Gumbel"),
]  # fmt: skip

# A q that is steep where p is wide, shapes at which a formula changes, and close laws with an end that moves.
STEEP: list[tuple[str, dict[str, float], str, dict[str, float]]] = [
    ("Exponential", {"rate": 2.0092391967773438}, "Cauchy",
     {"loc": 0.49770084023475647, "scale": 3.934543801875634e-09}),
    ("Gamma", {"concentration": 1e6, "rate": 1e-3}, "Cauchy", {"loc": 1.0003e9, "scale": 1e-3}),
    ("FisherSnedecor", {"df1": 1.5093271732330322, "df2": 15.521136283874512}, "StudentT",
     {"df": 1.838015079498291, "loc": 1.0, "scale": 6.055171475338739e-09}),
    ("ContinuousBernoulli", {"probs": 0.5702036619186401}, "Cauchy", {"loc": 0.5, "scale": 1.3523385744562688e-09}),
    ("HalfCauchy", {"scale": 1.125}, "Cauchy", {"loc": 0.875, "scale": 2e-8}),
    ("Gumbel", {"loc": 0.375, "scale": 1.625}, "Cauchy", {"loc": 1.0, "scale": 1e-8}),
    ("Gamma", {"concentration": 1.9740198850631714, "rate": 1.3204154968261719}, "GeneralizedPareto",
     {"loc": 0.0, "scale": 3.796149528056958e-08, "concentration": 0.0}),
    ("HalfNormal", {"scale": 1.375}, "GeneralizedPareto", {"loc": -0.25, "scale": 0.625, "concentration": 1e-9}),
    ("Weibull", {"scale": 1.25, "concentration": 1.75}, "GeneralizedPareto",
     {"loc": 0.0, "scale": 0.8125, "concentration": 0.0}),
    ("Exponential", {"rate": 2.1930999755859375}, "GeneralizedPareto",
     {"loc": 0.0, "scale": 0.4559532403945923, "concentration": 0.0}),
    ("RelaxedBernoulli", {"temperature": 1.0, "logits": 0.0078125}, "Uniform", {"low": 0.0, "high": 1.0}),
    ("Chi2", {"df": 0.125}, "GeneralizedPareto", {"loc": 0.0, "scale": 2.5, "concentration": 0.0}),
    ("HalfCauchy", {"scale": 2.375}, "FisherSnedecor", {"df1": 1.0, "df2": 1.0}),
]  # fmt: skip


def _row(
    p: str, params_p: dict[str, float], q: str, params_q: dict[str, float], **options: Any
) -> dict[str, Any] | None:
    law_p, law_q = laws.make(p, params_p), laws.make(q, params_q)
    if law_p.lower < law_q.lower or law_p.upper > law_q.upper or laws.diverges(p, params_p, q, params_q):
        return None
    try:
        value = laws.kl(law_p, law_q, **options)
    except ArithmeticError as problem:
        print("left out, two rules disagree:", p, params_p, q, params_q, problem, file=sys.stderr)
        return None
    return {"p": p, "p_parameters": params_p, "q": q, "q_parameters": params_q, "kl": mp.nstr(value, 20)}


def _write(name: str, rows: list[dict[str, Any] | None]) -> None:
    text = ",\n".join(json.dumps(row) for row in rows if row is not None)
    (FOLDER / f"univariate_{name}.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")


def typical() -> None:
    pairs = [(p, q) for p in TYPICAL for q in TYPICAL if p != q]
    _write("typical", [_row(p, TYPICAL[p], q, TYPICAL[q]) for p, q in pairs])


def hard() -> None:
    """Each hard p against two typical q, each hard q against two typical p, chosen in turn."""
    rows, names = [], list(TYPICAL)
    for turn, (name, sets) in enumerate(HARD.items()):
        for shift, params in enumerate(sets):
            found = 0
            for step in range(1, len(names)):
                other = names[(turn + step * (5 + 2 * shift)) % len(names)]
                if other == name or found == 6:
                    continue
                for row in (_row(name, params, other, TYPICAL[other]), _row(other, TYPICAL[other], name, params)):
                    if row is not None:
                        rows.append(row)
                        found += 1
    _write("hard", rows)


def gradients() -> None:
    rows = []
    for p, q in GRADIENTS:
        row = _row(p, TYPICAL[p], q, TYPICAL[q], check=False)
        assert row is not None
        row["gradient"] = {}
        for side, name in (("p", p), ("q", q)):
            for parameter, value in TYPICAL[name].items():
                step = mp.mpf("1e-7")
                ends = []
                for sign in (1, -1):
                    moved = {"p": dict(TYPICAL[p]), "q": dict(TYPICAL[q])}
                    moved[side][parameter] = value + sign * step
                    ends.append(laws.kl(laws.make(p, moved["p"]), laws.make(q, moved["q"]), check=False))
                row["gradient"][f"{side}.{parameter}"] = mp.nstr((ends[0] - ends[1]) / (2 * step), 15)
        rows.append(row)
    _write("gradients", rows)


def steep() -> None:
    rows = []
    for p, params_p, q, params_q in STEEP:
        row = _row(p, params_p, q, params_q, check=False)
        assert row is not None
        rows.append({**row, "gradient": laws.gradient(p, params_p, q, params_q)})
    _write("steep", rows)


if __name__ == "__main__":
    for table in sys.argv[1:] or ["typical", "hard", "gradients", "steep"]:
        {"typical": typical, "hard": hard, "gradients": gradients, "steep": steep}[table]()
