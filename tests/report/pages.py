"""A page with everything that a page can hold, and hostile text in every place."""

import math

from kullback.report.page import Figure, Finding, Page, Section, Series, Table

HOSTILE = "<script>alert(1)</script>\"'&\x1b[31m‖$x$"


def full_page(text: str = "token") -> Page:
    x = [0.1 * i for i in range(-30, 50)]
    p = [math.exp(-t * t / 2) for t in x]
    q = [math.exp(-((t - 1) ** 2) / 8) / 2 for t in x]
    curves = Figure(
        f"densities {text}",
        [Series(f"p {text}", x, p), Series("q", x, q, color=1, dashed=True), Series("area", x, p, "area", color=2)],
        x_label=text,
        marks=[(0.5, text)],
    )
    points = Figure(
        "points", [Series("n", [1.0, 10.0, 100.0], [1e-3, math.inf, 1.0], "points")], log_x=True, log_y=True
    )
    counts = Figure("counts", [Series("p", [0.0, 1.0, 2.0], [0.2, 0.5, 0.3], "bars")])
    labels = [text, "b" * 60, "c"]
    bars = Figure(
        f"bars {text}", [Series(text, labels, [0.5, 0.0, math.inf], "bars"), Series("q", labels, [1, 2, 3], "bars", 1)]
    )
    table = Table(
        [text, "value", "share"],
        [[text, 0.25, 0.5], ["b" * 90, math.inf, None], ["c", -1, 0.0]],
        text,
        text,
        bar="share",
    )
    findings = [Finding(text, severity, text, text, {text: 1}) for severity in ("info", "warning", "error")]
    return Page(
        text, [Section(text, [curves, points, counts, bars, table, text]), Section("Findings", findings)], [text]
    )
