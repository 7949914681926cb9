"""Are the estimates that a command prints right within a factor of two?

    python -m benchmarks.estimates                        # on two cores about half an hour
    python -m benchmarks.estimates demo                   # one case; the rest of the results file stays

Each case runs its command in a folder of its own and compares what the plan estimates with the minutes that passed,
from the command's start to its end, and with those of CPU time in all processes, divided by the threads: for a machine
that is shared, where OMP_NUM_THREADS=1 leaves no thread waiting for another. The recipes' configs are shortened.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import ROOT, real_rows, write_results
from instruct.base.machine import machine

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
# By name a call; "PLAIN" and "ROWS" are files of `written_files`.
SHORT = ["--train.report_to", "none"]
FEW = [*SHORT, "--train.max_steps", "4", "--until", "train"]
OBJECTIVES = ["--objectives", "mle,emo,gem", "--rates", "1e-4", "--testing", "8", "--choosing", "6"]
CASES: dict[str, list[str]] = {
    "demo": ["run", "demo"],
    "train demo": ["run", "demo", *FEW],
    "train alpaca_emo_smollm2": ["run", "alpaca_emo_smollm2", *FEW, "--data.card", "starter"],
    "train wikitext103_smollm2": [
        "run",
        "wikitext103_smollm2",
        *FEW,
        "--data.files",
        "PLAIN",
        "--data.eval_files",
        "PLAIN",
    ],
    "bench": [
        "bench",
        "--model",
        "smollm2-135m-instruct",
        "--data",
        "ROWS",
        *OBJECTIVES,
        *SHORT,
        "--train.max_steps",
        "2",
    ],
}


def written_files(folder: Path) -> dict[str, str]:
    """The files that cases name."""
    rows, _ = real_rows()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:30]))
    (folder / "plain.txt").write_text("\n".join(" ".join(row["output"].split()) for row in rows[:300]))
    return {"ROWS": "rows.jsonl", "PLAIN": "plain.txt"}


def estimated(command: list[str], folder: Path) -> tuple[float, str]:
    """The minutes in the middle of what a dry run prints, and its lines."""
    dry = subprocess.run(
        [*command, "--dry-run"], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True, text=True
    )
    shown = ("train ",) if "--until" in command else ("train ", "estimate ")
    if command[3] == "bench":  # its own line is first, and of all
        shown = ("estimate ",)
    lines = [line for line in dry.stdout.splitlines() if line.startswith(shown)][: 1 if command[3] == "bench" else None]
    return sum(map(minutes_of, lines)), " | ".join(lines)


def minutes_of(line: str) -> float:
    """The geometric middle of the ranges of a line, for each of the systems that it names."""
    part = line.split(";")[0].partition(" in all")[0]
    systems = line.split(":")[0].count(",") + 1 if line.startswith("train ") else 1
    found = re.findall(r"less than a minute|([\d.,]+)–([\d.,]+) (min|h)", part)
    return systems * sum(
        (float(low) * float(high)) ** 0.5 * (60 if unit == "h" else 1) if low else 0.5 for low, high, unit in found
    )


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(name: str) -> dict[str, Any]:
    """Run a case and compare."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        files = written_files(folder)
        command = [sys.executable, "-m", "instruct", *(files.get(word, word) for word in CASES[name])]
        minutes, printed = estimated(command, folder)
        load, begun, used = os.getloadavg()[0], time.perf_counter(), cpu_seconds()
        subprocess.run(command, cwd=folder, env=ENVIRONMENT, check=True)
        wall, cpu = time.perf_counter() - begun, (cpu_seconds() - used) / torch.get_num_threads()
    return {
        "case": name,
        "printed": printed,
        "estimated_minutes": round(minutes, 2),
        "minutes": round(wall / 60, 2),
        "cpu_minutes_a_thread": round(cpu / 60, 2),
        "estimated_to_minutes": round(minutes * 60 / wall, 2),
        "estimated_to_cpu_minutes": round(minutes * 60 / cpu, 2),
        "load_average": round(load, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), metavar="CASE", help=f"of {', '.join(CASES)}")
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    print(machine()["processor"], torch.get_num_threads(), "threads")
    for name in arguments.cases:
        row = measure(name)
        print(row)
        if not arguments.no_write:
            write_results("estimates-cpu", [row], key=["case"])


if __name__ == "__main__":
    main()
