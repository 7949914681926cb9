"""Runs that an earlier version recorded (tests/runs_of_today): finished ones start no step, stopped ones resume."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "runs_of_today"
FINISHED = ["lora", "full", "mixture", "tasks", "texts", "seeds"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The recorded runs in a folder of their own, in which the command runs; nobody is at the judge's address."""
    shutil.copytree(RECORDED, tmp_path / "here")
    (tmp_path / "here" / "recorded").rename(tmp_path / "here" / "runs")
    monkeypatch.chdir(tmp_path / "here")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    reach(monkeypatch, "http://127.0.0.1:9")
    return tmp_path / "here"


def reach(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)


def steps_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "manifest.json").read_text())["steps"]


def results_of(run: Path) -> dict[str, str]:
    """The hashes of what the phases made."""
    made = [path for part in ("adapters", "outputs", "continuations") for path in (run / part).rglob("*")]
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in made
        if path.is_file() and not path.name.startswith(".") and path.suffix in (".safetensors", ".json")
    }


@pytest.fixture
def trained(monkeypatch) -> list[int]:
    """The steps of training that are taken."""
    from transformers.trainer_callback import DefaultFlowCallback

    steps: list[int] = []
    go_on = DefaultFlowCallback.on_step_end

    def count(self: Any, args: Any, state: Any, control: Any, **more: Any) -> Any:
        steps.append(state.global_step)
        return go_on(self, args, state, control, **more)

    monkeypatch.setattr(DefaultFlowCallback, "on_step_end", count)
    return steps


@pytest.mark.parametrize("name", FINISHED)
def test_a_finished_run_starts_no_step(folder, instruct, trained, name):
    run = folder / "runs" / f"finished_{name}"
    steps, results = steps_of(run), results_of(run)
    code, _, err = instruct("run", f"finished_{name}.yaml")
    assert code == 0, err
    assert trained == []
    assert steps_of(run) == steps
    assert results_of(run) == results


def test_a_finished_run_goes_on_with_options_that_change_no_result(folder, instruct, trained):
    """Before, each of them was refused."""
    run = folder / "runs" / "finished_lora"
    steps, results = steps_of(run), results_of(run)
    changes = {
        "answers.generation.gpu_memory_utilization": "0.5",
        "train.logging_steps": "3",
        "train.report_to": "tensorboard",
        "train.save_total_limit": "2",
        "train.dataloader_num_workers": "1",
    }
    flags = [part for key, value in changes.items() for part in (f"--{key}", value)]
    code, out, err = instruct("run", "finished_lora.yaml", *flags)
    assert code == 0, err
    assert {line.split()[1] for line in (out + err).splitlines() if line.startswith("changed ")} == set(changes)
    assert trained == []
    assert (steps_of(run), results_of(run)) == (steps, results)
    code, _, err = instruct("run", "finished_lora.yaml", *flags, "--train.learning_rate", "0.5")
    assert code == 2
    assert "train.learning_rate was" in err


@pytest.mark.parametrize(("name", "steps"), [("lora", [5, 6, 1, 2, 3, 4, 5, 6]), ("full", [5, 6])])
def test_a_stopped_training_goes_on_at_its_checkpoint(folder, instruct, trained, name, steps):
    run = folder / "runs" / f"stopped_training_{name}"
    code, _, err = instruct("run", f"stopped_training_{name}.yaml")
    assert code == 0, err
    assert trained == steps
    interrupted = "train/mle" if name == "lora" else "train/emo"
    assert steps_of(run)[interrupted]["attempts"] == 2
    assert steps_of(run)["answers"]["status"] == "done"


def test_stopped_answers_go_on_at_their_batch(folder, instruct, trained, fake_server, monkeypatch):
    transformers = pytest.importorskip("transformers")
    if transformers.__version__ != "5.19.0":
        pytest.skip(f"batches of transformers 5.19.0 are not continued by {transformers.__version__}")
    run = folder / "runs" / "stopped_answering"
    journal = run / "outputs" / "mle.batches.jsonl"
    header, *batches = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
    for batch in batches:  # if these were asked again, the model's own words would be in their place
        batch["texts"] = [f"kept {batch['batch']} {place}" for place in range(2)]
    journal.write_text("".join(json.dumps(row) + "\n" for row in (header, *batches)), encoding="utf-8")
    url, _ = fake_server()
    reach(monkeypatch, url.removesuffix("/v1"))
    code, _, err = instruct("run", "stopped_answering.yaml")
    assert code == 0, err
    assert trained == []
    answers = [row["output"] for row in json.loads((run / "outputs" / "mle.json").read_text())]
    assert answers[:4] == ["kept 0 0", "kept 0 1", "kept 1 0", "kept 1 1"]
    assert len(answers) == 6
    assert not any("kept" in answer for answer in answers[4:])


def test_stopped_judging_asks_what_is_missing(folder, instruct, trained, fake_server, monkeypatch):
    run = folder / "runs" / "stopped_judging"
    steps, results = steps_of(run), results_of(run)
    url, requests = fake_server()
    reach(monkeypatch, url.removesuffix("/v1"))
    code, _, err = instruct("run", "stopped_judging.yaml")
    assert code == 0, err
    assert trained == []
    assert len(requests()) == 3 + 6  # PandaLM has judged three of six pairs, Auto-J none
    assert results_of(run) == results
    assert {name: record for name, record in steps_of(run).items() if not name.startswith("judge/")} == {
        name: record for name, record in steps.items() if not name.startswith("judge/")
    }
    report = json.loads((run / "report" / "report.json").read_text())
    pairs = {judge["name"]: judge["comparisons"][0]["pairs_judged"] for judge in report["judges"]}
    assert pairs == {"pandalm": 6, "autoj": 6}


def test_an_input_that_was_not_recorded_equals_its_default(folder, instruct, trained):
    run = folder / "runs" / "finished_full"
    manifest = json.loads((run / "manifest.json").read_text())
    for name in ("limit", "template"):
        assert manifest["steps"]["answers"]["inputs"]["answers"].pop(name) is None
    del manifest["steps"]["train/emo"]["inputs"]["model"]["attn_implementation"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    code, _, err = instruct("run", "finished_full.yaml")
    assert code == 0, err
    assert trained == []
    assert steps_of(run)["answers"]["attempts"] == 1
