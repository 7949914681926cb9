"""Registers and spills of the Triton kernels, compiled for a Hopper GPU (sm_90) on any machine.

    python -m benchmarks.compiled_kernels

Triton compiles to PTX and its ptxas to machine code; neither needs a GPU. `cuobjdump` tells the registers of a thread
and the bytes that it spills; what follows from the registers is how many programs share a multiprocessor.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import SHAPES, write_results

# A multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, table of technical specifications).
REGISTERS, THREADS = 65536, 2048
_OPTIONAL = ["bias", "error_norm", "entropy", "squares", "uniform", "h", "u"]
UNUSED: dict[str, dict[str, Any]] = {
    "mle": dict.fromkeys([*_OPTIONAL, "cost_rows", "row_of", "inverse_norm", "cost", "b"]),
    "emo": dict.fromkeys(_OPTIONAL),
    "everything": {},
}


@dataclass(frozen=True)
class CompiledKernel:
    """`use`: mle, emo, or everything (head and objective with all options); `assembly`: PTX, or AMD's own."""

    name: str
    use: str
    assembly: str
    registers: int
    spilled_bytes: int
    warps: int

    @property
    def programs(self) -> int:
        """How many fit into a multiprocessor at a time."""
        # Registers are given out to a warp in units of 256.
        of_warp = -(-self.registers * 32 // 256) * 256
        return min(REGISTERS // (of_warp * self.warps), THREADS // (32 * self.warps))


def compile_kernels(dtype: str, vocabulary: int, target: str = "sm_90") -> list[CompiledKernel]:
    """Both kernels for each use, as `linear_objective_loss` would launch them on a GPU.

    Args:
        dtype: of logits, cost rows and bias: bf16, fp16 or fp32.
        target: sm_75 (Turing) to sm_120 (Blackwell), sm_90 being an H100; gfx90a or gfx942 (AMD MI200, MI300).
    """
    from instruct.objectives import triton_kernels
    from instruct.objectives.linear import GPU_STRIDE
    from instruct.objectives.plan import whole_rows

    size = 4 if dtype == "fp32" else 2
    width = 16 // size
    stride = whole_rows(vocabulary, GPU_STRIDE)
    found = []
    for use, unused in UNUSED.items():
        row: dict[str, Any] = {"VOCABULARY": vocabulary, "READABLE": whole_rows(vocabulary, width)}
        row |= {"STRIDE": stride, "COST_STRIDE": 0 if use == "mle" else stride}
        head = {"SCALE": 0.5, "SOFTCAP": 30.0} if use == "everything" else {"SCALE": 1.0, "SOFTCAP": None}
        block = triton_kernels.STATISTICS_BYTES // (size * (1 if use == "mle" else 2))
        lanes = {"LANES": block // width, "WIDTH": width}
        for kernel, constants, warps in (
            (triton_kernels._statistics_kernel, lanes, triton_kernels.STATISTICS_WARPS),
            (triton_kernels._gradient_kernel, {"BLOCK": triton_kernels.GRADIENT_BLOCK}, triton_kernels.GRADIENT_WARPS),
        ):
            constants = row | head | constants | unused
            constants = {name: value for name, value in constants.items() if name in kernel.arg_names}
            assembly, registers, spilled = _compiled(kernel, constants, dtype, warps, target)
            name = kernel.fn.__name__.strip("_").removesuffix("_kernel")
            found.append(CompiledKernel(name, use, assembly, registers, spilled, warps))
    return found


def _compiled(kernel: Any, constants: dict[str, Any], dtype: str, warps: int, target: str) -> tuple[str, int, int]:
    """The assembly, registers of a thread, and bytes that it spills."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    wide = dict.fromkeys(["logits", "cost_rows", "inverse_norm", "bias"], f"*{dtype}")
    narrow = {"target": "*i64", "row_of": "*i64", "correct": "*i1"}
    signature = {
        name: "constexpr" if name in constants else {**wide, **narrow}.get(name, "*fp32") for name in kernel.arg_names
    }
    aligned: dict[Any, Any] = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(signature)
        if name not in constants and name not in ("target", "row_of")
    }
    source = ASTSource(kernel, signature, constants, aligned)
    options = {"num_warps": warps, "enable_fp_fusion": True}
    if target.startswith("gfx"):
        text = triton.compile(source, target=GPUTarget("hip", target, 64), options=options).asm["amdgcn"]
        names = ("vgpr_count", "vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")
        registers, *spilled = (int(re.findall(rf"\.{name}: +(\d+)", text)[-1]) for name in names)
        return text, registers, sum(spilled)
    compiled = triton.compile(source, target=GPUTarget("cuda", int(target[3:]), 32), options=options)
    return compiled.asm["ptx"], *_usage(compiled.asm["cubin"], Path(triton.__file__).parent)


def _usage(cubin: bytes, triton_folder: Path) -> tuple[int, int]:
    """Registers of a thread, and bytes that it spills (local memory and stack)."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(triton_folder / "backends/nvidia/bin/cuobjdump"), "-res-usage", file.name]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack, local = (int(re.findall(rf"{name}:(\d+)", printed)[-1]) for name in ("REG", "STACK", "LOCAL"))
    return registers, stack + local


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    import triton

    rows = []
    for dtype, vocabulary in [*(("bf16", shape[0]) for shape in SHAPES), ("bf16", 50257), ("fp32", 128256)]:
        for kernel in compile_kernels(dtype, vocabulary):
            row = {
                "kernel": kernel.name,
                "use": kernel.use,
                "dtype": dtype,
                "vocabulary": vocabulary,
                "warps": kernel.warps,
                "registers": kernel.registers,
                "spilled_bytes": kernel.spilled_bytes,
                "programs_on_a_multiprocessor": kernel.programs,
                "occupancy": kernel.programs * kernel.warps * 32 / THREADS,
            }
            print(row)
            rows.append(row)
    if not arguments.no_write:
        write_results("compiled_kernels", rows, device="sm_90", triton=triton.__version__)


if __name__ == "__main__":
    main()
