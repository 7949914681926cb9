"""Tasks while training: scores in the log and the curves, and the same weights as without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from safetensors.torch import load_file

from instruct.run.directory import RunDirectory

pytest.importorskip("lm_eval")

CHOICE = {
    "task": "choice",
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "questions.jsonl"}},
    "test_split": "test",
    "doc_to_text": "{{text}} was",
    "output_type": "multiple_choice",
    "doc_to_choice": ["dark", "fine"],
    "doc_to_target": "label",
}
SAMPLED = {key: value for key, value in CHOICE.items() if key != "doc_to_choice"} | {
    "task": "sampled",
    "output_type": "generate_until",
    "doc_to_target": "dark",
    "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    "generation_kwargs": {"until": ["\n"], "max_gen_toks": 4, "do_sample": True, "temperature": 1.0},
}


@pytest.mark.slow
def test_tasks_are_asked_while_training_and_change_no_weight(tiny_experiment, instruct, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    Path("questions.jsonl").write_text("\n".join(json.dumps({"text": f"night {n}", "label": n % 2}) for n in range(6)))
    for task in (CHOICE, SAMPLED):
        Path(f"{task['task']}.yaml").write_text(yaml.safe_dump(task))
    content = tiny_experiment | {"judges": [], "comparisons": [], "answers": None}
    content["train"] = content.get("train", {}) | {"max_steps": 4, "logging_steps": 1}
    tasks = {"cards": ["choice.yaml", "sampled.yaml"], "every_steps": 2}
    weights = {}
    for name, evaluation in (("without", None), ("with", {"tasks": tasks})):
        Path(f"{name}.yaml").write_text(yaml.safe_dump(content | {"name": name, "evaluation": evaluation}))
        code, _, err = instruct("train", f"{name}.yaml")
        assert code == 0, err
        run = RunDirectory(Path("runs") / name)
        (trained,) = (path for path in run.adapters.iterdir() if path.is_dir())
        weights[name] = load_file(trained / "adapter_model.safetensors")
    assert weights["with"].keys() == weights["without"].keys()
    assert all((value == weights["without"][key]).all() for key, value in weights["with"].items())
    log = json.loads((trained / "training_log.json").read_text())
    asked = [entry for entry in log if "eval_tasks/choice/acc" in entry]
    assert [entry["step"] for entry in asked] == [2, 4]
    assert all("eval_tasks/sampled/exact_match" in entry for entry in asked)
    assert [entry["step"] for entry in log if "ce" in entry] == [1, 2, 3, 4]
    assert instruct("evaluate", run.folder)[0] == 0
    assert instruct("report", run.folder)[0] == 0
    report = json.loads((run.report / "report.json").read_text())
    (training,) = report["trainings"]
    assert training["tasks"]["step"] == [2, 4]
    scores = [entry["eval_tasks/choice/acc"] for entry in asked]
    assert training["tasks"]["scores"]["choice/acc"] == pytest.approx(scores, abs=1e-6)
    assert "Training: scores of tasks over the steps" in (run.report / "report.html").read_text()


def test_a_task_that_cannot_be_read_ends_before_training(tiny_experiment, instruct):
    content = tiny_experiment | {"name": "wrong", "judges": [], "comparisons": [], "answers": None}
    content["evaluation"] = {"tasks": {"cards": ["no.yaml"], "every_steps": 2}}
    Path("wrong.yaml").write_text(yaml.safe_dump(content))
    code, _, err = instruct("train", "wrong.yaml")
    assert code == 2
    assert "no.yaml: no such file" in err
    assert not list(Path("runs/wrong").glob("adapters/*/adapter_model.safetensors"))
