"""How much memory reading and encoding a training's rows takes, and whether it grows with their number.

    python -m benchmarks.rows_memory

A process for each number of rows; its anonymous memory (RssAnon, without files that are mapped) is read while it runs.
The rows are short requests with an answer in JSON lines, of which SmolLM2's tokens are made.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import ROOT, write_results

KIB, MIB = 2**10, 2**20


def write_rows(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {"instruction": f"What is {number} plus 7?", "output": f"It is {number + 7}."}
            file.write(json.dumps(row) + "\n")


def encode(path: str) -> None:
    """Read and encode the rows of a file, as a training does before its first step."""
    from instruct.config import make_config
    from instruct.training.rows import load_training_rows

    content = {"name": "rows", "model": {"name": "smollm2-135m-instruct"}, "data": {"files": [path]}}
    data = load_training_rows(make_config(content, [], "benchmark"), Path(path).parent)
    print(len(data.encoded.dataset()))
    data.close()


def anonymous_bytes(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return 0
    return next((int(line.split()[1]) * KIB for line in status.splitlines() if line.startswith("RssAnon")), 0)


def measure(count: int) -> dict[str, float]:
    """Peak memory and time of a process that reads and encodes `count` rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        write_rows(path, count)
        command = [sys.executable, "-m", "benchmarks.rows_memory", "--one", str(path)]
        begun, peak = time.monotonic(), 0
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
            while child.poll() is None:
                peak = max(peak, anonymous_bytes(child.pid))
                time.sleep(0.005)
            assert child.stdout
            kept = child.stdout.read().strip()
        if child.returncode or kept != str(count):
            raise RuntimeError(f"{count} rows: exit code {child.returncode}, {kept} rows encoded")
    return {"rows": count, "peak_anonymous_mib": round(peak / MIB, 1), "seconds": round(time.monotonic() - begun, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10_000, 1_000_000], metavar=("FEWER", "MORE"))
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        encode(arguments.one)
        return
    results = [measure(count) for count in arguments.rows]
    for result in results:
        print(json.dumps(result))
    growth = round(results[1]["peak_anonymous_mib"] - results[0]["peak_anonymous_mib"], 1)
    print(f"{growth} MiB more for {arguments.rows[1]:,} rows than for {arguments.rows[0]:,}")
    if not arguments.no_write:
        write_results("rows_memory", results, growth_mib=growth)


if __name__ == "__main__":
    main()
