"""`instruct evaluate --tasks`: every system answers every task, once, and a user's own card needs no Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from instruct.run.measurements import files_folder, read_metrics

CARD = {
    "task": "mood",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"train": "train.csv", "test": "test.csv"}},
    "output_type": "multiple_choice",
    "test_split": "test",
    "fewshot_split": "train",
    "doc_to_text": "{{text}} It is",
    "doc_to_choice": ["bad.", "good."],
    "doc_to_target": "label",
    "num_fewshot": 2,
    "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
}
TRAIN = [("a fine day", 1), ("a grim day", 0), ("fine food", 1), ("grim food", 0)]
TEST = [("a grim hour", 0), ("fine food", 1), ("grim weather", 0), ("fine words", 1), ("fine, fine", 0)]


def write_task(**changes: object) -> None:
    """A task in the current folder."""
    Path("data/tasks").mkdir(parents=True, exist_ok=True)
    Path("data/tasks/mood.yaml").write_text(yaml.safe_dump({**CARD, **changes}))
    for name, rows in (("train", TRAIN), ("test", TEST)):
        Path(f"{name}.csv").write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows))


FLAGS = ["evaluate", "runs/mine", "--tasks", "mood"]


def test_every_system_answers_the_task_and_not_again_unless_it_changes(trained, instruct):
    write_task()
    code, out, err = instruct(*FLAGS)
    assert code == 0, err
    found = read_metrics(trained).tasks
    assert list(found) == ["base", "emo"]
    for system, rows in found.items():
        row, (path,) = rows["mood"], files_folder(trained, "lm_eval/mood", system).glob("samples_mood_*.jsonl")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        assert [int(sample["target"]) for sample in samples] == [label for _, label in TEST]
        assert (row.n, row.details.shots) == (5, 2)
        assert row.value == sum(sample["acc"] for sample in samples) / 5
        assert f"{system}: lm-eval mood acc {row.value:.4f}" in out

    steps, written = trained.manifest()["steps"], (trained.folder / "metrics.json").read_bytes()
    assert list(steps) == ["evaluate/lm_eval/mood/base", "evaluate/lm_eval/mood/emo"]
    assert instruct(*FLAGS)[0] == 0
    assert (trained.manifest()["steps"], (trained.folder / "metrics.json").read_bytes()) == (steps, written)
    write_task(doc_to_text="{{text}} That is")
    Path("test.csv").write_text(Path("test.csv").read_text() + "fine soup,1\n")
    assert instruct(*FLAGS)[0] == 0
    assert {row["mood"].n for row in read_metrics(trained).tasks.values()} == {6}


@pytest.mark.slow
def test_results_that_were_changed_after_they_were_measured_are_refused(trained, instruct):
    write_task()
    assert instruct(*FLAGS)[0] == instruct("report", trained.folder)[0] == 0
    metrics = trained.folder / "metrics.json"
    accuracy = read_metrics(trained).tasks["emo"]["mood"].value
    (samples,) = files_folder(trained, "lm_eval/mood", "base").glob("samples_*")
    for path, content, said in [
        (samples, samples.read_bytes() + b" ", f"{samples.name}: is not what was measured; restore it, or delete"),
        (metrics, metrics.read_bytes().replace(f'"value": {accuracy}'.encode(), b'"value": 99.0'), "its numbers about"),
        (metrics, b'{"version": 2, "measurements": []}', "metrics.json: lacks lm_eval/mood of base, which was"),
    ]:
        path.write_bytes(content)
        code, _, err = instruct("report", trained.folder)
        assert (code, said in err) == (2, True), (said, err)
        path.unlink()  # as the message says
        assert instruct(*FLAGS)[0] == 0
        assert instruct("report", trained.folder)[0] == 0


def test_a_wrong_call_is_refused_before_the_work(trained, instruct):
    code, _, err = instruct("evaluate", trained.folder, "--evaluation.tasks.names", "moood.yaml")
    assert (code, err.count("\n")) == (2, 1)
    assert "moood.yaml: no such file; give an existing card or a name from" in err
    assert not trained.manifest()["steps"]
