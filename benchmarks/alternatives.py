"""Alternatives that were tried for the objective on a CPU, compared with the code in use; see benchmarks/README.md.

    python -m benchmarks.alternatives         # about ten minutes on 2 cores; torch.compile needs a C++ compiler

EMO's loss and gradient, 2,048 tokens, bfloat16. A ratio above 1 means that the alternative is slower.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.contenders import Example, ours
from benchmarks.harness import SHAPES, alternate, ratio, write_results
from instruct.objectives import EMO, linear, torch_kernels
from instruct.objectives.plan import Group, TokenPlan

TOKENS = 2048
OBJECTIVE = EMO("pypi")


def patched(run: Callable[[], None], module: Any, name: str, value: Any) -> Callable[[], None]:
    def patched_run() -> None:
        with mock.patch.object(module, name, value):
            run()

    return patched_run


def unsorted_plan(labels: Tensor, vocabulary: int, size: int, *_: Any, **__: Any) -> TokenPlan:
    """Tokens in their own order, with one cost row per token."""
    chunks = [slice(start, min(start + size, len(labels))) for start in range(0, len(labels), size)]
    return TokenPlan(None, labels, torch.arange(len(labels)) % size, labels, [Group(each, [each]) for each in chunks])


def whole_loss(vocabulary: int, hidden: int) -> dict[str, Callable[[], None]]:
    """The loss with one change at a time."""
    example = Example(TOKENS, vocabulary, hidden, "cpu", batches=8)
    kept = example.step(ours(OBJECTIVE, example))
    return {
        "kept": kept,
        "tokens unsorted": patched(kept, linear, "plan_tokens", unsorted_plan),
        "blocks as large as the chunk": patched(kept, torch_kernels, "BLOCK_NUMBERS", 2**30),
        "chunks of 64 rows": patched(kept, linear, "CPU_CHUNK_ROWS", 64),
        "chunks of 128 rows": patched(kept, linear, "CPU_CHUNK_ROWS", 128),
        "chunks of 512 rows": patched(kept, linear, "CPU_CHUNK_ROWS", 512),
    }


def stacked_products(vocabulary: int, hidden: int) -> dict[str, Callable[[], None]]:
    """The products alone: logits and cost rows in two products, and in one."""
    states = torch.randn(256, hidden).bfloat16()
    units = torch.randn(96, hidden).bfloat16()  # 774 distinct labels in 2,048 tokens
    weight = torch.randn(vocabulary, hidden).bfloat16()
    one, other, both = (torch.empty(rows, vocabulary).bfloat16() for rows in (256, 96, 352))

    def separate() -> None:
        torch.mm(states, weight.T, out=one)
        torch.mm(units, weight.T, out=other)

    return {"kept": separate, "stacked": lambda: torch.mm(torch.cat([states, units]), weight.T, out=both)}


class RowsGiven:
    """A transport cost whose rows cost no time."""

    def __init__(self, given: Tensor) -> None:
        self.given, self.vocabulary = given, given.shape[1]

    def rows(self, labels: Tensor, out: Tensor | None = None) -> Tensor:
        return self.given[labels]


def elementwise_part(vocabulary: int) -> tuple[dict[str, Callable[[], None]], float]:
    """The code between the products for one chunk, in blocks and compiled, and the seconds of compilation."""
    product = torch.randn(256, vocabulary).mul_(3).bfloat16()
    target = torch.randint(0, vocabulary, (256,))
    rows, row_of = torch.rand(96, vocabulary).bfloat16(), torch.randint(0, 96, (256,)).sort().values
    labels = torch.arange(96)
    plan = TokenPlan(None, target, row_of, labels, [Group(slice(0, 96), [slice(0, 256)])])
    head = torch_kernels.Head(product[:1])
    work = torch_kernels.LossParts(head, OBJECTIVE, plan, RowsGiven(rows), None, wants_grad=True)
    weigher = torch_kernels.TorchWeigher(work, product)
    weigher.load_costs(labels)
    work = product.clone()

    def in_blocks() -> None:
        work.copy_(product)
        weigher.weigh_(work, target, row_of, slice(0, 256))

    @torch.compile
    def fused(product: Tensor, target: Tensor, rows: Tensor, row_of: Tensor) -> Tensor:
        hot = torch.arange(vocabulary) == target[:, None]
        q = torch.softmax(product.float(), dim=-1)
        others = torch.where(hot, 0.0, q)
        rest = others.sum(-1)
        ce = torch.log1p(rest / q.gather(1, target[:, None])[:, 0])
        costs = rows[row_of].float()
        cost = (others * costs).sum(-1)
        b = 0.5 * (ce / (cost + 1e-10)).clamp(max=3)
        grad = others * (0.5 + b[:, None] * (costs - cost[:, None]))
        at_target = -0.5 * rest - b * (1 - rest) * cost
        return torch.where(hot, at_target[:, None], grad).to(product.dtype)

    begun = time.perf_counter()
    fused(product, target, rows, row_of)
    return {"kept": in_blocks, "compiled": lambda: fused(product, target, rows, row_of)}, time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    rows = []

    def compare(what: str, shape: tuple[int, int], runs: dict[str, Callable[[], None]], **about: Any) -> None:
        seconds = alternate(runs, arguments.rounds)
        for name in list(runs)[1:]:
            found = {"what": what, "shape": shape, "alternative": name, "ratio": ratio(seconds, name, "kept"), **about}
            print(found)
            rows.append(found)

    for vocabulary, hidden in SHAPES[:2]:
        compare("loss and gradient", (vocabulary, hidden), whole_loss(vocabulary, hidden))
        compare("products of logits and cost rows", (vocabulary, hidden), stacked_products(vocabulary, hidden))
    with contextlib.suppress(torch._inductor.exc.InvalidCxxCompiler):
        runs, warm_up = elementwise_part(SHAPES[0][0])
        compare("between the products", SHAPES[0], runs, compile_seconds=round(warm_up, 1))
    write_results("alternatives", rows, rounds=arguments.rounds)


if __name__ == "__main__":
    main()
