"""`instruct evaluate --tasks`: every system answers every task, once, and a user's own card needs no Python."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml

from instruct.command.main import main
from instruct.config import make_config
from instruct.run.directory import RunDirectory
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


def write_task(folder: Path, **changes: object) -> None:
    Path("data/tasks").mkdir(parents=True, exist_ok=True)
    Path("data/tasks/mood.yaml").write_text(yaml.safe_dump({**CARD, **changes}))
    for name, rows in (("train", TRAIN), ("test", TEST)):
        (folder / f"{name}.csv").write_text("text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows))


def make_run(experiment: dict, make_adapter) -> RunDirectory:
    """A run with an adapter that was not trained here, the base, and a task in the current folder."""
    write_task(Path())
    content = {**experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    make_adapter(experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    return run


@pytest.fixture
def trained(tiny_experiment, make_adapter) -> RunDirectory:
    return make_run(tiny_experiment, make_adapter)


FLAGS = ["evaluate", "runs/mine", "--tasks", "mood"]


@pytest.fixture(scope="module")
def evaluated_once(tmp_path_factory, tiny_model_folder, write_experiment, make_adapter) -> tuple[Path, str]:
    """The folder of such a run after `instruct FLAGS`, and what that printed."""
    folder, printed = tmp_path_factory.mktemp("evaluated"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.chdir(folder)
        make_run(write_experiment(folder, tiny_model_folder), make_adapter)
        patch.setattr("sys.argv", ["instruct", *FLAGS])
        assert main() == 0
    return folder, printed.getvalue()


@pytest.fixture
def evaluated(evaluated_once, tmp_path, monkeypatch) -> RunDirectory:
    shutil.copytree(evaluated_once[0], tmp_path, ignore=shutil.ignore_patterns("model"), dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return RunDirectory("runs/mine")


def test_every_system_answers_the_task(evaluated, evaluated_once):
    found = read_metrics(evaluated).tasks
    assert list(found) == ["base", "emo"]
    for system, rows in found.items():
        row, (path,) = rows["mood"], files_folder(evaluated, "lm_eval/mood", system).glob("samples_mood_*.jsonl")
        samples = [json.loads(line) for line in path.read_text().splitlines()]
        assert [int(sample["target"]) for sample in samples] == [label for _, label in TEST]
        assert (row.n, row.details.shots) == (5, 2)
        assert row.value == sum(sample["acc"] for sample in samples) / 5
        assert f"{system}: lm-eval mood acc {row.value:.4f}" in evaluated_once[1]


def test_what_was_answered_is_not_answered_again_unless_the_task_changes(evaluated, instruct, tmp_path):
    def started() -> dict[str, tuple[str, int]]:
        return {name: (step["started"], step["attempts"]) for name, step in evaluated.manifest()["steps"].items()}

    first, written = started(), (evaluated.folder / "metrics.json").read_bytes()
    assert list(first) == ["evaluate/lm_eval/mood/base", "evaluate/lm_eval/mood/emo"]
    assert instruct(*FLAGS)[0] == 0
    assert (started(), (evaluated.folder / "metrics.json").read_bytes()) == (first, written)
    before = evaluated.manifest()["steps"]
    write_task(tmp_path, doc_to_text="{{text}} That is")
    Path("test.csv").write_text(Path("test.csv").read_text() + "fine soup,1\n")
    assert instruct(*FLAGS)[0] == 0
    steps = evaluated.manifest()["steps"]
    assert all(step["inputs"]["files"] != before[name]["inputs"]["files"] for name, step in steps.items())
    assert {row["mood"].n for row in read_metrics(evaluated).tasks.values()} == {6}


@pytest.mark.slow
def test_results_that_were_changed_after_they_were_measured_are_refused(evaluated, instruct):
    assert instruct("report", evaluated.folder)[0] == 0
    metrics = evaluated.folder / "metrics.json"
    accuracy = read_metrics(evaluated).tasks["emo"]["mood"].value
    (samples,) = files_folder(evaluated, "lm_eval/mood", "base").glob("samples_*")
    for path, content, said in [
        (samples, samples.read_bytes() + b" ", f"{samples.name}: is not what was measured; restore it, or delete"),
        (metrics, metrics.read_bytes().replace(f'"value": {accuracy}'.encode(), b'"value": 99.0'), "its numbers about"),
        (metrics, b'{"version": 2, "measurements": []}', "metrics.json: lacks lm_eval/mood of base, which was"),
    ]:
        path.write_bytes(content)
        code, _, err = instruct("report", evaluated.folder)
        assert (code, said in err) == (2, True), (said, err)
        path.unlink()  # as the message says
        assert instruct(*FLAGS)[0] == 0
        assert instruct("report", evaluated.folder)[0] == 0


def test_a_wrong_call_is_refused_before_the_work(trained, instruct):
    code, _, err = instruct("evaluate", trained.folder, "--evaluation.tasks.names", "moood.yaml")
    assert (code, err.count("\n")) == (2, 1)
    assert "moood.yaml: no such file; give an existing card or a name from" in err
    assert not trained.manifest()["steps"]
