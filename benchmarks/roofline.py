"""What a loss and its gradient must read, write and compute on a GPU, and how long that takes at least.

    python -m benchmarks.roofline                                          # an H100, Llama-3.2-1B's head, 16,384 tokens
    python -m benchmarks.roofline --gpu rtx4090 --shape 49152,576 --tokens 4096 --chunk-rows 512 --head-trains
    python -m benchmarks.roofline --totals                                 # the table of benchmarks/README.md

Needs no GPU: everything printed is arithmetic. A product takes the longer of its operations and its bytes; everything
else takes its bytes. Each operand is read once from memory (reuse in the cache is perfect), products reach 71 % of the
peak rate and copies 90 % of the peak bandwidth (on an H100 700 TFLOP/s and 3 TB/s), and stages follow each other.

The last column counts the multiprocessors that a product of few rows leaves idle: its result is computed in tiles of
128 x 256 or 128 x 128, each by one multiprocessor. A library that lets several share a tile (split-K) comes closer to
the column before. Left out: launches, the read of cost rows and norms from the cache, and that Triton's products
(cut-cross-entropy) are slower than cuBLAS's.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from instruct.phases.costs import machines

MIB = 2**20
PRODUCT_EFFICIENCY, COPY_EFFICIENCY = 0.71, 0.9


@dataclass(frozen=True)
class Gpu:
    """Peak dense bfloat16 FLOP/s with float32 accumulation, bytes/s of memory, multiprocessors, and the source."""

    name: str
    flops: float
    bandwidth: float
    multiprocessors: int
    source: str


def _gpu(name: str, machine: str, multiprocessors: int) -> Gpu:
    """A GPU with the rates of data/plans/machines.yaml."""
    of = machines()[machine]
    return Gpu(name, of.tflops * 1e12, of.bandwidth * 1e9, multiprocessors, of.source)


GPUS = {
    "h100": _gpu("H100 SXM", "h100-80gb", 132),
    "h200": _gpu("H200 SXM", "h200-141gb", 132),
    "a100": _gpu("A100 SXM 80 GB", "a100-80gb", 108),
    "l40s": _gpu("L40S", "l40s-48gb", 142),
    "rtx4090": _gpu("RTX 4090", "rtx4090-24gb", 128),
}


@dataclass(frozen=True)
class Stage:
    """What one stage does in all chunks together; `tiled_seconds` counts idle multiprocessors."""

    name: str
    flops: float
    bytes: float
    seconds: float
    tiled_seconds: float


@dataclass(frozen=True)
class Problem:
    """`tokens` states of a width, a head of a vocabulary, `distinct` labels; bfloat16."""

    tokens: int
    vocabulary: int
    width: int
    distinct: int
    head_trains: bool


class Path:
    """The stages of one implementation, added one by one."""

    def __init__(self, name: str, gpu: Gpu, problem: Problem, chunk_rows: int, buffers: float) -> None:
        self.name, self.gpu, self.problem, self.chunk_rows = name, gpu, problem, chunk_rows
        self.stages: list[Stage] = []
        self.extra_bytes = buffers  # the peak beyond states, head and labels

    @property
    def chunks(self) -> int:
        return -(-self.problem.tokens // self.chunk_rows)

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages)

    @property
    def tiled_seconds(self) -> float:
        return sum(stage.tiled_seconds for stage in self.stages)

    def product(self, name: str, rows: float, inner: float, columns: float, times: float, out_bytes: float = 2) -> None:
        """`times` products (rows, inner) @ (inner, columns), of bfloat16, with `out_bytes` of traffic per result."""
        flops = 2 * rows * inner * columns * times
        moved = (2 * (rows * inner + inner * columns) + out_bytes * rows * columns) * times
        computing = flops / (self.gpu.flops * PRODUCT_EFFICIENCY)
        moving = moved / (self.gpu.bandwidth * COPY_EFFICIENCY)
        tiled = computing / _busy(rows, columns, self.gpu.multiprocessors)
        self.stages.append(Stage(name, flops, moved, max(computing, moving), max(tiled, moving)))

    def copy(self, name: str, moved: float) -> None:
        seconds = moved / (self.gpu.bandwidth * COPY_EFFICIENCY)
        self.stages.append(Stage(name, 0, moved, seconds, seconds))


def _busy(rows: float, columns: float, multiprocessors: int) -> float:
    """The share of the multiprocessors' time that tiles of the result fill, for the better of two sizes of tile."""
    shares = []
    for height, breadth in ((128, 256), (128, 128)):
        tiles = math.ceil(rows / height) * math.ceil(columns / breadth)
        used = rows * columns / (tiles * height * breadth)
        shares.append(used * tiles / (math.ceil(tiles / multiprocessors) * multiprocessors))
    return max(shares)


def ours(gpu: Gpu, problem: Problem, chunk_rows: int, emo: bool) -> Path:
    """linear_objective_loss."""
    tokens, vocabulary, width = problem.tokens, problem.vocabulary, problem.width
    rows = min(chunk_rows, tokens)
    cost_rows = min(rows, problem.distinct) if emo else 0
    states = 2 * tokens * width
    # EMO's sorted states become their gradient, which is put into the labels' order in backward.
    trained = 4 * vocabulary * width if problem.head_trains else 0
    path = Path("EMO" if emo else "our cross-entropy", gpu, problem, rows, 0)
    in_forward = states + trained + 2 * (rows + cost_rows) * vocabulary
    in_backward = 2 * states + trained * 1.5
    path.extra_bytes = max(in_forward, in_backward)
    logits = 2.0 * tokens * vocabulary
    if emo:
        path.copy("sort states, restore gradient", 4 * states)
        groups = math.ceil(problem.distinct / rows)
        path.product("cost rows", problem.distinct / groups, width, vocabulary, groups)
    path.product("logits", rows, width, vocabulary, path.chunks)
    path.copy("statistics: read logits", logits)
    path.copy("gradient: read and write logits", 2 * logits)
    if problem.head_trains:
        # Accumulated in float32 by the product itself: 4 bytes read, 4 written.
        path.product("gradient to the head", vocabulary, rows, width, path.chunks, out_bytes=8)
    path.product("gradient to the states", rows, vocabulary, width, path.chunks)
    path.copy("scale in backward", 2 * states + (6 * vocabulary * width if problem.head_trains else 0))
    return path


def liger(gpu: Gpu, problem: Problem) -> Path:
    """Liger 0.8.5's default fused linear cross-entropy; its number of rows in a chunk is its own rule."""
    tokens, vocabulary, width = problem.tokens, problem.vocabulary, problem.width
    share = math.ceil(tokens / math.ceil(vocabulary / width))
    rows = min(2 ** math.ceil(math.log2(share)), tokens)
    states, head = 2 * tokens * width, 2 * vocabulary * width if problem.head_trains else 0
    path = Path("Liger", gpu, problem, rows, states + head + 2 * rows * vocabulary)
    logits = 2.0 * tokens * vocabulary
    path.product("logits", rows, width, vocabulary, path.chunks)
    path.copy("loss and gradient: read logits twice, write them", 3 * logits)
    if problem.head_trains:
        # Accumulated in the head's own bfloat16.
        path.product("gradient to the head", vocabulary, rows, width, path.chunks, out_bytes=4)
    path.product("gradient to the states", rows, vocabulary, width, path.chunks)
    path.copy("clear the gradient", states)
    return path


def cut(gpu: Gpu, problem: Problem) -> Path:
    """cut-cross-entropy: logits stay on the chip and are computed twice.

    Its filter skips blocks of logits whose gradients are all below bfloat16's resolution. Nothing is skipped here: the
    time without the gradient's products is what a filter that skips everything would leave.
    """
    tokens, vocabulary, width = problem.tokens, problem.vocabulary, problem.width
    states, head = 2 * tokens * width, 2 * vocabulary * width if problem.head_trains else 0
    path = Path("cut-cross-entropy, nothing filtered", gpu, problem, tokens, states + head)
    path.product("logits, in forward", tokens, width, vocabulary, 1, out_bytes=0)
    path.product("logits, in backward", tokens, width, vocabulary, 1, out_bytes=0)
    if problem.head_trains:
        path.product("gradient to the head", vocabulary, tokens, width, 1)
    path.product("gradient to the states", tokens, vocabulary, width, 1)
    return path


def paths(gpu: Gpu, problem: Problem, chunk_rows: int | None) -> list[Path]:
    """Ours, Liger's and cut-cross-entropy's."""
    rows = chunk_rows or (2048 if problem.head_trains else 1024)
    both = [ours(gpu, problem, rows, emo=True), ours(gpu, problem, rows, emo=False)]
    return [*both, liger(gpu, problem), cut(gpu, problem)]


def stage_lines(found: Sequence[Path]) -> list[str]:
    """A Markdown table of every stage."""
    lines = ["| path | stage | TFLOP | GB | ms | ms, whole tiles |", "|---|---|---|---|---|---|"]
    for path in found:
        title = f"{path.name}, {path.chunks} x {path.chunk_rows:,} rows"
        total = Stage(
            f"**all; {path.extra_bytes / MIB:,.0f} MiB of extra memory**",
            sum(stage.flops for stage in path.stages),
            sum(stage.bytes for stage in path.stages),
            path.seconds,
            path.tiled_seconds,
        )
        for stage in [*path.stages, total]:
            figures = f"{stage.flops / 1e12:.2f} | {stage.bytes / 1e9:.2f} | {1e3 * stage.seconds:.1f}"
            lines.append(f"| {title} | {stage.name} | {figures} | {1e3 * stage.tiled_seconds:.1f} |")
            title = ""
    return lines


def total_lines(gpu: Gpu, tokens: int, vocabulary: int, distinct: int) -> list[str]:
    """A Markdown table of the totals for two widths, with a frozen head and one that trains."""
    lines = [
        "| width | head | path | rows in a chunk | ms | ms, whole tiles | extra memory, MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for head_trains in (False, True):
        head = "trains" if head_trains else "frozen"
        for width in (2048, 4096):
            problem = Problem(tokens, vocabulary, width, distinct, head_trains)
            for path in paths(gpu, problem, None):
                times = f"{1e3 * path.seconds:.1f} | {1e3 * path.tiled_seconds:.1f}"
                memory = f"{path.extra_bytes / MIB:,.0f}"
                lines.append(f"| {width:,} | {head} | {path.name} | {path.chunk_rows:,} | {times} | {memory} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h100", choices=list(GPUS))
    parser.add_argument("--shape", default="128256,2048", help="vocabulary and width of the head")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--distinct", type=int, help="distinct labels; default: as in real responses")
    parser.add_argument("--chunk-rows", type=int, help="of our path; default: its own")
    parser.add_argument("--head-trains", action="store_true")
    parser.add_argument("--totals", action="store_true", help="totals alone, for two widths and both kinds of head")
    arguments = parser.parse_args()
    vocabulary, width = map(int, arguments.shape.split(","))
    distinct = arguments.distinct
    if distinct is None:
        from benchmarks.harness import response_labels

        distinct = len(response_labels(arguments.tokens, vocabulary)[0].unique())
    problem = Problem(arguments.tokens, vocabulary, width, distinct, arguments.head_trains)
    gpu = GPUS[arguments.gpu]
    print(f"{gpu.name}: {gpu.flops / 1e12:g} TFLOP/s, {gpu.bandwidth / 1e12:g} TB/s ({gpu.source})")
    if arguments.totals:
        print("\n".join(["", *total_lines(gpu, problem.tokens, vocabulary, distinct)]))
        return
    trains = "trains" if problem.head_trains else "is frozen"
    print(f"head ({vocabulary:,}, {width:,}), {trains}; {problem.tokens:,} tokens, {distinct:,} distinct labels\n")
    print("\n".join(stage_lines(paths(gpu, problem, arguments.chunk_rows))))


if __name__ == "__main__":
    main()
