"""The answer phase over a server: two processes on one run, and prompts that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.data.evaluation import load_answers
from instruct.engines.server import ATTEMPTS


@pytest.fixture
def experiment(tiny_experiment: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    Path("prompts.json").write_text(json.dumps([{"instruction": f"Question {i}?"} for i in range(40)]))
    for key in ("judges", "comparisons", "lora", "train"):
        tiny_experiment.pop(key, None)
    return tiny_experiment | {"systems": {"base": {"objective": "none"}}}


def written(content: dict[str, Any], url: str, batch_size: int = 4) -> str:
    generation = {"engine": "server", "base_url": url, "batch_size": batch_size}
    content |= {"answers": {"files": ["prompts.json"], "generation": generation}}
    Path("mine.yaml").write_text(yaml.safe_dump(content))
    return "mine.yaml"


def test_what_failed_for_now_is_asked_again_by_a_rerun(experiment, fake_server, instruct, short_waits) -> None:
    url, requests = fake_server({"Question 3?": ["500"] * ATTEMPTS, "Question 5?": "400"})
    assert instruct("generate", written(experiment, url))[0] == 0
    record = Path("runs/mine/manifest.json")
    results = json.loads(record.read_text())["steps"]["answers"]["results"]["base"]
    assert (results["n"], results["failed"], results["again"]) == (40, {"HTTP 500": 1, "HTTP 400": 1}, 1)
    before = len(requests())
    for _ in range(2):
        assert instruct("generate", "runs/mine")[0] == 0
        assert len(requests()) - before == 1
    results = json.loads(record.read_text())["steps"]["answers"]["results"]["base"]
    assert (results["failed"], results.get("again")) == ({"HTTP 400": 1}, None)
    rows = load_answers("runs/mine/outputs/base.json")
    assert [row["instruction"] for row in rows if row.get("failed")] == ["Question 5?"]
    before = len(requests())
    code, _, err = instruct("generate", "runs/mine", "--retry-failed")
    assert code == 0, err
    assert "Question 5?" in json.dumps(requests()[before:])
    assert len(requests()) - before == 1
    assert "base: no answer to 1 of 40 requests (1 HTTP 400)" in " ".join(err.split())


def test_answers_that_were_judged_are_not_replaced_in_silence(experiment, fake_server, instruct) -> None:
    url, _ = fake_server()
    assert instruct("generate", written(experiment, url))[0] == 0
    rows = [{"instruction": f"Question {i}?", "output": "B", "generator": "people"} for i in range(40)]
    Path("people.json").write_text(json.dumps(rows))
    Path("other.jsonl").write_text('{"instruction": "Another?"}\n')
    judged = ["--judge", "pandalm", "--base-url", url, "--candidate", "base", "--baseline", "people.json"]
    assert instruct("judge", "runs/mine", *judged)[0] == 0
    kept = Path("runs/mine/outputs/base.json").read_bytes()
    flags = ["--answers.files", "other.jsonl"]
    code, _, err = instruct("generate", "runs/mine", *flags)
    assert code == 2
    assert "answers with other prompts would replace those that judge/pandalm/base_vs_people is about" in err
    assert Path("runs/mine/outputs/base.json").read_bytes() == kept
    assert instruct("generate", "runs/mine", *flags, "--redo", "answers")[0] == 0
    assert [row["instruction"] for row in load_answers("runs/mine/outputs/base.json")] == ["Another?"]
