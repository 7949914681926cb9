"""Runs that an earlier version left behind (tests/runs_of_today): finished ones start no step, stopped ones go on.

Everything goes through the command and files, as recorded by that version or as documented: whatever this version keeps
its results in, nothing is trained, answered or asked again.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

RECORDED = Path(__file__).resolve().parents[1] / "runs_of_today"
ENDPOINT = "http://192.0.2.1:8000/v1"  # an address for documentation: nobody has it
PROMPTS = [row["instruction"] for row in json.loads((RECORDED / "prompts.json").read_text(encoding="utf-8"))]

Command = Callable[..., tuple[int, str, str]]
Requests = Callable[[], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def server(shared_fake_server) -> tuple[str, Requests]:
    return shared_fake_server(delay=0)


@pytest.fixture
def requests(server, monkeypatch) -> Requests:
    """What this test has sent to the address in the configs, for which the fake server answers as an HTTP proxy."""
    url, log = server
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, url.removesuffix("/v1"))
    before = len(log())

    def sent() -> list[dict[str, Any]]:
        found = log()[before:]
        assert all(entry["path"].startswith(ENDPOINT) for entry in found)
        return [entry["body"] for entry in found]

    return sent


@pytest.fixture
def recorded(tmp_path, monkeypatch) -> Callable[[str], Path]:
    """A recorded run by name, with its config and inputs, in a folder of its own, which becomes the current one."""

    def copy(name: str) -> Path:
        runs = [path.stem for path in RECORDED.glob("*.yaml")]
        shutil.copytree(RECORDED, tmp_path / "work", ignore=shutil.ignore_patterns(*runs, "make.py"))
        monkeypatch.chdir(tmp_path / "work")
        shutil.copytree(RECORDED / name, Path("runs") / name)
        return Path("runs") / name

    return copy


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def steps_of(run: Path) -> dict[str, dict[str, Any]]:
    """How each step went."""
    records = read(run / "manifest.json")["steps"]
    return {
        name: {key: record.get(key) for key in ("status", "started", "attempts")} for name, record in records.items()
    }


def inputs_of(run: Path, step: str) -> dict[str, Any]:
    return read(run / "manifest.json")["steps"][step]["inputs"]


def results_of(run: Path) -> dict[str, str]:
    """The hashes of adapters, models, answers and continuations."""
    made = [path for part in ("adapters", "outputs", "continuations") for path in (run / part).rglob("*")]
    kept = [path for path in made if path.is_file() and not path.name.endswith(".jsonl")]  # not journals
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in kept}


def answers_of(run: Path, system: str) -> list[str]:
    rows = read(run / "outputs" / f"{system}.json")
    assert [row["instruction"] for row in rows] == PROMPTS
    return [row["output"] for row in rows]


def judged_pairs(run: Path) -> dict[str, list[int]]:
    """The pairs that each judge has judged, by comparison, as the report has them."""
    judges = read(run / "report" / "report.json")["judges"]
    return {judge["name"]: [each["pairs_judged"] for each in judge["comparisons"]] for judge in judges}


def finish(instruct: Command, config: str, *flags: str) -> None:
    code, _, err = instruct("run", config, *flags)
    assert code == 0, err


@pytest.mark.parametrize("name", ["two_judges", "full", "mixture_and_task", "texts", "seeds"])
def test_a_finished_run_starts_nothing(recorded, instruct, requests, name):
    run = recorded(name)
    steps, results = steps_of(run), results_of(run)
    assert {step["status"] for step in steps.values()} == {"done"}
    assert results
    finish(instruct, f"{name}.yaml")
    assert steps_of(run) == steps
    assert results_of(run) == results
    assert requests() == []


def test_the_report_has_every_verdict_of_a_finished_run(recorded, instruct, requests):
    run = recorded("two_judges")
    records = read(run / "manifest.json")["steps"]
    finish(instruct, "two_judges.yaml", "--from", "report")
    assert judged_pairs(run) == {"in_words": [6], "in_rating": [6]}
    paid = sum(record["results"]["usd"] for name, record in records.items() if name.startswith("judge/"))
    assert read(run / "report" / "report.json")["usd"] == pytest.approx(paid)
    assert paid > 0
    assert requests() == []


@pytest.mark.parametrize("name", ["stopped_training_lora", "stopped_training_full"])
def test_a_stopped_training_goes_on_at_its_checkpoint(recorded, instruct, name):
    run = recorded(name)
    steps = steps_of(run)
    assert steps["train/emo"]["status"] == "started"
    assert "answers" not in steps
    checkpoint = run / "checkpoints" / "emo" / "checkpoint-4"
    state = read(checkpoint / "trainer_state.json")
    state["log_history"][0]["loss"] = 99.0  # no training has this loss: these steps are not taken again
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    finish(instruct, f"{name}.yaml")
    log = [entry for entry in read(run / "adapters" / "emo" / "training_log.json") if "loss" in entry]
    assert [entry["step"] for entry in log] == [1, 2, 3, 4, 5, 6]
    assert log[:4] == [entry for entry in state["log_history"] if "loss" in entry]
    now = steps_of(run)
    assert (now["train/emo"]["status"], now["train/emo"]["attempts"]) == ("done", 2)
    assert {name: now[name] for name in steps if name != "train/emo"} == {
        name: record for name, record in steps.items() if name != "train/emo"
    }
    assert now["answers"]["status"] == "done"
    if name == "stopped_training_full":
        samples = (run / "samples" / "emo.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line)["step"] for line in samples] == [2, 4, 6]


def test_stopped_answers_go_on_at_their_batch(recorded, instruct):
    import torch
    import transformers

    run = recorded("stopped_answering")
    steps, adapters = steps_of(run), results_of(run)
    # One system is answered, a third of the other. If these were asked again, the model's words would replace ours.
    for system, kept in (("mle", 3), ("emo", 1)):
        journal = run / "outputs" / f"{system}.batches.jsonl"
        header, *batches = map(json.loads, journal.read_text(encoding="utf-8").splitlines())
        assert len(batches) == kept
        # What another version or device answered is not mixed with this one's.
        device = "cuda" if torch.cuda.is_available() else "cpu"
        header["engine"] = f"transformers {transformers.__version__} {device}"
        for batch in batches:
            batch["texts"] = [f"kept {batch['batch']} {place}" for place in range(2)]
        journal.write_text("".join(json.dumps(line) + "\n" for line in (header, *batches)), encoding="utf-8")
    finish(instruct, "stopped_answering.yaml")
    assert answers_of(run, "mle") == [f"kept {batch} {place}" for batch in range(3) for place in range(2)]
    assert answers_of(run, "emo")[:2] == ["kept 0 0", "kept 0 1"]
    assert not any("kept" in answer for answer in answers_of(run, "emo")[2:])
    now = steps_of(run)
    assert (now["answers"]["status"], now["answers"]["attempts"]) == ("done", 2)
    assert {name: now[name] for name in steps if name != "answers"} == {
        name: record for name, record in steps.items() if name != "answers"
    }
    assert {name: results_of(run)[name] for name in adapters} == adapters


def test_a_server_is_asked_for_the_missing_batches_alone(recorded, instruct, requests):
    run = recorded("stopped_answering_server")
    kept: dict[str, list[str]] = {}
    for system in ("base", "emo"):
        journal = (run / "outputs" / f"{system}.batches.jsonl").read_text(encoding="utf-8").splitlines()
        kept[system] = [text for line in journal[1:] for text in json.loads(line)["texts"]]
    assert (len(kept["base"]), len(kept["emo"])) == (6, 2)
    finish(instruct, "stopped_answering_server.yaml")
    assert {body["model"] for body in requests()} == {"emo"}
    assert sorted(body["messages"][-1]["content"] for body in requests()) == sorted(PROMPTS[2:])
    assert answers_of(run, "base") == kept["base"]
    assert answers_of(run, "emo")[:2] == kept["emo"]
    assert (steps_of(run)["answers"]["status"], steps_of(run)["answers"]["attempts"]) == ("done", 2)


def test_stopped_judging_asks_what_has_no_verdict(recorded, instruct, requests):
    """Of one judge all twelve verdicts are stored, of the other three, which only SQLite's log of changes has."""
    run = recorded("stopped_judging")
    assert (run / "judgments.sqlite-wal").stat().st_size > 0
    steps, results = steps_of(run), results_of(run)
    finish(instruct, "stopped_judging.yaml")
    assert [body["model"] for body in requests()] == ["some/json"] * (12 - 3)
    assert len({body["messages"][-1]["content"] for body in requests()}) == 12 - 3
    assert judged_pairs(run) == {"in_words": [6], "in_json": [6]}
    now, interrupted = steps_of(run), "judge/in_json/emo_vs_baseline"
    assert (now[interrupted]["status"], now[interrupted]["attempts"]) == ("done", 2)
    assert {name: now[name] for name in steps if name != interrupted} == {
        name: record for name, record in steps.items() if name != interrupted
    }
    assert results_of(run) == results


def test_an_input_that_was_not_recorded_counts_as_its_default(recorded, instruct, requests):
    """Options that are newer than a run are absent in what its steps were made from, and in its config.yaml."""
    run = recorded("two_judges")
    newer = {"from_scratch", "seed", "learning_rate", "energy_weight", "energy_dim"}
    assert not newer & {*inputs_of(run, "train/emo"), *inputs_of(run, "train/emo")["system"]}
    assert not {"base_url", "tensor_parallel_size"} & {*inputs_of(run, "answers")["answers"]["generation"]}
    judged = inputs_of(run, "judge/in_rating/emo_vs_baseline")["judge"]
    assert not {"dtype", "quantization", "tensor_parallel_size", "stop_when"} & {*judged}
    earlier = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    del earlier["from_scratch"], earlier["cluster"]
    for system in earlier["systems"].values():
        del system["energy_weight"], system["energy_dim"], system["learning_rate"]
    (run / "config.yaml").write_text(yaml.safe_dump(earlier), encoding="utf-8")

    config = yaml.safe_load(Path("two_judges.yaml").read_text(encoding="utf-8"))
    config["from_scratch"] = False
    config["systems"]["emo"] |= {"seed": None, "learning_rate": None, "energy_weight": 10.0, "energy_dim": 128}
    config["answers"]["generation"] |= {"base_url": None, "tensor_parallel_size": None}
    for judge in config["judges"]:
        judge |= {"dtype": None, "quantization": None, "tensor_parallel_size": None, "stop_when": None}
    Path("explicit.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    steps, results = steps_of(run), results_of(run)
    finish(instruct, "explicit.yaml")
    assert steps_of(run) == steps
    assert results_of(run) == results

    config["judges"][1]["stop_when"] = "decided"
    Path("explicit.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    code, _, err = instruct("run", "explicit.yaml")
    assert code == 2
    assert "stop_when" in err
    assert steps_of(run) == steps
    assert requests() == []


@pytest.mark.parametrize(
    ("name", "step", "missing", "default", "other"),
    [
        ("seeds", "answers", "model", ("--model.dtype", "bfloat16"), ("--model.dtype", "float32")),
        ("full", "train/emo", "from_scratch", ("--from_scratch", "false"), ("--from_scratch", "true")),
    ],
)
def test_only_another_value_than_the_default_is_refused(recorded, instruct, name, step, missing, default, other):
    run = recorded(name)
    assert missing not in inputs_of(run, step)
    steps, results = steps_of(run), results_of(run)
    finish(instruct, f"{name}.yaml", *default, "--until", "answer")
    assert (steps_of(run), results_of(run)) == (steps, results)
    code, _, err = instruct("run", f"{name}.yaml", *other, "--until", "answer")
    assert code == 2
    assert other[0].removeprefix("--") in err
    assert (steps_of(run), results_of(run)) == (steps, results)


def test_a_finished_run_goes_on_with_options_that_change_no_result(recorded, instruct, requests):
    run = recorded("two_judges")
    steps, results = steps_of(run), results_of(run)
    changes = {
        "answers.generation.gpu_memory_utilization": "0.5",
        "train.logging_steps": "3",
        "train.report_to": "tensorboard",
        "train.save_total_limit": "2",
        "train.dataloader_num_workers": "1",
    }
    flags = [part for key, value in changes.items() for part in (f"--{key}", value)]
    code, out, err = instruct("run", "two_judges.yaml", *flags)
    assert code == 0, err
    assert {line.split()[1] for line in (out + err).splitlines() if line.startswith("changed ")} == set(changes)
    assert (steps_of(run), results_of(run), requests()) == (steps, results, [])


@pytest.mark.parametrize("change", ["--train.learning_rate", "--systems.emo.learning_rate"])
def test_a_finished_run_is_refused_for_what_its_training_depends_on(recorded, instruct, requests, change):
    run = recorded("two_judges")
    results = results_of(run)
    code, _, err = instruct("run", "two_judges.yaml", change, "0.5")
    assert code == 2
    assert f"{change.removeprefix('--')} was" in err
    assert (results_of(run), requests()) == (results, [])


def test_a_card_whose_metadata_yaml_reads_oddly_keeps_its_text(recorded, instruct, requests):
    run = recorded("two_judges")
    (run / "adapters" / "emo" / "README.md").write_text("---\nlibrary_name: peft\nno: true\n---\n\n# My model\n")
    code, _, err = instruct("report", run)
    assert code == 0, err
    assert (run / "report" / "report.html").is_file()
    cards = [path.read_text() for path in (run / "report" / "exports").glob("model-card-*.md")]
    assert any("# My model" in card for card in cards)
