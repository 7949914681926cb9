"""The Triton kernels: triton_kernel_checks.py in a process of its own, and checks that the interpreter cannot do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")

CHECKS = Path(__file__).with_name("triton_kernel_checks.py")


def test_the_kernels_equal_the_dense_reference():
    """Triton chooses interpretation at import, and another test may have imported it already."""
    environment = os.environ if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", CHECKS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def test_triton_is_never_imported_on_a_cpu():
    code = """
import sys, torch, instruct
from instruct.objectives import EMO, linear_objective_loss
hidden, weight = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4)
linear_objective_loss(hidden, weight, torch.tensor([0, 1, 4]), EMO())[0].backward()
sys.exit("triton" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
@pytest.mark.parametrize("head", ["plain", "with everything"])
def test_the_kernels_compile_for_hopper_with_16_byte_accesses(dtype, head, tmp_path, monkeypatch):
    """Compiling needs no GPU, and the interpreter accepts code that the compiler rejects."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from instruct.objectives import triton_kernels

    def ptx(kernel, constants):
        wide = {"logits": f"*{dtype}", "cost_rows": f"*{dtype}", "bias": f"*{dtype}"}
        narrow = {"target": "*i64", "row_of": "*i64", "correct": "*i1"}
        signature = {
            name: "constexpr" if name in constants else {**wide, **narrow}.get(name, "*fp32")
            for name in kernel.arg_names
        }
        aligned = {(index,): [["tt.divisibility", 16]] for index, name in enumerate(signature) if name not in constants}
        source = ASTSource(kernel, signature, constants, aligned)
        options = {"num_warps": 8, "enable_fp_fusion": True}
        return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]

    if head == "plain":
        shared = {"SCALE": 1.0, "SOFTCAP": None, "bias": None, "cost_rows": None, "row_of": None, "cost": None}
    else:
        shared = {"SCALE": 0.5, "SOFTCAP": 30.0}
    shared["VOCABULARY"] = 128256
    width = 4 if dtype == "fp32" else 8
    lanes = {"LANES": 4096 // width, "WIDTH": width, "ERROR_NORM": head != "plain"}
    statistics = ptx(triton_kernels._statistics_kernel, shared | lanes)
    gradient = ptx(triton_kernels._gradient_kernel, shared | {"BLOCK": 4096} | ({"b": None} if head == "plain" else {}))

    assert "ld.global.v4.b32" in statistics
    assert "ld.global.v4.b32" in gradient
    assert "st.global.v4.b32" in gradient
