"""What a terminal of 80 columns shows is the command's own, for each verb; what libraries print is in the run's log."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
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


@pytest.fixture
def config(tiny_experiment) -> str:
    experiment = tiny_experiment | {
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "comparisons": [["emo", "mle"]],
        "evaluation": {"texts": {"held_out": {"files": ["texts.txt"]}, "metrics": ["perplexity"], "max_length": 64}},
    }
    experiment["train"] |= {"max_steps": 2, "logging_steps": 1}
    Path("config.yaml").write_text(yaml.safe_dump(experiment))
    Path("texts.txt").write_text("A text that people wrote.\n" * 3)
    rows = [{"instruction": f"Say {n}.", "output": f"It is {n}."} for n in range(40)]
    Path("many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "config.yaml"


def shown(*words: object) -> list[str]:
    code, printed = run_in_terminal([sys.executable, *words], Path.cwd(), os.environ | {"PYTHONPATH": str(ROOT)})
    assert code == 0, printed
    return lines(printed)


def check(found: list[str]) -> None:
    assert [line for line in found if LIBRARY.search(line)] == []
    bars = [line for line in found if "━" in line and line[0] not in "┏┡"]
    assert [line for line in bars if not BAR.fullmatch(line.strip())] == []
    assert [line for line in found if ("━" in line or STEP.match(line)) and len(line) > 80] == []


def test_a_run_shows_its_own_lines_and_keeps_those_of_libraries(config):
    found = shown("-m", "instruct", "run", config)
    check(found)
    steps = [line for line in found if " step " in line]
    assert [line[:13] for line in steps] == ["emo  step 1/2", "emo  step 2/2", "mle  step 1/2", "mle  step 2/2"]
    assert [line for line in steps if not STEP.fullmatch(line)] == []
    assert {"training mle", "training emo"} <= {line.partition(" ━")[0] for line in found if "2/2" in line}
    log = Path("runs/mine/log.txt").read_text()
    assert "{'loss'" in log
    assert LIBRARY.search(log)
    assert " step 1/2" not in log


@pytest.mark.slow
def test_a_verbose_command_shows_those_of_libraries(config):
    found = shown("-m", "instruct", "train", config, "--verbose")
    assert sum("{'loss'" in line for line in found) == 4
    assert any("it/s" in line or "s/it" in line for line in found)
    assert sum(bool(STEP.fullmatch(line)) for line in found) == 4
    assert not Path("runs/mine/log.txt").exists()


VERBS = [
    ["preview", "config.yaml"],
    ["check", "emo"],
    ["run", "config.yaml", "--name", "evaluated", "--data.eval_files", "[many.jsonl]", "--train.eval_steps", "1"],
    ["evaluate", "runs/mine"],
    ["generate", "runs/mine", "--redo", "answers", "--answers.generation.max_new_tokens", "5"],
    ["judge", "runs/mine", "--judge", "smollm2_score"],
    ["report", "runs/mine"],
    ["bench", "--model", "model", "--data", "many.jsonl", "--objectives", "mle,emo", "--seeds", "1", "--rates", "1e-3"],
]
TINY = ["--train.max_steps", "2", "--train.logging_steps", "1", "--answers.generation.engine", "transformers"]
TINY += ["--answers.generation.max_new_tokens", "4"]


@pytest.mark.slow
def test_no_verb_shows_a_line_of_a_library(config):
    shown("-m", "instruct", "run", config)
    for verb in VERBS:
        check(shown("-m", "instruct", *verb, *(TINY if verb[0] == "bench" else [])))


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_shows_nothing(config, smollm2):
    content = yaml.safe_load(Path(config).read_text())
    Path(config).write_text(yaml.safe_dump({**content, "model": {"name": smollm2}}))
    shown("-m", "instruct", "train", config)
    check(shown("-m", "instruct", "generate", "runs/mine", "--answers.generation.engine", "vllm"))
    assert "vllm" in Path("runs/mine/log.txt").read_text()
