"""lm-evaluation-harness: its tasks run on a run's systems, in every engine, and are compared row by row."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
import yaml

from instruct.analysis.inference import sign_flip_test
from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.config import make_config
from instruct.engines.canary import Canary
from instruct.engines.forward import open_model
from instruct.engines.network import TextRow
from instruct.measuring.tasks.cards import FEW_SHOT, read_task
from instruct.measuring.tasks.harness import Harness, read_results
from instruct.measuring.tasks.options import TaskOptions
from instruct.reporting.compare_logs import compare_logs
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, read_metrics, read_values
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
    columns = {system: read_values(two_systems, "lm_eval/mood_choice", system) for system in ("base", "emo")}
    assert sorted(columns["base"]) == ["acc", "acc_norm", "cluster", "id"]
    assert columns["base"]["id"] == [f"mood_choice/{place}" for place in range(8)]
    assert columns["base"]["cluster"] == [f"mood_choice/{place % 4}" for place in range(8)]  # each text is there twice
    rows = read_metrics(two_systems).measurements
    for system in columns:
        (acc,) = (row.value for row in rows if (row.system, row.task, row.metric) == (system, "mood_choice", "acc"))
        assert 8 * acc == sum(columns[system]["acc"])
    assert {row.details.clusters for row in rows} == {4}
    assert instruct("report", two_systems.folder)[0] == 0
    by_task = {claim.task: claim for claim in compare_logs([two_systems.folder], baseline="base").claims}
    choice, reply = by_task["mood_choice"], by_task["mood_reply"]
    assert (choice.measure, choice.candidate, choice.baseline) == ("acc", "emo", "base")
    assert choice.value == pytest.approx(100 * np.subtract(columns["emo"]["acc"], columns["base"]["acc"]).mean())
    assert (reply.measure, reply.n, reply.test) == ("bleu_like", 8, "permutation")
    own = {system: read_values(two_systems, "lm_eval/mood_reply", system)["bleu_like"] for system in columns}
    values = np.subtract(own["emo"], own["base"])
    assert reply.value == pytest.approx((100 if reply.in_points else 1) * values.mean())
    assert reply.p == sign_flip_test(values.reshape(2, 4).sum(axis=0))
    before = two_systems.manifest()["steps"]
    assert instruct("evaluate", two_systems.folder, *flags)[0] == 0
    assert two_systems.manifest()["steps"] == before
    code, _, err = instruct("evaluate", two_systems.folder, *flags, "--chat", "--limit", "3")
    assert code == 0, err
    found = [row for row in read_metrics(two_systems).measurements if row.task == "mood_choice"]
    assert {(row.n, row.details.chat) for row in found} == {(3, True)}
    assert instruct("report", two_systems.folder)[0] == 0
    assert "| mood_choice | base | acc | 1 | 3 |" in (two_systems.report / "report.md").read_text()
    code, _, err = instruct("evaluate", two_systems.folder, *flags, "--cluster-column", "author")
    assert (code, "task mood_choice: has no column 'author' (columns: text, label)" in err) == (2, True)
    assert instruct("evaluate", two_systems.folder, *flags, "--cluster-column", "label")[0] == 0
    assert {row.details.clusters for row in read_metrics(two_systems).measurements} == {2}


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
        Harness(TaskOptions(cards=["trec"]))


@pytest.mark.slow
def test_lm_evals_own_tasks_are_known_by_name():
    assert list(Harness(TaskOptions(lm_eval=["mmlu"])).parts) == ["lm_eval/mmlu"]  # a card has the same name
    with pytest.raises(InputError, match=r"^lm_eval: has no task 'trecc' \(nearest: .*trec"):
        Harness(TaskOptions(cards=["trecc"]))


def test_a_tasks_content_is_that_of_the_files_that_it_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {
        "task": "mine",
        "dataset_kwargs": {"data_files": {"test": "rows_*.csv", "dev": "zip://*.csv::more.zip"}},
        "generation_kwargs": {"until": ["*"]},
    }
    Path("mine.yaml").write_text(yaml.safe_dump(data) + "process_docs: !function own.cut\n")
    Path("folder").mkdir()
    for name in ("rows_1.csv", "own.py", "folder/more.zip", "other.csv"):
        Path(name).write_text("text\n")
    task = read_task("mine.yaml", trusted=True)
    found = [task.sha256("folder")]
    for name in ("rows_1.csv", "own.py", "folder/more.zip", "other.csv"):
        Path(name).write_text("changed\n")
        found.append(task.sha256("folder"))
    assert len(set(found[:4])) == 4
    assert found[4] == found[3]


def test_tasks_are_cards_or_lm_evals(tmp_path):
    (tmp_path / "theirs.yaml").write_text("task: mine\n")
    (tmp_path / "ours.yaml").write_text(f"task: own\nclass: {FEW_SHOT}\n")
    options = TaskOptions(cards=["trec", *(str(tmp_path / name) for name in ("ours.yaml", "theirs.yaml"))])
    assert list(Harness(options).parts) == ["tasks/trec", "tasks/own", "lm_eval/mine"]


def test_results_are_read_by_metric_and_filter():
    values = {"alias": "x", "acc,none": 0.5, "acc_stderr,none": 0.1, "em,strict": 1, "em_stderr,strict": "N/A"}
    result = {"results": {"x": values}, "n-shot": {"x": 5}, "n-samples": {"x": {"original": 20, "effective": 9}}}
    result["higher_is_better"] = {"x": {"acc": True, "em": False}}
    found = read_results(result, {})
    assert {row.metric: (row.value, row.details.standard_error, row.n) for row in found} == {
        "acc": (0.5, 0.1, 9),
        "em (strict)": (1.0, None, 9),
    }
    assert {row.metric: row.details.better for row in found} == {"acc": "higher", "em (strict)": "lower"}


@pytest.mark.slow
def test_draws_of_demonstrations_are_averaged_row_by_row(two_systems, instruct):
    """Each draw is lm-eval's own with that seed; a task with fixed demonstrations is asked once."""
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    drawn = {key: value for key, value in OWN.items() if key != "fewshot_config"} | {"task": "drawn", "num_fewshot": 2}
    Path("drawn.yaml").write_text(yaml.safe_dump(drawn))
    flags = ["--tasks", "drawn.yaml,choice.yaml", "--seeds-of-demonstrations", "3"]
    assert instruct("evaluate", two_systems.folder, *flags)[0] == 0
    rows = {
        (row.details.task, row.metric): row for row in read_metrics(two_systems).measurements if row.system == "base"
    }
    model = open_model(ModelOptions(name=two_systems.config()["model"]["name"], dtype="float32"))
    with model.engine.adapted(None) as network:
        theirs = [
            lm_eval.simple_evaluate(
                HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4),
                tasks=["drawn.yaml"],
                task_manager=TaskManager(include_defaults=False),
                fewshot_random_seed=seed,
                bootstrap_iters=0,
            )
            for seed in (1234, 1235, 1236)
        ]
    values = [found["results"]["drawn"]["acc,none"] for found in theirs]
    row = rows["drawn", "acc"]
    assert row.value == pytest.approx(np.mean(values))
    assert (row.details.draws, row.details.lowest, row.details.highest) == (3, min(values), max(values))
    by_row = np.mean([[sample["acc"] for sample in found["samples"]["drawn"]] for found in theirs], axis=0)
    assert read_values(two_systems, "lm_eval/drawn", "base")["acc"] == pytest.approx(by_row)
    by_text = by_row.reshape(2, 4).mean(axis=0)  # each text is there twice
    assert row.details.standard_error == pytest.approx(by_text.std(ddof=1) / 2)
    assert rows["mood_choice", "acc"].details.draws == 1
    assert instruct("report", two_systems.folder)[0] == 0
    assert "A value of several draws" in (two_systems.report / "report.md").read_text()


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("other", ["vllm", pytest.param("server", marks=pytest.mark.full)])
def test_vllm_gives_what_transformers_gives(smollm2, make_adapter, tmp_path, monkeypatch, instruct, other):
    """Choices and replies, of a base and an adapter, as text and in the run's chat template; a server's, of a base."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    (tmp_path / "mood.csv").write_text(MOODS)
    graded = {**REPLY, "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]}
    graded.pop("process_results")
    card = {**OWN, "task": "mood_card", "metadata": {"rule": "openicl"}}
    for name, task in (("choice", OWN), ("reply", graded), ("card", card)):
        text = f"class: !function {FEW_SHOT}\n" * (name == "card") + yaml.safe_dump(task)
        (tmp_path / f"{name}.yaml").write_text(text)
    base, both = {"base": {"objective": "none"}}, {"base": {"objective": "none"}, "emo": {"objective": "emo"}}
    cases = [("all", base, "choice.yaml,reply.yaml"), ("chats", both, "reply.yaml", "--chat")]
    for name, systems, tasks, *flags in cases if other == "vllm" else cases[:1]:
        found: list[dict[str, list[object]]] = []
        for engine in ("transformers", other):
            run = RunDirectory(tmp_path / "runs" / f"{name}-{engine}")
            content = {"name": "mine", "answers": None, "systems": systems, "judges": [], "comparisons": []}
            model = {"name": smollm2, "dtype": "float32"}
            content |= {"data": {"chat_template": "qwen3"}} if name == "chats" else {}
            run.start(make_config(content | {"model": model}, [], "test").model_dump(mode="json"))
            adapter = run.adapters / "emo"
            make_adapter(smollm2, adapter, 1, 0.05)
            if name == "chats":
                ids, options = list(range(100, 112)), ModelOptions(**model)
                scores = [open_model(options, one).log_probabilities([TextRow(ids)])[0] for one in (adapter, None)]
                Canary(ids, list(range(1, 12)), *(one.tolist() for one in scores)).save(adapter)
            flags_of_engine = ["--evaluation.tasks.engine", engine, *flags]
            with ExitStack() as stack:
                if engine == "server":
                    url = stack.enter_context(vllm_serve(smollm2, tmp_path / "server.log", smollm2, "float32"))
                    flags_of_engine += ["--evaluation.tasks.base_url", url]
                refused = (name, engine) == ("chats", "vllm")
                asked = f"{tasks},choice.yaml" if refused else tasks
                code, stdout, stderr = instruct("evaluate", run.folder, "--tasks", asked, *flags_of_engine)
                assert code == (2 if refused else 0), stderr
                assert ("vLLM with adapters answers, but does not score given text" in stderr) == refused
                assert "not checked" not in stdout
                if engine != "transformers":
                    code, _, stderr = instruct("evaluate", run.folder, "--tasks", "card.yaml", *flags_of_engine)
                    assert (code, "the task mood_card follows the rule openicl" in stderr) == (2, True)
            steps = run.manifest()["steps"].values()
            assert all(step["inputs"].get("engine", "transformers").startswith(engine) for step in steps)
            replies: dict[str, list[object]] = {}  # of all systems
            for path in run.folder.glob("metrics/replies/*.jsonl"):
                for key, reply in map(json.loads, path.read_text().splitlines()):
                    replies.setdefault(key, []).append(reply)
            found.append({key: sorted(own) for key, own in replies.items()})
        theirs, *others = found
        assert theirs
        for ours in others:
            for key, own in theirs.items():
                assert len(own) == len(systems)
                for reply, expected in zip(ours[key], own, strict=True):
                    if not isinstance(expected, str):
                        expected = [pytest.approx(expected[0], abs=1e-3), expected[1]]
                    assert reply == expected
