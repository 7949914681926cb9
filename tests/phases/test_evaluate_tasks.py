"""`instruct evaluate --tasks`: every system answers every task, once, and a user's own card needs no Python."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from sklearn.metrics import f1_score

from instruct.base.errors import InputError
from instruct.command.main import main
from instruct.config import make_config
from instruct.phases.experiment import steps_of
from instruct.phases.steps import check_steps
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics, read_values

CARD = {
    "task": "mood",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"train": "train.csv", "test": "test.csv"}},
    "doc_to_text": "{{text}} It is",
    "doc_to_choice": ["bad.", "good."],
    "num_fewshot": 2,
    "metadata": {
        "rule": "openicl",
        "nearest_by": "text",
        "macro_f1": True,
        "variants": {"short": {"doc_to_text": "{{text}}", "doc_to_choice": ["bad", "good"]}},
        "licence": "MIT",
    },
}
CLASS = "class: !function instruct.measuring.tasks.few_shot.FewShot\n"
TRAIN = [("a fine day", 1), ("a grim day", 0), ("fine food", 1), ("grim food", 0)]
TEST = [("a grim hour", 0), ("fine food", 1), ("grim weather", 0), ("fine words", 1), ("fine, fine", 0)]


def write_task(folder: Path, **changes: object) -> None:
    Path("data/tasks").mkdir(parents=True, exist_ok=True)
    Path("data/tasks/mood.yaml").write_text(CLASS + yaml.safe_dump({**CARD, **changes}))
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


FLAGS = ["evaluate", "runs/mine", "--tasks", "mood", "--evaluation.tasks.folder", "."]


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
    trained, out = evaluated, evaluated_once[1]
    found = read_metrics(trained).tasks
    assert list(found) == ["base", "emo"]
    for system, rows in found.items():
        row, columns = rows["mood"], read_values(trained, "tasks/mood", system)
        result = row.details
        (f1,) = (
            row.value for row in read_metrics(trained).measurements if (row.system, row.metric) == (system, "macro_f1")
        )
        gold = ["good" if label else "bad" for _, label in TEST]
        assert columns["label"] == gold
        assert columns["shots"] == [2] * 5
        assert (row.n, result.of, result.shots) == (5, 5, 2)
        assert result.right == sum(one == other for one, other in zip(gold, columns["answer"], strict=True))
        assert row.value == 20 * result.right
        assert row.interval[0] < row.value < row.interval[1] or result.right in (0, 5)
        assert f1 == pytest.approx(
            100 * f1_score(gold, columns["answer"], average="macro", labels=["bad", "good"], zero_division=0)
        )
        assert result.answers == {label: columns["answer"].count(label) for label in ("bad", "good")}
        assert result.in_training == 1  # "fine food"
        assert result.floor == 80
        assert result.most_frequent == 60
        assert f"{system}: mood {row.value:.1f} % of 5 rows" in out
        assert "retrieval alone 80.0" in out


def test_what_was_answered_is_not_answered_again_unless_the_task_changes(evaluated, instruct, tmp_path):
    def started() -> dict[str, tuple[str, int]]:
        return {name: (step["started"], step["attempts"]) for name, step in evaluated.manifest()["steps"].items()}

    first, written = started(), (evaluated.folder / "metrics.json").read_bytes()
    assert list(first) == ["evaluate/tasks/mood/base", "evaluate/tasks/mood/emo"]
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
    trained, flags = evaluated, FLAGS
    assert instruct("report", trained.folder)[0] == 0
    values = trained.folder / "metrics/tasks/mood"
    metrics = trained.folder / "metrics.json"
    whole = {path: path.read_bytes() for path in (metrics, values / "base.json", values / "emo.json")}
    accuracy = read_metrics(trained).tasks["emo"]["mood"].value
    swapped = whole[values / "emo.json"] + b" "
    for path, content, said in [
        (values / "base.json", swapped, "base.json: is not what was measured; restore it, or delete the file and run"),
        (values / "base.json", None, "base.json: is not what was measured"),
        (metrics, whole[metrics].replace(f'"value": {accuracy}'.encode(), b'"value": 99.0'), "its numbers about tasks"),
        (metrics, b'{"version": 2, "measurements": []}', "metrics.json: lacks tasks/mood of base, which was measured"),
    ]:
        path.unlink() if content is None else path.write_bytes(content)
        code, _, err = instruct("report", trained.folder)
        assert (code, said in err) == (2, True), (said, err)
        if content is not None:  # as the message says
            path.unlink()
        assert instruct(*flags)[0] == 0
        assert instruct("report", trained.folder)[0] == 0
        assert {one: one.read_bytes() for one in whole} == whole


def test_other_settings_are_other_results(evaluated, instruct):
    more = ["--evaluation.tasks.rule", "sum", "--evaluation.tasks.shots", "0", "--evaluation.tasks.variant", "short"]
    assert instruct(*FLAGS, *more)[0] == 0
    found = read_metrics(evaluated).tasks["base"]
    assert list(found) == ["mood", "mood-short-sum-0shots"]
    result = found["mood-short-sum-0shots"].details
    assert (result.shots, result.rule, result.variant, result.floor) == (0, "sum", "short", None)


def test_a_limit_draws_the_same_rows_for_every_system(trained, instruct):
    flags = ["--tasks", "mood", "--evaluation.tasks.folder", ".", "--evaluation.tasks.limit", "3"]
    assert instruct("evaluate", trained.folder, *flags)[0] == 0
    columns = [read_values(trained, "tasks/mood", system) for system in ("base", "emo")]
    assert columns[0]["id"] == columns[1]["id"]
    assert columns[0]["id"] != [0, 1, 2]  # not the first ones: many files are sorted by label
    result = read_metrics(trained).tasks["base"]["mood"]
    assert (result.n, result.details.of) == (3, 5)


def test_demonstrations_that_do_not_fit_are_left_out_and_counted(trained, instruct, tiny_experiment, tmp_path):
    settings = Path(tiny_experiment["model"]["name"]) / "config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "max_position_embeddings": 60}))
    write_task(tmp_path)
    with Path("train.csv").open("a") as file:
        file.write(f'"grim {"word " * 8}",0\n')
    code, _, err = instruct("evaluate", trained.folder, "--tasks", "mood", "--evaluation.tasks.folder", ".")
    assert code == 0, err
    result = read_metrics(trained).tasks["base"]["mood"].details
    shots = read_values(trained, "tasks/mood", "base")["shots"]
    assert result.shortened == sum(count < 2 for count in shots) > 0
    assert result.dropped == sum(2 - count for count in shots)
    with Path("test.csv").open("a") as file:
        file.write(f'"{"word " * 20}",0\n')
    code, _, err = instruct("evaluate", trained.folder, "--tasks", "mood", "--evaluation.tasks.folder", ".")
    assert code == 0, err
    assert read_values(trained, "tasks/mood", "base")["shots"][5] == 0  # the beginning of such a row is left out


def test_a_wrong_call_is_refused_before_the_work(trained, instruct):
    for flags, message in [
        (["--evaluation.tasks.cards", "moood.yaml"], "moood.yaml: no such file; give an existing card or a name from"),
        (["--tasks", "mood", "--evaluation.tasks.folder", "no"], "correct its dataset_kwargs, or set evaluation.tasks"),
        (["--tasks", "mood,mood"], "cards: a task is given twice; remove one"),
        (["--evaluation.tasks.limit", "3"], "names no task; set cards or lm_eval"),
        ([], "nothing to evaluate"),
    ]:
        code, _, err = instruct("evaluate", trained.folder, *flags)
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
    assert not trained.manifest()["steps"]


def test_tasks_on_a_cluster_are_refused_before_the_work(tiny_experiment):
    content = tiny_experiment | {"cluster": "ray", "evaluation": {"tasks": {"lm_eval": ["arc_easy"]}}, "judges": []}
    config = make_config(content, [], "test")
    with pytest.raises(InputError, match="cluster: tasks are asked on this machine alone; leave cluster out"):
        check_steps(steps_of(config), RunDirectory("runs/mine"), ["evaluate"])
    check_steps(steps_of(config)[1:], RunDirectory("runs/mine"), ["train"])
