"""Importing kullback changes nothing of torch's and loads nothing heavy, and `--help` needs no torch."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import kullback

SNAPSHOT = """
import json, torch
from torch.distributions import Distribution, kl

def snapshot():
    return {
        "registry": sorted(f"{p.__name__} {q.__name__} {f.__qualname__}" for (p, q), f in kl._KL_REGISTRY.items()),
        "default dtype": str(torch.get_default_dtype()),
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "grad mode": torch.is_grad_enabled(),
        "validation": Distribution._validate_args,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul precision": torch.get_float32_matmul_precision(),
        "random state": torch.get_rng_state().sum().item(),
        "default device": str(torch.get_default_device()),
    }

before = snapshot()
"""

IMPORT_EVERYTHING = """
import importlib, pkgutil, kullback
for module in pkgutil.walk_packages(kullback.__path__, "kullback."):
    importlib.import_module(module.name)
for name in kullback.__all__:
    getattr(kullback, name)
kullback.kernels.status()
print(json.dumps([before, snapshot()]))
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_every_module_leaves_torch_as_it_was():
    before, after = json.loads(run(SNAPSHOT + IMPORT_EVERYTHING))
    assert len(before["registry"]) > 50
    assert after == before


ONLY_IN = {
    "torch.distributed": ("parallel/", "comparison/accumulator.py"),
    "triton": ("/triton.py",),
    "html": ("report/", "_core/notebook.py"),
}


def test_heavy_and_risky_modules_stay_in_their_rooms():
    root = Path(kullback.__file__).parent
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module, places in ONLY_IN.items():
                if any(f"{name}.".startswith(f"{module}.") for name in names):
                    assert any(place in path.as_posix() for place in places), f"{path} imports {module}"


HEAVY = ("torch", "numpy", "scipy", "matplotlib", "transformers", "rich", "plotille")


def test_import_alone_loads_nothing_heavy():
    assert run(f"import sys, kullback; print([m for m in {HEAVY} if m in sys.modules])").strip() == "[]"


CALLS = """
import sys, torch
before = set(sys.modules)
import kullback as kb
kb.kl(kb.Logits(torch.zeros(2, 3)), kb.Probs(torch.ones(3) / 3))
kb.js(torch.distributions.Gamma(2.0, 1.0), torch.distributions.LogNormal(0.0, 1.0))
print([m for m in ("torch._dynamo", "torch._inductor", "sympy", "triton", "scipy") if m in set(sys.modules) - before])
"""


def test_first_calls_load_no_compiler():
    """torch's takes five seconds to import."""
    assert run(CALLS).strip() == "[]"


def test_help_loads_nothing_heavy():
    code = "import sys; from kullback.cli.main import main; main(['--help']); "
    code += f"print([m for m in {HEAVY} if m in sys.modules])"
    assert run(code).splitlines()[-1] == "[]"
