"""How long `instruct compare` takes on lm-eval's logs, and how much memory.

    python benchmarks/compare_logs.py [--rows 14042] [--tasks 57]

Writes the samples of two systems as lm-eval does (2 to 3 KB a row), compares them in a process of its own, and prints
its wall time, CPU time and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_logs(folder: Path, rows: int, tasks: int) -> None:
    """The samples of one system, spread over tasks."""
    chance = random.Random(folder.name)
    folder.mkdir()
    for task in range(tasks):
        with (folder / f"samples_task{task}_2026-01-01T00-00-00.000000.jsonl").open("w", encoding="utf-8") as file:
            for number in range(rows * task // tasks, rows * (task + 1) // tasks):
                question = f"Question {number} " + "of some length " * 20
                row = {
                    "doc_id": number,
                    "doc": {"question": question, "choices": ["one", "two", "three", "four"], "answer": 1},
                    "target": "1",
                    "arguments": {f"gen_args_{k}": {"arg_0": question * 2, "arg_1": f" {k}"} for k in range(4)},
                    "resps": [[["-1.0", "False"]]] * 4,
                    "filtered_resps": [["-1.0", "False"]] * 4,
                    "filter": "none",
                    "metrics": ["acc"],
                    "doc_hash": f"{number:064x}",
                    "prompt_hash": f"{number:064x}",
                    "target_hash": f"{1:064x}",
                    "acc": float(chance.random() < 0.5),
                }
                file.write(json.dumps(row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=14_042, help="of each system")
    parser.add_argument("--tasks", type=int, default=57)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary) / name for name in ("base", "tuned")]
        for folder in folders:
            write_logs(folder, arguments.rows, arguments.tasks)
        start = time.time()
        command = [sys.executable, "-m", "instruct", "compare", *map(str, folders), "--quiet"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"compare ended with {status}")
        print(
            f"{arguments.rows:,} rows of two systems in {arguments.tasks} tasks: {time.time() - start:.1f} s, "
            f"{usage.ru_utime + usage.ru_stime:.1f} s of CPU, {usage.ru_maxrss >> 10:,} MiB"
        )


if __name__ == "__main__":
    main()
