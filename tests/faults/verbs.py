"""A call of each verb of the command's own registry on the finished run of `works`, and what disturbs it."""

from __future__ import annotations

import argparse
import ctypes
import json
from pathlib import Path

import yaml
from works import PROMPTS, RUN, run_verb

from instruct.command.main import make_parser, verbs_of

PARSERS = verbs_of(make_parser())
# What a call needs, by the name that the parser has for it; a new verb needs a line if it names something new.
VALUES: dict[str, list[str]] = {
    "run": [str(RUN)],
    "config": ["mine.yaml"],
    "configs": ["mine.yaml"],
    "what": ["runs"],
    "objective": ["mle"],
    "paths": [str(RUN)],
    "file": ["verdicts.json"],
    "output": ["made"],
    "judge": ["in_words"],
    "against": ["labels.json"],
    "difference": ["5"],
}
OTHERWISE = {("bench", "config"): ["bench.yaml"], ("power", "paths"): ["units.csv"]}
# What makes a call that does its work in seconds.
MORE = {
    "bench": ["--dry-run", "--systems", "{mle: {objective: mle}, emo: {objective: emo}}"],
    "power": ["--unit-column", "unit", "--metric", "score"],
    "validate": ["--judge", "in_words", "--budget-usd", "1", "--output", "made"],
}


def call_of_verb(verb: str, url: str) -> list[str]:
    call = [verb]
    for action in PARSERS[verb]._actions:
        if isinstance(action, argparse._HelpAction) or not (action.required or not action.option_strings):
            continue
        values = OTHERWISE.get((verb, action.dest)) or VALUES[action.dest]
        call += [*action.option_strings[:1], *values]
    return [*call, *MORE.get(verb, []), *(["--base-url", url] if verb == "validate" else [])]


def write_more(folder: Path) -> None:
    """What the calls read beside the run of `works`."""
    config = yaml.safe_load((folder / "mine.yaml").read_text())
    train = {key: value for key, value in config["train"].items() if key != "learning_rate"}
    kept = {key: config[key] for key in ("model", "data", "lora", "answers")}
    (folder / "bench.yaml").write_text(yaml.safe_dump({"name": "benched", "train": train, **kept}))
    pairs = [
        {"instruction": f"Which door is {n}?", "output_1": "This.", "output_2": f"That {n}."} for n in range(PROMPTS)
    ]
    labels = [pair | {"label": ("first", "second")[n % 2]} for n, pair in enumerate(pairs)]
    (folder / "labels.json").write_text(json.dumps(labels))
    names = {"generator_1": "us", "generator_2": "them", "annotator": "theirs"}
    verdicts = [pair | names | {"preference": 1 + n % 2} for n, pair in enumerate(pairs)]
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    (folder / "units.csv").write_text("unit,score\n" + "".join(f"{n},{n % 2}\n" for n in range(40)))


def run_without_rights(call: list[str], folder: Path, log: Path) -> None:
    """A process that is `instruct CALL` without root's rights, who may write whatever it reads."""
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, none) == 0
    run_verb(call, folder, log)
