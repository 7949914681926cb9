"""lm-evaluation-harness: its tasks run on a run's systems, in every engine, and are compared row by row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.measuring.tasks.cards import read_task
from instruct.measuring.tasks.evaluate import Harness, read_results
from instruct.measuring.tasks.options import TaskOptions
from instruct.reporting.compare_logs import compare_logs
from instruct.run.directory import RunDirectory
from instruct.run.measurements import files_folder, metrics_path, read_metrics
from tests.judging.test_vllm_serve import vllm_serve

lm_eval = pytest.importorskip("lm_eval")


OWN = {
    "task": "mood_choice",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"train": "mood.csv", "test": "mood.csv"}},
    "training_split": "train",
    "test_split": "test",
    "fewshot_config": {"sampler": "first_n"},
    "num_fewshot": 1,
    "output_type": "multiple_choice",
    "doc_to_text": "{{text}} It is",
    "doc_to_choice": ["bad", "good enough"],
    "doc_to_target": "label",
    "metric_list": [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("acc", "acc_norm")],
}
REPLY = {
    "task": "mood_reply",
    "dataset_path": "csv",
    "dataset_kwargs": {"data_files": {"test": "mood.csv"}},
    "test_split": "test",
    "output_type": "generate_until",
    "doc_to_text": "{{text}} It is",
    "doc_to_target": "{{label}}",
    "generation_kwargs": {"until": ["."], "max_gen_toks": 4, "do_sample": False},
    "metric_list": [{"metric": "bleu_like", "aggregation": "mean", "higher_is_better": True}],
    "process_results": "!function scoring.graded",
}
MOODS = "text,label\n" + "".join(
    f"a {word} day,{n % 2}\n" for n, word in enumerate(["grim", "fine", "cold", "warm"] * 2)
)


@pytest.fixture
def two_systems(tiny_experiment, make_adapter, tmp_path, monkeypatch) -> RunDirectory:
    """A run with an adapter that was not trained here and the base, and tasks of lm-eval in the current folder."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    Path("mood.csv").write_text(MOODS)
    Path("choice.yaml").write_text(yaml.safe_dump(OWN))
    Path("reply.yaml").write_text(
        yaml.safe_dump(REPLY).replace("'!function scoring.graded'", "!function scoring.graded")
    )
    Path("scoring.py").write_text(
        "def graded(doc, replies):\n    return {'bleu_like': sum(map(ord, replies[0])) % 7 / 7}\n"
    )
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config({**content, "judges": [], "comparisons": []}, [], "test").model_dump(mode="json"))
    make_adapter(tiny_experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    return run


@pytest.mark.slow
def test_systems_are_compared_row_by_row_in_tasks_of_lm_eval(two_systems, instruct, tmp_path):
    flags = ["--tasks", "choice.yaml,reply.yaml", "--trust-task-code"]
    code, out, err = instruct("evaluate", two_systems.folder, *flags)
    assert code == 0, err
    assert "emo: lm-eval mood_choice acc" in out
    rows = read_metrics(two_systems).measurements
    scores = {}
    for system in ("base", "emo"):
        for task in ("mood_choice", "mood_reply"):
            folder = files_folder(two_systems, f"lm_eval/{task}", system)
            samples, results = sorted(folder.iterdir(), reverse=True)
            scores[system, task] = [json.loads(line) for line in samples.read_text().splitlines()]
            assert json.loads(results.read_text())["model_name"] == system
        (acc,) = (row.value for row in rows if (row.system, row.task, row.metric) == (system, "mood_choice", "acc"))
        assert 8 * acc == sum(row["acc"] for row in scores[system, "mood_choice"])
    assert read_metrics(two_systems).tasks["emo"]["mood_choice"].n == 8
    assert instruct("report", two_systems.folder)[0] == 0
    by_task = {claim.task: claim for claim in compare_logs([two_systems.folder], baseline="base").claims}
    choice, reply = by_task["mood_choice"], by_task["mood_reply"]
    assert (choice.candidate, choice.baseline, choice.n) == ("emo", "base", 8)
    assert (reply.measure, reply.n, reply.test) == ("bleu_like", 8, "permutation")
    values = np.subtract(*([row["bleu_like"] for row in scores[name, "mood_reply"]] for name in ("emo", "base")))
    assert reply.value == pytest.approx((100 if reply.in_points else 1) * values.mean())
    before = two_systems.manifest()["steps"]
    assert instruct("evaluate", two_systems.folder, *flags)[0] == 0
    assert two_systems.manifest()["steps"] == before
    code, _, err = instruct("evaluate", two_systems.folder, *flags, "--chat", "--limit", "3")
    assert code == 0, err
    found = [row for row in read_metrics(two_systems).measurements if row.task == "mood_choice"]
    assert {(row.n, row.details.chat) for row in found} == {(3, True)}
    assert instruct("report", two_systems.folder)[0] == 0
    assert "| mood_choice | base | acc | 1 | 3 |" in (two_systems.report / "report.md").read_text()


@pytest.mark.slow
def test_a_changed_file_is_measured_again(two_systems, instruct):
    flags = ["evaluate", two_systems.folder, "--tasks", "choice.yaml"]
    for moods, rows in ((MOODS, 8), (MOODS + "a fine hour,1\n", 9)):
        Path("mood.csv").write_text(moods)
        assert instruct(*flags)[0] == 0
        assert read_metrics(two_systems).measurements[0].n == rows
    written = metrics_path(two_systems).stat().st_mtime_ns
    assert instruct(*flags)[0] == 0
    assert metrics_path(two_systems).stat().st_mtime_ns == written


def test_without_lm_eval_tasks_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(InputError, match=r"^task trec: tasks need the package lm_eval .* `pip install .*\[lm-eval\]"):
        Harness(TaskOptions(names=["trec"]))


@pytest.mark.slow
def test_lm_evals_own_tasks_are_known_by_name():
    assert list(Harness(TaskOptions(names=["mmlu", "trec"])).tasks) == ["mmlu", "trec"]
    with pytest.raises(InputError, match=r"^lm_eval: has no task 'trecc' \(nearest: .*trec"):
        Harness(TaskOptions(names=["trecc"]))


def test_a_tasks_content_is_that_of_the_files_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {
        "task": "mine",
        "dataset_kwargs": {"data_files": {"test": "rows_*.csv"}},
        "generation_kwargs": {"until": ["*"]},
    }
    Path("mine.yaml").write_text(yaml.safe_dump(data) + "process_docs: !function own.cut\n")
    for name in ("rows_1.csv", "own.py", "other.csv"):
        Path(name).write_text("text\n")
    task = read_task("mine.yaml", trusted=True)
    found = [task.sha256()]
    for name in ("rows_1.csv", "own.py", "other.csv"):
        Path(name).write_text("changed\n")
        found.append(task.sha256())
    assert len(set(found[:3])) == 3
    assert found[3] == found[2]


def test_results_are_read_by_metric_and_filter():
    values = {"alias": "x", "acc,none": 0.5, "acc_stderr,none": 0.1, "em,strict": 1, "em_stderr,strict": "N/A"}
    result = {"results": {"x": values}, "n-shot": {"x": 5}, "n-samples": {"x": {"original": 20, "effective": 9}}}
    result["higher_is_better"] = {"x": {"acc": True, "em": False}}
    found = read_results(result)
    assert {row.metric: (row.value, row.details.standard_error, row.n) for row in found} == {
        "acc": (0.5, 0.1, 9),
        "em (strict)": (1.0, None, 9),
    }
    assert {row.metric: row.details.better for row in found} == {"acc": "higher", "em (strict)": "lower"}


@pytest.mark.full
@pytest.mark.xdist_group("vllm")
@pytest.mark.timeout(900)
def test_a_server_gives_what_transformers_gives(smollm2, tmp_path, monkeypatch, instruct):
    """Choices and replies of a base."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    (tmp_path / "mood.csv").write_text(MOODS)
    graded = {**REPLY, "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]}
    graded.pop("process_results")
    for name, task in (("choice", OWN), ("reply", graded)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(task))
    run = RunDirectory(tmp_path / "runs" / "mine")
    content = {"name": "mine", "answers": None, "systems": {"base": {"objective": "none"}}}
    content |= {"model": {"name": smollm2, "dtype": "float32"}}
    run.start(make_config(content, [], "test").model_dump(mode="json"))
    flags, found = ["evaluate", run.folder, "--tasks", "choice.yaml,reply.yaml", "--evaluation.tasks.engine"], []
    with vllm_serve(smollm2, tmp_path / "server.log", smollm2, "float32") as url:
        for engine in (["transformers"], ["server", "--evaluation.tasks.base_url", url]):
            code, _, stderr = instruct(*flags, *engine)
            assert code == 0, stderr
            paths = sorted(run.folder.glob("metrics/lm_eval/*/base/samples_*.jsonl"))
            found.append([json.loads(line)["resps"] for path in paths for line in path.read_text().splitlines()])
    for ours, theirs in zip(*found, strict=True):
        for (reply, *_), (expected, *_) in zip(ours, theirs, strict=True):
            if isinstance(reply, list):
                assert float(reply[0]) == pytest.approx(float(expected[0]), abs=1e-3)
            else:
                assert reply == expected
