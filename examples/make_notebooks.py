"""Make a notebook of each example: `python examples/make_notebooks.py` writes `examples/notebooks/*.ipynb`.

The docstring of a script becomes the text at the top, each function or class a cell, and the call of `main` the last
cell, which also shows the picture. A test makes the notebooks again and compares them with the files.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

EXAMPLES = ("distil_classifier", "grpo", "quantise", "vae", "variational_inference")
FOLDER = Path(__file__).parent


def notebook_of(name: str) -> str:
    """The notebook of one script, as JSON."""
    source = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    lines, module = source.splitlines(), ast.parse(source)
    title, _, text = (ast.get_docstring(module) or "").partition("\n")
    cells = [_cell("markdown", f"# {title}\n\n{text.strip()}")]
    groups: list[list[ast.stmt]] = []
    for statement in module.body[1:-1]:  # without the docstring and without `if __name__ == "__main__"`
        alone = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        if groups and not alone and not isinstance(groups[-1][-1], (ast.FunctionDef, ast.ClassDef)):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    for group in groups:
        first = min([group[0].lineno, *(decorator.lineno for decorator in getattr(group[0], "decorator_list", []))])
        cells.append(_cell("code", "\n".join(lines[first - 1 : group[-1].end_lineno])))
    cells.append(_cell("code", f'from IPython.display import Image\n\nmain()\nImage("{name}.png")'))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def main() -> None:
    """Write all of them."""
    target = FOLDER / "notebooks"
    target.mkdir(exist_ok=True)
    for name in EXAMPLES:
        (target / f"{name}.ipynb").write_text(notebook_of(name), encoding="utf-8")


if __name__ == "__main__":
    main()
