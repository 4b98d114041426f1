"""The Triton kernels compiled ahead of time for three cards, without one: registers, scratch and shared memory."""

from __future__ import annotations

import importlib
import pathlib
import re
import subprocess
import tempfile

import pytest

pytest.importorskip("triton")

from kullback.kernels.device_rows.launch import FAMILIES

TARGETS = {"sm_80": ("cuda", 80, 32), "sm_90": ("cuda", 90, 32), "gfx942": ("hip", "gfx942", 64)}
SHARED = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}
POINTERS = {"p", "q", "to_p", "to_q"}
WHOLE = {"classes", "p_row", "p_class", "q_row", "q_class", "grad_row"}


def compile_kernel(family, direction, target, *, dtype="bf16", kind=0, needs=(True, True)):
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = getattr(importlib.import_module(f"kullback.kernels.{family.room}.triton"), f"{family.name}_{direction}")
    block, per_thread = family.forward if direction == "forward" else (1024, 8)
    constants = {"p_class": 1, "q_class": 1, "HAS_KEEP": True, "P_KIND": kind, "Q_KIND": kind, "TO_P": needs[0],
                 "TO_Q": needs[1], "ONE_SIDED": False, "BLOCK": block}  # fmt: skip
    constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
    signature = {
        name: "constexpr" if name in constants
        else f"*{dtype}" if name in POINTERS
        else {"keep": "*u8", "value": "*fp32", "statistics": "*fp32", "grad": "*fp32"}.get(name)
        or ("i32" if name in WHOLE else "fp32")
        for name in kernel.arg_names
    }  # fmt: skip
    options = {"num_warps": block // (32 * per_thread), "enable_fp_fusion": False}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    return triton.compile(source, target=GPUTarget(*TARGETS[target]), options=options)


def spilled_bytes(compiled):
    """Bytes of scratch memory per thread."""
    if "amdgcn" in compiled.asm:
        text = compiled.asm["amdgcn"]
        assert re.search(r"\.vgpr_spill_count: 0\b", text)
        return int(re.search(r"ScratchSize: (\d+)", text)[1])
    import triton

    tool = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    if not tool.is_file():
        pytest.skip("no cuobjdump beside this Triton")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], check=True, capture_output=True, text=True).stdout
    return int(re.search(r"STACK:(\d+)", text)[1]) + int(re.search(r"LOCAL:(\d+)", text)[1])


def check(family, direction, target, **options):
    compiled = compile_kernel(family, direction, target, **options)
    assert spilled_bytes(compiled) == 0
    assert compiled.metadata.shared <= SHARED[target]
    code = compiled.asm.get("ptx") or compiled.asm["amdgcn"]
    assert not re.search(r"\b(atom|red)\.|global_atomic|\.f64|_f64\b", code)  # no atomics, no float64


@pytest.mark.parametrize("target", TARGETS)
def test_kl_backward(target):
    check(FAMILIES[0], "backward", target)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_every_kernel(family, direction, kind, target):
    check(family, direction, target, kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("needs", [(False, False), (False, True)])
def test_dtypes_and_needs(dtype, needs):
    check(FAMILIES[0], "forward", "sm_90", dtype=dtype, needs=needs)
