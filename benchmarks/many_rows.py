"""How time and memory grow with the rows: generate, judge and report of 10,000 and of 100,000.

    python -m benchmarks.many_rows

Each command is a process, measured from its start to its end: seconds, its own CPU seconds, and its peak memory in GiB
(at least that of this process, which starts it). A local server (`tests/engines/fake_server.py`) replies at once, for
generating and for judging, and shares the cores. The judge is asked in both orders. `again`: of work that is finished.
Then the ratio of each time, which is to be at most 12 for ten times the rows.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.harness import Server, command, write_results

CANDIDATE, BASELINE, JUDGE, RUN = "base", "reference", "pandalm", "runs/rows"
RATIO_AIM, MEMORY_AIM = 12.0, 1.5  # times; GiB


def text(draw: random.Random, words: int) -> str:
    return " ".join("".join(draw.choices("etaoinshrdlu", k=5)) for _ in range(words))


def write_config(rows: int, url: str) -> None:
    """Write rows.yaml here: a server answers `rows` prompts, whose own answers are the baseline's."""
    draw = random.Random(0)
    prompts = [
        {"instruction": f"{number}: {text(draw, 20)}?", "output": text(draw, 60), "generator": BASELINE, "dataset": "x"}
        for number in range(rows)
    ]
    Path("prompts.json").write_text(json.dumps(prompts), encoding="utf-8")
    config = {
        "name": "rows",
        "systems": {CANDIDATE: {"objective": "none"}},
        "answers": {
            "files": ["prompts.json"],
            "generation": {"engine": "server", "base_url": url, "max_new_tokens": 64, "batch_size": 64},
        },
        "comparisons": [[CANDIDATE, "baseline"]],
        "judges": [{"card": JUDGE, "base_url": url, "engine": "server", "concurrency": 64}],
    }
    Path("rows.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")


def measured(folder: Path, rows: int) -> dict[str, dict[str, float]]:
    """What each command takes."""
    folder.mkdir()
    with Server(folder, latency=0) as server, contextlib.chdir(folder):
        write_config(rows, server.url)
        calls = {"generate": "rows.yaml", "generate again": RUN, "judge": RUN, "judge again": RUN, "report": RUN}
        found = {}
        for name, place in calls.items():
            found[name] = command(name.split()[0], place)
            print(f"{rows:>8,} rows  {name:14} {found[name]}", flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs=2, default=[10_000, 100_000], help="fewer, then more")
    parser.add_argument("--no-write", action="store_true", help="leave benchmarks/results as it is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        fewer, more = (measured(Path(temporary) / str(rows), rows) for rows in arguments.rows)
    rows: list[dict[str, Any]] = []
    for name in fewer:
        times = {key: round(more[name][key] / fewer[name][key], 2) for key in ("seconds", "cpu_seconds")}
        rows.append({"command": name, "fewer": fewer[name], "more": more[name], "times": times})
        print(f"{name:14} times {times}, {more[name]['gib']:.2f} GiB")
    print(f"aims: {RATIO_AIM} times, {MEMORY_AIM} GiB")
    if not arguments.no_write:
        load = round(os.getloadavg()[1], 1)  # of five minutes: a busy machine's clock says little
        write_results("many-rows", rows, rows_of=arguments.rows, load_average=load)


if __name__ == "__main__":
    main()
