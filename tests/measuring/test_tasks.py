"""lm-evaluation-harness: its tasks run on a run's systems, in every engine, with its scores; task cards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasets import Dataset

from instruct.base.cards import list_cards
from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.config import make_config
from instruct.engines.forward import open_model
from instruct.measuring.options import TaskOptions
from instruct.measuring.task_cards import read_task
from instruct.measuring.tasks import Harness
from instruct.reporting.compare_logs import compare_logs
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, read_metrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tasks.md"
# Table 5 of the paper: a template and what stands in it for each label.
PAPER = {
    "sst2": ('Review: "X" It is {}.', ["negative", "positive"]),
    "tweet_emotion": ('Tweet: "X" It is {}.', ["anger", "joy", "optimism", "sadness"]),
    "trec": (
        'Question: "X" It is about {}.',
        ["abbreviation", "entity", "description and abstract concept", "human being", "location", "numerical value"],
    ),
    "subj": ('"X" It is {}.', ["objective", "subjective"]),
    "cr": ('Review: "X" It is {}.', ["negative", "positive"]),
    "rt": ('Review: "X" It is {}.', ["negative", "positive"]),
    "ag_news": ('"X" It is about {}.', ["world", "sports", "business", "science and technology"]),
}


@pytest.fixture
def documented(tmp_path, monkeypatch) -> dict[str, Any]:
    """The files of the documented tasks in the current folder: labels, and questions; the content of the first task."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    section = PAGE.read_text(encoding="utf-8").partition("## Add a task")[2].partition("\n## Read the results")[0]
    for path, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    return yaml.safe_load(Path("data/tasks/mood.yaml").read_text())


@pytest.mark.slow
def test_systems_have_lm_evals_scores_in_the_documented_tasks_and_are_compared_row_by_row(
    tiny_experiment, make_adapter, documented, instruct, monkeypatch
):
    lm_eval = pytest.importorskip("lm_eval")
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setattr("lm_eval.evaluator.add_env_info", lambda results: None)  # it runs pip and git, for two seconds
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config({**content, "judges": [], "comparisons": []}, [], "test").model_dump(mode="json"))
    make_adapter(tiny_experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    evaluate = ["evaluate", run.folder, "--tasks", "mood"]
    code, out, err = instruct(*evaluate)
    assert code == 0, err
    assert "emo: lm-eval mood acc" in out
    assert instruct("evaluate", run.folder, "--tasks", "sums.yaml", "--chat")[0] == 0
    rows = {(row.system, row.task, row.metric): row.value for row in read_metrics(run).measurements}
    for system, folder in (("base", None), ("emo", run.adapters / "emo")):
        model = open_model(ModelOptions(name=tiny_experiment["model"]["name"], dtype="float32"), folder)
        with model.engine.adapted(model.adapter) as network:
            lm = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
            for task, file, name, key in (
                ("mood", "data/tasks/mood.yaml", "acc", "acc,none"),
                ("sums", "sums.yaml", "exact_match (last-number)", "exact_match,last-number"),
            ):
                found = lm_eval.simple_evaluate(
                    lm, tasks=[file], task_manager=TaskManager(include_defaults=False), bootstrap_iters=0,
                    apply_chat_template=task == "sums",
                )["results"][task]  # fmt: skip
                assert rows[system, task, name] == found[key]
    claims = compare_logs([run.folder], baseline="base").claims
    assert {(claim.task, claim.candidate, claim.baseline, claim.n) for claim in claims} == {
        ("mood", "emo", "base", 4), ("sums", "emo", "base", 2)
    }  # fmt: skip
    before, written = run.manifest()["steps"], metrics_path(run).stat().st_mtime_ns
    assert instruct(*evaluate)[0] == 0
    assert (run.manifest()["steps"], metrics_path(run).stat().st_mtime_ns) == (before, written)
    with Path("mood_test.csv").open("a") as file:  # which is measured again
        file.write("A fine hour.,1\n")
    assert instruct(*evaluate, "--chat")[0] == 0
    found = [row for row in read_metrics(run).measurements if row.task == "mood"]
    assert {(row.n, row.details.chat) for row in found} == {(5, True)}


def task_of(name: str, rows: list[dict[str, Any]], monkeypatch) -> Any:
    """A card's task with these rows in each split."""
    task = pytest.importorskip("lm_eval.api.task")
    splits = dict.fromkeys(("train", "dev", "test"), Dataset.from_list(rows))
    monkeypatch.setattr(task.ConfigurableTask, "download", lambda self, *_, **__: setattr(self, "dataset", splits))
    return task.ConfigurableTask(config=dict(read_task(name).content))


def prompts(name: str, monkeypatch, shots: int = 0, text: str = "X") -> list[str]:
    task = task_of(name, [{"text": text, "label": 0, "coarse_label": 0}] * 2, monkeypatch)
    context = task.fewshot_context(task.eval_docs[0], shots)
    return [
        "".join(request.args) for request in task.construct_requests(task.eval_docs[0], context, metadata=("x", 0, 1))
    ]


def test_the_eight_tasks_of_the_paper_are_there():
    assert {*PAPER, "mmlu_ppl"} == {card.name for card in list_cards("data/tasks")}
    for name in [*PAPER, "mmlu_ppl"]:
        task = read_task(name)
        assert task.name == name
        assert task.content["num_fewshot"] == (5 if name == "mmlu_ppl" else 8)


@pytest.mark.parametrize("name", PAPER)
def test_a_template_is_the_papers(name, monkeypatch):
    template, labels = PAPER[name]
    assert prompts(name, monkeypatch) == [template.format(label) for label in labels]


def test_demonstrations_are_in_lines_before_the_text(monkeypatch):
    assert prompts("sst2", monkeypatch, 1, text="so so")[1] == (
        'Review: "so so" It is negative.\nReview: "so so" It is positive.'
    )


def test_mmlu_has_opencompass_prompt(monkeypatch):
    def row(question: str, label: int) -> dict[str, Any]:
        return {"question": question, "choices": [*"1234"], "subject": "abstract_algebra", "answer": label}

    task = task_of("mmlu_ppl", [row("First {A}?", 1), row("Second?", 3)], monkeypatch)
    context = task.fewshot_context(task.eval_docs[1], 1)
    assert context == (
        "The following are multiple choice questions (with answers) about  abstract algebra.\n\n"
        "First {A}?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer: B\n\nSecond?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:"
    )
    requests = task.construct_requests(task.eval_docs[1], context, metadata=("mmlu_ppl", 0, 1))
    assert [request.args[1] for request in requests] == [" A", " B", " C", " D"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("group: x\n", "is no task of lm-eval; it needs the key task"),
        ("task: a/b\n", "task: is part of file names; use letters, digits"),
    ],
)
def test_a_file_that_is_no_task_is_refused(tmp_path, text, message):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(InputError) as raised:
        read_task(str(tmp_path / "a.yaml"))
    assert re.sub(", line [0-9]+", "", str(raised.value)).startswith(f"{tmp_path / 'a.yaml'}: {message}")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("process_docs: !function steal.all\n", "steal.all"),
        ("%TAG !x! !func\n---\na: !x!tion steal.all\n", "steal.all"),
        ("class: steal.all\n", "steal.all"),
        ("metric_list: [{metric: org/theirs}]\n", "org/theirs"),
    ],
)
def test_a_file_that_names_code_is_refused_until_it_is_trusted(tmp_path, monkeypatch, text, code):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("include: part.yaml\ntask: mine\n")
    Path("part.yaml").write_text(text)
    refusal = rf"part\.yaml: runs code of its own \({re.escape(code)}\); .*evaluation\.tasks\.trust_task_code"
    with pytest.raises(InputError, match=refusal):
        read_task("mine.yaml")
    assert read_task("mine.yaml", trusted=True).name == "mine"


def test_a_template_of_a_task_reaches_no_code(tmp_path, documented):
    dummy = pytest.importorskip("lm_eval.models.dummy")
    reach = "{{ cycler.__init__.__globals__.os.system('touch ran') }}{{ ''.__class__.__mro__ }}"
    Path("theirs.yaml").write_text(
        yaml.safe_dump({**documented, "task": "theirs", "num_fewshot": 0, "doc_to_text": reach})
    )
    tasks = Harness(TaskOptions(names=["theirs.yaml"]))
    with pytest.raises(InputError, match="the task theirs cannot be run") as raised:
        tasks.evaluate(dummy.DummyLM, "theirs", tmp_path / "kept")
    assert "unsafe" in str(raised.value)
    assert not Path("ran").exists()
