"""The notebooks are those of the scripts, and every cell of them is Python."""

import ast
import json

import pytest

from examples import make_notebooks


@pytest.mark.parametrize("name", make_notebooks.EXAMPLES)
def test_the_notebook_is_that_of_the_script(name):
    stored = (make_notebooks.FOLDER / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    assert stored == make_notebooks.notebook_of(name), "run python examples/make_notebooks.py"
    cells = json.loads(stored)["cells"]
    assert cells[0]["cell_type"] == "markdown"
    code = ["".join(cell["source"]) for cell in cells[1:]]
    script = ast.parse((make_notebooks.FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    body = [statement for text in code[:-1] for statement in ast.parse(text).body]
    assert [ast.dump(s) for s in body] == [ast.dump(s) for s in script.body[1:-1]]
    assert f'Image("{name}.png")' in code[-1]
