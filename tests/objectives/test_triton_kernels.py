"""The Triton kernels: triton_kernel_checks.py in a process of its own, and checks that the interpreter cannot do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pins import is_pinned

pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[2]
CHECKS = Path(__file__).with_name("triton_kernel_checks.py")


@pytest.mark.slow
@pytest.mark.parametrize("checks", ["not slow", pytest.param("slow", marks=pytest.mark.full)])
def test_the_kernels_equal_the_dense_reference(checks):
    """Triton chooses interpretation at import, and another test may have imported it already."""
    environment = os.environ if torch.cuda.is_available() else {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-m", checks, CHECKS],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.fixture
def compile_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.compiled_kernels import compile_kernels

    return compile_kernels


@pytest.mark.parametrize(
    ("dtype", "vocabulary"),
    [
        ("bf16", 128256),
        pytest.param("bf16", 50257, marks=pytest.mark.slow),
    ],
)
def test_the_kernels_compile_for_hopper_with_16_byte_accesses_and_no_spills(dtype, vocabulary, compile_kernels):
    """Compiling needs no GPU, and the interpreter accepts code that the compiler rejects."""
    found = compile_kernels(dtype, vocabulary)
    assert {(kernel.name, kernel.use) for kernel in found} == {
        (name, use) for name in ("statistics", "gradient") for use in ("mle", "emo", "everything")
    }
    for kernel in found:
        assert "ld.global.v4.b32" in kernel.assembly
        assert kernel.name == "statistics" or "st.global.v4.b32" in kernel.assembly
        assert kernel.spilled_bytes == 0
        assert kernel.registers <= (80 if kernel.use == "everything" or not is_pinned("triton") else 64)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "dtype"), [("sm_75", "fp16"), ("sm_120", "fp32"), ("gfx942", "bf16")])
def test_the_kernels_compile_for_other_gpus_without_spills(dtype, target, compile_kernels):
    found = compile_kernels(dtype, 128256, target)
    assert len(found) == 6
    for kernel in found:
        # A wavefront of AMD has twice the threads, whose loads are as wide or half as wide.
        assert "_load_dwordx" in kernel.assembly if target.startswith("gfx") else "ld.global.v4.b32" in kernel.assembly
        assert kernel.spilled_bytes == 0
        assert kernel.registers <= 128  # of 65,536 for 512 threads: a program always fits


@pytest.mark.slow
def test_the_objectives_own_weights_compile_to_one_kernel(tmp_path):
    """On a CPU, by the compiler's own count; on a GPU torch.compile fuses the same operators."""
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    if "InvalidCxxCompiler" in done.stderr:
        pytest.skip("torch.compile has no C++ compiler here")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1"] * 2


COMPILE = """
import torch
from torch._inductor import metrics
from instruct.objectives import EMO
from instruct.objectives.objective import TokenStatistics
from instruct.objectives.transport import unit_rows
from instruct.objectives.triton_kernels import compiled, weights

@torch.compiler.disable  # as in the trainer
def check(function, *arguments):
    metrics.reset()
    found, expected = compiled(function)(*arguments), function(*arguments)
    assert torch.allclose(found, expected, rtol=1e-6), (function, arguments)
    return metrics.generated_kernel_count

with torch.no_grad():
    print(check(weights, EMO(), TokenStatistics(*torch.rand(4, 100))))
    print(check(unit_rows, torch.randn(50, 8).bfloat16(), torch.rand(50), torch.arange(7)))
"""
