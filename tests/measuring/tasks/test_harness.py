"""lm-evaluation-harness: its scores of an exported task are ours, and its own tasks run on a run's systems."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.engines.forward import open_model
from instruct.measuring.tasks.answering import answer_task, load_task, task_measured
from instruct.measuring.tasks.harness import Harness, _results, export_task
from instruct.measuring.tasks.options import TaskOptions

lm_eval = pytest.importorskip("lm_eval")


def their_scores(model, path: Path) -> tuple[float, list[list[float]]]:
    """lm-eval's accuracy, and its log-probability of each choice of each row."""
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    with model.engine.adapted(None) as network:
        found = lm_eval.simple_evaluate(
            HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4),
            tasks=[yaml.safe_load(path.read_text())["task"]],
            task_manager=TaskManager(include_path=str(path.parent), include_defaults=False),
            bootstrap_iters=0,
            log_samples=True,
        )
    (name,) = found["results"]
    samples = sorted(found["samples"][name], key=lambda sample: sample["doc_id"])
    scores = [[float(reply[0]) for reply in sample["filtered_resps"]] for sample in samples]
    return found["results"][name]["acc,none"], scores


def compare(model, name: str, options: TaskOptions, folder: Path) -> None:
    task = load_task(name, options)
    answers = answer_task(model, task)
    accuracy, scores = their_scores(model, export_task(task, folder))
    for ours, theirs in zip(answers.scores, scores, strict=True):
        assert ours.values == pytest.approx(theirs, abs=1e-4)
    assert task_measured(task, answers).numbers[0].value == pytest.approx(100 * accuracy)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("sst2", 4), ("mmlu", 2)])
def test_scores_under_the_rule_sum_are_lm_evals(name, rows, smollm2, shared_data, tmp_path):
    options = TaskOptions(cards=[name], folder=str(shared_data / "tasks"), limit=rows, rule="sum")
    compare(open_model(ModelOptions(name=smollm2, dtype="float32")), name, options, tmp_path)


CARD = {
    "name": "mood",
    "labels": ["bad", "good enough"],
    "hint": "Moods of {text}.\n",
    "template": "{text} It is {label}.",
    "shots": 1,
    "source": {"splits": {"train": ["rows.csv"], "test": ["rows.csv"]}},
    "licence": "MIT",
}


@pytest.fixture
def mood(tmp_path) -> TaskOptions:
    (tmp_path / "mood.yaml").write_text(yaml.safe_dump(CARD))
    (tmp_path / "rows.csv").write_text("text,label\na fine day,1\na grim day,0\n")
    return TaskOptions(cards=[str(tmp_path / "mood.yaml")], folder=str(tmp_path), rule="sum")


def test_an_exported_row_has_its_demonstrations_as_a_column(mood, tmp_path):
    path = export_task(load_task(mood.cards[0], mood), tmp_path / "exported")
    config = yaml.safe_load(path.read_text())
    assert config["num_fewshot"] == 0
    first = json.loads(Path(config["dataset_kwargs"]["data_files"]["test"]).read_text().splitlines()[0])
    assert first == {
        "demonstrations": "Moods of a fine day.\na fine day It is good enough.\n",
        "query": "a fine day It is",
        "choices": [" bad.", " good enough."],
        "label": 1,
    }


@pytest.mark.slow
def test_a_run_has_lm_evals_results_in_its_metrics(mood, tmp_path, tiny_experiment, instruct):
    from instruct.run.directory import RunDirectory
    from instruct.run.measurements import read_metrics

    code, out, err = instruct(
        "evaluate", "--tasks", mood.cards[0], "--evaluation.tasks.folder", tmp_path, "--export-tasks", "exported"
    )
    assert code == 0, err
    assert out == "exported/mood.yaml: written\n"
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}}, "comparisons": [], "judges": []}
    Path("base.yaml").write_text(yaml.safe_dump(content))
    flags = ["--tasks", mood.cards[0], "--evaluation.tasks.folder", str(tmp_path), "--evaluation.tasks.rule", "sum"]
    code, out, err = instruct("evaluate", "base.yaml", *flags, "--lm-eval", "exported/mood.yaml")
    assert code == 0, err
    run = RunDirectory("runs/mine")
    metrics = read_metrics(run)
    (theirs,) = (row for row in metrics.measurements if row.kind == "lm_eval" and row.metric == "acc")
    assert (theirs.system, theirs.task, theirs.details.shots, theirs.n) == ("base", "instruct_mood", 0, 2)
    assert 100 * theirs.value == metrics.tasks["base"]["mood-sum"].value
    assert f"base: lm-eval instruct_mood acc {theirs.value:.4f}" in out
    before = run.manifest()["steps"]
    code, _, err = instruct("evaluate", "base.yaml", "--lm-eval", "exported/mood.yaml")
    assert code == 0, err
    assert run.manifest()["steps"] == before
    code, _, err = instruct("evaluate", "base.yaml", "--lm-eval", "instruct_moood")
    assert code == 2
    assert "lm_eval: has no task 'instruct_moood'" in err.splitlines()[-1]


def test_results_are_read_by_metric_and_filter():
    values = {"alias": "x", "acc,none": 0.5, "acc_stderr,none": 0.1, "em,strict": 1, "em_stderr,strict": "N/A"}
    found = _results("x", values, 5, {"original": 20, "effective": 9})
    assert {row.metric: (row.value, row.details.standard_error, row.n) for row in found} == {
        "acc": (0.5, 0.1, 9),
        "em (strict)": (1.0, None, 9),
    }


def test_a_file_that_is_no_task_of_lm_eval_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("group: x\n")
    with pytest.raises(InputError, match=r"a\.yaml: is no task of lm-eval; it needs the key task"):
        Harness(TaskOptions(lm_eval=[str(tmp_path / "a.yaml")]))
    with pytest.raises(InputError, match=r"b\.yaml: cannot be read"):
        Harness(TaskOptions(lm_eval=[str(tmp_path / "b.yaml")]))
