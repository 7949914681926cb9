"""What a terminal of 80 columns shows is the command's own, for each verb; what libraries print is in the run's log."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import yaml
from forked import run_in_terminal

ROOT = Path(__file__).resolve().parents[2]
# What libraries print while they train, load, ask and measure: tqdm's bars, the Trainer's figures, warnings, log lines.
LIBRARY = re.compile(
    r"\d+%\||it/s|s/it|examples/s|\{'\w+': |Warning:|site-packages|^(WARNING|INFO|ERROR) \d\d-\d\d|^\[\w+:|\[rank\d\]"
)
STEP = re.compile(r"(emo|mle)(-seed\d)?  step \d+/\d+(  evaluated)?(  (loss|ce|rate|norm|perplexity) [\d.e+-]+)+")
BAR = re.compile(r".+ [━╸╺]+ +\d+/(\d+|\?) \d:\d\d:\d\d( +[\d-]:[\d-]{2}:[\d-]{2})?")


def lines(printed: str) -> list[str]:
    """Every state of every line, without colors and movements of the cursor."""
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", printed)
    return [line for line in re.split(r"[\r\n]+", plain) if line]


def test_a_run_shows_its_own_lines_and_keeps_those_of_libraries(tiny_experiment):
    tiny_experiment["train"] |= {"max_steps": 2, "logging_steps": 1}
    tiny_experiment["systems"] = {name: {"objective": name} for name in ("mle", "emo")}
    Path("config.yaml").write_text(yaml.safe_dump(tiny_experiment))
    command = [sys.executable, "-m", "instruct", "run", "config.yaml"]
    code, printed = run_in_terminal(command, Path.cwd(), os.environ | {"PYTHONPATH": str(ROOT)})
    assert code == 0, printed
    found = lines(printed)
    assert [line for line in found if LIBRARY.search(line)] == []
    bars = [line for line in found if "━" in line and line[0] not in "┏┡"]
    assert [line for line in bars if not BAR.fullmatch(line.strip())] == []
    assert {"training mle", "training emo"} <= {line.partition(" ━")[0] for line in bars if "2/2" in line}
    steps = [line for line in found if " step " in line]
    assert [line[:13] for line in steps] == ["emo  step 1/2", "emo  step 2/2", "mle  step 1/2", "mle  step 2/2"]
    assert [line for line in steps if not STEP.fullmatch(line)] == []
    assert [line for line in bars + steps if len(line) > 80] == []
    log = Path("runs/mine/log.txt").read_text()
    assert LIBRARY.search(log)
    assert " step 1/2" not in log
