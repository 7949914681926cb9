"""How long do `make demo`, `make test` and `make test-slow` take, from a clean clone with nothing installed?

    python -m benchmarks.make_speed                       # all three, on two cores about half an hour
    python -m benchmarks.make_speed demo                  # one of them; the rest of the results file stays

Each runs in a clone of the last commit; the first one installs. Run it on an idle machine: the load average before each
command is recorded.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT, SHARED, write_results

ROWS = ("demo", "demo again", "test", "test-slow")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(row: str, clone: Path) -> dict[str, Any]:
    """Run `make` with the row's first word; seconds of the clock and of the CPU, installation included if it is due."""
    target, installs = row.split()[0], not (clone / ".venv").exists()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    load, begun, used = os.getloadavg()[0], time.perf_counter(), cpu_seconds()
    done = subprocess.run(["make", target], cwd=clone, env={**environment, "INSTRUCT_SHARED_DATA": str(SHARED)})
    return {
        "row": row,
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(cpu_seconds() - used, 1),
        "installs": installs,
        "exit_code": done.returncode,
        "load_average": round(load, 1),
    }


def main() -> None:
    wanted = sys.argv[1:] or ROWS
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "instruct"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for row in wanted:
            measured = measure(row, clone)
            print(measured)
            write_results("make-speed", [measured], key=["row"])


if __name__ == "__main__":
    main()
