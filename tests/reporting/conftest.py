"""A run with verdicts that the tests wrote, through the real run directory and the real store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.analysis.outcomes import candidate_is_second
from instruct.base.files import write_atomically
from instruct.judging.store import Judgment, JudgmentStore
from instruct.run.directory import RunDirectory

CONFIG = {
    "name": "small",
    "model": {"name": "tiny|model", "quantization": None},
    "data": {"card": "starter", "files": None},
    "lora": {"r": 8, "use_dora": False},
    "train": {"num_train_epochs": 2, "learning_rate": 2e-4},
    "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
    "answers": {"eval_set": "starter_eval", "generation": {"max_new_tokens": 64, "temperature": 0.0}},
}


@pytest.fixture(autouse=True)
def _no_judges_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def card(tmp_path) -> Callable[..., None]:
    """Writes ./judges/NAME/judge.yaml, a card for verdicts in the store."""

    def write(name: str, **changes: object) -> None:
        content: dict[str, object] = {
            "name": name,
            "description": "a judge of the tests",
            "model": "nobody/judge-1b",
            "protocol": "pairwise",
            "prompt": "prompt.txt",
            "prompt_form": "text",
            "decoding": {},
            "verdict": {"parser": "autoj"},
            "order_policy": "both",
            "leading_policy": "strict",
            "context_length": 4096,
            "licence": "none",
        }
        write_atomically(tmp_path / "judges" / name / "prompt.txt", "{instruction} {first} {second}")
        write_atomically(tmp_path / "judges" / name / "judge.yaml", yaml.safe_dump(content | changes))

    return write


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    run = RunDirectory(tmp_path / "runs" / "small")
    run.folder.mkdir(parents=True)
    write_atomically(run.folder / "config.yaml", yaml.safe_dump(CONFIG, sort_keys=False))
    manifest = {
        "format": 3,
        "created": "2026-01-02T03:04:05+00:00",
        "updated": "2026-01-02T03:04:05+00:00",
        "versions": {"instruct": "0.1.0", "torch": "2.13.0"},
        "machine": {"processor": "A <b>CPU</b>", "cores": 2, "memory_gib": 23.5, "gpus": []},
        "steps": {
            "train/emo": {
                "status": "done",
                "minutes": 1.25,
                "attempts": 2,
                "inputs": {"data": "d" * 64},
                "results": {
                    "rows": {"read": 12, "kept": 9, "truncated": 1, "empty": 2, "fully_masked": 0},
                    "steps": 5,
                },
            }
        },
    }
    write_atomically(run.manifest_path, json.dumps(manifest))
    return run


@pytest.fixture
def add_step(run) -> Callable[..., None]:
    """Adds a finished step, changed by the keywords, to the manifest."""

    def add(name: str, **changes: object) -> None:
        manifest = run.manifest()
        step = {"status": "done", "minutes": 0.5, "attempts": 1, "inputs": {}, "results": {}}
        if name.startswith("judge/"):
            judge, _, pair = name.removeprefix("judge/").rpartition("/")
            candidate, _, baseline = pair.partition("_vs_")
            step["comparison"] = {"judge": judge, "candidate": candidate, "baseline": baseline}
        manifest["steps"][name] = step | changes
        write_atomically(run.manifest_path, json.dumps(manifest))

    return add


@pytest.fixture
def write_answers(run) -> Callable[..., Path]:
    """Writes outputs/NAME.json with `n` answers; the baseline's differ from the others', and are as long."""

    def write(name: str, n: int, output: str | None = None) -> Path:
        answer = output if output is not None else "secret reply." if name in ("mle", "theirs") else "secret answer"
        rows = [
            {"dataset": "d", "instruction": f"secret prompt {number}", "output": answer, "generator": name}
            for number in range(n)
        ]
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
        return run.outputs / f"{name}.json"

    return write


@pytest.fixture
def judge_showings(run) -> Callable[..., None]:
    """Stores one verdict per pair with its other fields; `position` says where the candidate was shown."""

    def write(*showings: dict[str, object], judge: str = "j") -> None:
        given = {"judge": judge, "candidate": "emo", "baseline": "mle", "dataset": "d", "position": "first", "key": "k"}
        with JudgmentStore(run.store) as store:
            store.add_judgments(
                Judgment(**{"pair": number, "instruction": f"secret prompt {number}", **given, **showing})  # type: ignore[arg-type]
                for number, showing in enumerate(showings)
            )

    return write


@pytest.fixture
def judge_pairs(run) -> Callable[..., None]:
    """Stores verdicts as shown: per pair (candidate first, candidate second), or one in the seeded order."""

    def write(
        verdicts: list[tuple[str, str] | str],
        judge: str = "j",
        candidate: str = "emo",
        baseline: str = "mle",
        judged: RunDirectory = run,
    ) -> None:
        judgments = []
        for number, pair in enumerate(verdicts):
            instruction = f"secret prompt {number}"
            drawn = "second" if candidate_is_second(instruction) else "first"
            orders = {drawn: pair} if isinstance(pair, str) else {"first": pair[0], "second": pair[1]}
            for position, verdict in orders.items():
                judgments.append(Judgment(judge, candidate, baseline, number, instruction, "d", position, "k", verdict))
        with JudgmentStore(judged.store) as store:
            store.add_judgments(judgments)

    return write


@pytest.fixture
def judge_run(run, card, write_answers, judge_pairs, judge_showings) -> Callable[..., RunDirectory]:
    """`judge_run(verdicts, **card)`: answers of emo and mle, and verdicts of j as `judge_pairs` or `judge_showings`."""

    def write(verdicts: list[Any], **changes: object) -> RunDirectory:
        graded = isinstance(verdicts[0], dict)
        card("j", **({"order_policy": "one", "leading_policy": "single"} if graded else {}) | changes)
        for name in ("emo", "mle"):
            write_answers(name, len(verdicts))
        if graded:
            judge_showings(*verdicts)
        else:
            judge_pairs(verdicts)
        return run

    return write
