"""lm-evaluation-harness: its scores of an exported task are ours, and its own tasks run on a run's systems."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from instruct.analysis.inference import sign_flip_test
from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.config import make_config
from instruct.engines.forward import open_model
from instruct.measuring.tasks.answering import answer_task, load_task, task_measured
from instruct.measuring.tasks.cards import divided
from instruct.measuring.tasks.harness import Harness, _results, export_task, task_of_file
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics, read_values

lm_eval = pytest.importorskip("lm_eval")


def their_scores(model, path: Path, replies: Path | None = None) -> tuple[float, list[list[float]]]:
    """lm-eval's accuracy, and its log-probability of each choice of each row; with `replies` on our model."""
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    from instruct.measuring.tasks.lm import PrefixLM, Replies

    with model.engine.adapted(None) as network:
        found = lm_eval.simple_evaluate(
            PrefixLM(model, network, Replies(replies))
            if replies
            else HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4),
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
    exported = export_task(task, folder)
    accuracy, scores = their_scores(model, exported)
    for ours, theirs in zip(answers.scores, scores, strict=True):
        assert ours.values == pytest.approx(theirs, abs=1e-4)
    on_ours, scores_on_ours = their_scores(model, exported, folder / "replies.jsonl")
    assert on_ours == accuracy
    for ours, theirs in zip(scores_on_ours, scores, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-4)
    assert task_measured(task, answers).numbers[0].value == pytest.approx(100 * accuracy)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows"), [("sst2", 4), ("mmlu", 2), ("trec", 2), ("tweet_emotion", 2)])
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
    columns = {system: read_values(two_systems, "lm_eval/mood_choice", system) for system in ("base", "emo")}
    assert list(columns["base"]) == ["id", "acc", "acc_norm"]
    assert columns["base"]["id"] == [f"mood_choice/{place}" for place in range(8)]
    rows = read_metrics(two_systems).measurements
    for system in columns:
        (acc,) = (row.value for row in rows if (row.system, row.task, row.metric) == (system, "mood_choice", "acc"))
        assert 8 * acc == sum(columns[system]["acc"])
    assert instruct("report", two_systems.folder)[0] == 0
    report = json.loads((two_systems.report / "report.json").read_text())["tasks"]
    choice, reply = report["differences"]
    assert (choice["task"], choice["metric"], choice["first"], choice["second"]) == (
        "mood_choice",
        "acc",
        "emo",
        "base",
    )
    assert choice["first_alone"] == sum(
        a > b for a, b in zip(columns["emo"]["acc"], columns["base"]["acc"], strict=True)
    )
    assert (reply["task"], reply["metric"], reply["n"]) == ("mood_reply", "bleu_like", 8)
    own = {system: read_values(two_systems, "lm_eval/mood_reply", system)["bleu_like"] for system in columns}
    values = np.subtract(own["emo"], own["base"])
    assert reply["difference"] == pytest.approx(100 * values.mean())
    assert reply["p"] == sign_flip_test(values)[0]
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
def test_a_changed_file_is_measured_again_but_not_one_of_before_files_were_compared(two_systems, instruct):
    def started() -> str:
        return str(two_systems.manifest()["steps"]["evaluate/lm_eval/mood_choice/base"]["started"])

    flags = ["evaluate", two_systems.folder, "--tasks", "choice.yaml"]
    assert instruct(*flags)[0] == 0
    first = started()
    Path("mood.csv").write_text(MOODS + "a fine hour,1\n")
    assert instruct(*flags)[0] == 0
    second = started()
    assert second != first
    assert read_metrics(two_systems).measurements[0].n == 9
    manifest = two_systems.manifest()
    for step in manifest["steps"].values():
        del step["inputs"]["files"]
    (two_systems.folder / "manifest.json").write_text(json.dumps(manifest))
    assert instruct(*flags)[0] == 0
    assert started() == second


@pytest.mark.slow
def test_a_run_and_lm_eval_give_one_score_for_one_file(two_systems, instruct):
    code, _, err = instruct("evaluate", two_systems.folder, "--tasks", "choice.yaml")
    assert code == 0, err
    model = open_model(ModelOptions(name=two_systems.config()["model"]["name"], dtype="float32"))
    accuracy, _ = their_scores(model, Path("choice.yaml"))
    (ours,) = (
        row.value for row in read_metrics(two_systems).measurements if (row.system, row.metric) == ("base", "acc")
    )
    assert ours == accuracy


def test_a_file_that_names_code_is_refused_until_it_is_trusted(tmp_path):
    (tmp_path / "mine.yaml").write_text("include: part.yaml\ntask: mine\n")
    (tmp_path / "part.yaml").write_text("process_docs: !function steal.all\n")
    with pytest.raises(InputError, match=r"part\.yaml: runs code of its own \(steal\.all\); .* --trust-task-code"):
        task_of_file(tmp_path / "mine.yaml", trusted=False)
    assert task_of_file(tmp_path / "mine.yaml", trusted=True) == "mine"
    for text in (
        "a: !<!function> steal.all\n",
        "%TAG !x! !func\n---\na: !x!tion steal.all\n",
        "a: !function steal.all\na: 1\n",
    ):
        (tmp_path / "part.yaml").write_text(text)
        with pytest.raises(InputError, match=r"part\.yaml: runs code of its own \(steal\.all\)"):
            task_of_file(tmp_path / "mine.yaml", trusted=False)
    (tmp_path / "class.yaml").write_text("task: mine\nclass: steal.All\n")
    with pytest.raises(InputError, match=r"runs code of its own \(steal\.All\)"):
        task_of_file(tmp_path / "class.yaml", trusted=False)


def test_without_lm_eval_its_tasks_are_named_with_the_nearest_card(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(
        InputError, match=r"^task trecc: has no card \(nearest: trec\), and .*'emo-instruct\[lm-eval\]'"
    ):
        Harness(TaskOptions(lm_eval=["trecc"]))


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
    harness = Harness(TaskOptions(lm_eval=["mine.yaml"], trust_task_code=True))
    found = [harness.files_sha256("mine")]
    for name in ("rows_1.csv", "own.py", "other.csv"):
        Path(name).write_text("changed\n")
        found.append(harness.files_sha256("mine"))
    assert len(set(found[:3])) == 3
    assert found[3] == found[2]


def test_a_chat_is_not_asked_of_cards():
    with pytest.raises(ValueError, match=r"chat: is for lm-eval's tasks, and the cards trec have a text"):
        TaskOptions(cards=["trec"], chat=True)


def test_tasks_are_cards_or_lm_evals(tmp_path):
    (tmp_path / "theirs.yaml").write_text("task: mine\n")
    (tmp_path / "ours.yaml").write_text("name: mine\n")
    ours, theirs = str(tmp_path / "ours.yaml"), str(tmp_path / "theirs.yaml")
    assert divided(["trec", "arc_easy", ours, theirs]) == {"cards": ["trec", ours], "lm_eval": ["arc_easy", theirs]}


@pytest.mark.slow
def test_a_run_has_lm_evals_results_in_its_metrics(mood, tmp_path, tiny_experiment, instruct):
    code, out, err = instruct(
        "evaluate", "--tasks", mood.cards[0], "--evaluation.tasks.folder", tmp_path, "--export-tasks", "exported"
    )
    assert code == 0, err
    assert out == "exported/mood.yaml: written\n"
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}}, "comparisons": [], "judges": []}
    Path("base.yaml").write_text(yaml.safe_dump(content))
    tasks = f"{mood.cards[0]},exported/mood.yaml"
    flags = ["--tasks", tasks, "--evaluation.tasks.folder", str(tmp_path), "--evaluation.tasks.rule", "sum"]
    code, out, err = instruct("evaluate", "base.yaml", *flags)
    assert code == 0, err
    run = RunDirectory("runs/mine")
    metrics = read_metrics(run)
    (theirs,) = (row for row in metrics.measurements if row.kind == "lm_eval" and row.metric == "acc")
    assert (theirs.system, theirs.task, theirs.details.shots, theirs.n) == ("base", "instruct_mood", 0, 2)
    assert 100 * theirs.value == metrics.tasks["base"]["mood-sum"].value
    assert f"base: lm-eval instruct_mood acc {theirs.value:.4f}" in out
    before = run.manifest()["steps"]
    code, _, err = instruct("evaluate", "base.yaml", "--tasks", "exported/mood.yaml")
    assert code == 0, err
    assert run.manifest()["steps"] == before
    code, _, err = instruct("evaluate", "base.yaml", "--tasks", "instruct_moood")
    assert code == 2
    assert "lm_eval: has no task 'instruct_moood'" in err.splitlines()[-1]


def test_results_are_read_by_metric_and_filter():
    values = {"alias": "x", "acc,none": 0.5, "acc_stderr,none": 0.1, "em,strict": 1, "em_stderr,strict": "N/A"}
    found = _results("x", values, 5, {"original": 20, "effective": 9}, {})
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
