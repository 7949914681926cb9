"""How much memory a loss and its gradient need in addition to the states, the head and the labels.

    python -m benchmarks.memory                      # CPU: the kernel's high-water mark of a fresh process
    python -m benchmarks.memory --device cuda        # GPU: the allocator's

Two questions: how the peak compares with other implementations for a fixed number of tokens, and whether the working
memory grows with the tokens. For the latter forward and backward are measured separately, without what autograd holds
in any case: one tensor of the hidden states' size after forward, two in backward.
"""

from __future__ import annotations

import argparse
import ctypes
import json
from pathlib import Path

import torch

from benchmarks.contenders import on_this_machine
from benchmarks.harness import SHAPES, fresh, write_results

MIB = 2**20
FEWER, MORE = 2048, 32768
RATIOS = ("emo/emoloss", "mle/torch_bf16", "mle/torch_float32", "emo/liger", "emo_2048/liger", "emo/cut")


class Peak:
    """Peak bytes of a block of code above what was in use when it began."""

    def __enter__(self) -> Peak:
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
            self.before = torch.cuda.memory_allocated()
        else:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
            self.before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else _status("VmHWM")
        self.bytes = peak - self.before


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def measure(name: str, vocabulary: int, hidden: int, tokens: int, device: str) -> dict[str, int]:
    """Peak bytes of forward and of backward; on a CPU, run it in a fresh process."""
    from benchmarks.contenders import Example, loss_of

    example = Example(tokens, vocabulary, hidden, device)
    loss_function = loss_of(name, example)
    # Threads, and the kernels that the products' library keeps for every number of rows that it has met, are there
    # before the first look: some 20 MB in all.
    states, labels, host_labels = example.hidden, example.labels, example.host_labels
    for rows in range(32, 513, 32):
        example.hidden = states[:rows].detach().requires_grad_()
        example.labels, example.host_labels = torch.arange(rows).to(labels), torch.arange(rows)
        loss_function(example).backward()
    example.hidden, example.labels, example.host_labels = states, labels, host_labels
    size = example.hidden.numel() * example.hidden.element_size()
    with Peak() as forward:
        loss = loss_function(example)
    with Peak() as backward:
        loss.backward()
    held = backward.before - forward.before
    peak = max(forward.bytes, held + backward.bytes)
    working = max(forward.bytes - size, peak - 2 * size)
    return {"peak": peak, "working": working}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--one", nargs=5, metavar=("NAME", "V", "D", "TOKENS", "DEVICE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, vocabulary, hidden, tokens, device = arguments.one
        print(json.dumps(measure(name, int(vocabulary), int(hidden), int(tokens), device)))
        return
    gpu = arguments.device == "cuda"
    tokens = 16384 if gpu else 2048
    for vocabulary, hidden in SHAPES:

        def measured(name: str, count: int, shape: tuple[int, int] = (vocabulary, hidden)) -> dict[str, int]:
            # The allocator's peak begins anew in a process, the kernel's does not.
            call = (name, *shape, count, arguments.device)
            return measure(*call) if gpu else fresh("memory", *call)

        peak = {name: measured(name, tokens)["peak"] for name in on_this_machine(gpu)}
        # Cross-entropy's is the same without the cost rows.
        working = {count: measured("emo", count)["working"] for count in (FEWER, MORE)}
        growth = {
            "working_mib": {str(count): round(value / MIB, 1) for count, value in working.items()},
            "ratio": round(working[MORE] / working[FEWER], 3),
        }
        row = {
            "vocabulary": vocabulary,
            "hidden": hidden,
            "tokens": tokens,
            "peak_mib": {name: round(value / MIB, 1) for name, value in peak.items()},
            "ratios": {
                pair: round(peak[name] / peak[peer], 3)
                for pair in RATIOS
                for name, peer in [pair.split("/")]
                if {name, peer} <= peak.keys()
            },
            "emo_growth": growth,
        }
        print(json.dumps(row, indent=1))
        if not arguments.no_write:
            write_results("memory", [row], key=("vocabulary", "hidden"))


if __name__ == "__main__":
    main()
