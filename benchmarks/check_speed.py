"""How long does `instruct check` take, for each objective of the package?

    python -m benchmarks.check_speed           # some five minutes of one core

Each is a process of its own, as a user starts it. Seconds of the wall and of CPU time; the target is a minute.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from typing import Any

from benchmarks.harness import write_results
from instruct.training.objective_names import OBJECTIVES

AIM = 60.0  # seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objectives", nargs="+", default=list(OBJECTIVES))
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in arguments.objectives:
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-m", "instruct", "check", name]
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - begun
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row = {
            "objective": name,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(cpu, 1),
            "within": seconds <= AIM,
            "exit": done.returncode,
        }
        print(row, flush=True)
        rows.append(row)
    if not arguments.no_write:
        write_results("check_speed", rows, key=("objective",), aim=AIM)


if __name__ == "__main__":
    main()
