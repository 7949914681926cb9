"""How long a loss and its gradient take, compared with other implementations.

    python -m benchmarks.objective_speed                      # CPU: 2,048 response tokens, about ten minutes on 2 cores
    python -m benchmarks.objective_speed --device cuda        # GPU: 16,384 response tokens

Frozen head, bfloat16, labels of real responses. Every contender runs once per round; a ratio is the median over the
rounds. The floor is the number of operations divided by the measured rate of the logits' product: two products for
cross-entropy, and for EMO a third one times the share of distinct labels.
"""

from __future__ import annotations

import argparse
import statistics

from benchmarks.contenders import Example, contenders
from benchmarks.harness import CLOCKS, SHAPES, alternate, product_rate, ratios, write_results

RATIOS = ("emo/mle", "emo/emoloss", "mle/torch_bf16", "mle/torch_float32", "emo/liger", "emo/cut")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--tokens", type=int, help="default: 2048 on a CPU, 16384 on a GPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clock", default="wall", choices=CLOCKS, help="cpu: of all threads, on a shared machine")
    parser.add_argument("--shape", help="one V,d instead of the three; the others' results stay")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    tokens = arguments.tokens or (2048 if arguments.device == "cpu" else 16384)
    clock = CLOCKS[arguments.clock]
    shapes = [tuple(map(int, arguments.shape.split(",")))] if arguments.shape else SHAPES
    rows = []
    source = ""
    for vocabulary, hidden in shapes:
        example = Example(tokens, vocabulary, hidden, arguments.device, batches=8 if arguments.device == "cpu" else 2)
        source = example.source
        distinct = round(statistics.mean(len(labels.unique()) for labels in example.batches))
        found = contenders(example)
        rate = product_rate(min(tokens, 2048), vocabulary, hidden, arguments.device, clock)
        seconds = alternate(found, arguments.rounds, clock)
        product = 2 * tokens * vocabulary * hidden / rate
        floor = {"mle": 2 * product, "emo": (2 + distinct / tokens) * product}
        print(f"({vocabulary}, {hidden}), {tokens} tokens, {distinct} distinct labels, {rate / 1e9:.0f} GFLOP/s")
        medians = {name: round(statistics.median(values), 4) for name, values in seconds.items()}
        for name, value in medians.items():
            over = f", {value / floor[name]:.2f} x floor" if name in floor else ""
            print(f"  {name:14} {value:8.3f} s{over}")
        row = {
            "vocabulary": vocabulary,
            "hidden": hidden,
            "tokens": tokens,
            "rounds": arguments.rounds,
            "clock": arguments.clock,
            "distinct_labels": distinct,
            "product_gflop_per_s": round(rate / 1e9),
            "seconds": medians,
            "floor_seconds": {name: round(value, 4) for name, value in floor.items()},
            "ratios": ratios(seconds, RATIOS),
        }
        rows.append(row)
        del found, example
    if not arguments.no_write:
        write_results("objective_speed", rows, key=("vocabulary", "hidden"), labels=source)


if __name__ == "__main__":
    main()
