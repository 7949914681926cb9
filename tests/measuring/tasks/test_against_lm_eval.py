"""Ten tasks of which the data is at hand, and the documented ones: scores are those of lm-eval's own model."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from instruct.base.models import ModelOptions
from instruct.config import make_config
from instruct.engines.forward import open_model
from instruct.measuring.tasks.cards import read_task
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics
from tests.measuring.tasks.test_lm import local_lm

lm_eval = pytest.importorskip("lm_eval")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tasks.md"
ROWS = 6
TOLERANCE = 1e-4
ACC = {"metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]}
ROLLING = {
    "doc_to_text": "",
    "metric_list": [{"metric": "bits_per_byte", "aggregation": "bits_per_byte", "higher_is_better": False}],
}


def own(task: str, file: Path, kind: str, **more: Any) -> dict[str, Any]:
    source = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(file)}}, "test_split": "test"}
    return {"task": task, "output_type": kind, **source, **more}


@pytest.mark.full  # two minutes of CPU time
def test_ten_tasks_have_lm_evals_scores(tiny_model, shared_data, tmp_path, monkeypatch):
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    from instruct.measuring.tasks.lm import Replies

    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    gsm8k, ifeval = shared_data / "gsm8k" / "test.jsonl", shared_data / "ifeval" / "input_data.jsonl"
    written = [
        own("gsm8k_answer", gsm8k, "loglikelihood", doc_to_text="{{question}}", doc_to_target="{{answer}}", **ACC),
        own("gsm8k_text", gsm8k, "loglikelihood_rolling", doc_to_target="{{question}}", **ROLLING),
        own("ifeval_text", ifeval, "loglikelihood_rolling", doc_to_target="{{prompt}}", **ROLLING),
        own(
            "ifeval_reply", ifeval, "multiple_choice", doc_to_text="{{prompt}}", doc_to_choice=["Yes", "No, thanks"],
            doc_to_target=0,
        ),
    ]  # fmt: skip
    specs = []
    for content in written:
        specs.append(tmp_path / f"{content['task']}.yaml")
        specs[-1].write_text(yaml.safe_dump(content))
    specs += [read_task(name).path for name in ("trec", "sst2", "subj", "rt", "tweet_emotion", "mmlu")]
    manager = TaskManager(include_defaults=False, metadata={"folder": str(shared_data / "tasks"), "rule": "sum"})
    model = open_model(ModelOptions(name=str(tiny_model), dtype="float32"))
    compared, closer = 0, []
    with contextlib.closing(Replies(tmp_path / "replies.jsonl")) as replies, model.engine.adapted(None) as network:
        theirs = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
        ours = local_lm(model, network).keep(replies)
        for spec in specs:
            (task,) = manager.load([str(spec)])["tasks"].values()
            found = [
                lm_eval.simple_evaluate(lm, tasks=[task], limit=ROWS, bootstrap_iters=0)["samples"][task.config.task]
                for lm in (ours, theirs)
            ]
            for mine, expected in zip(*found, strict=True):
                assert (mine["doc_id"], mine["arguments"]) == (expected["doc_id"], expected["arguments"])
                scores = [_values(sample["filtered_resps"]) for sample in (mine, expected)]
                assert scores[0] == pytest.approx(scores[1], abs=TOLERANCE, rel=1e-6)
                best = [values.index(max(values)) for values in scores]
                if best[0] != best[1]:
                    closer.append((task.config.task, mine["doc_id"], *scores))
                    assert abs(scores[1][best[0]] - scores[1][best[1]]) < 2 * TOLERANCE, closer
                compared += 1
    print(f"{compared} rows of {len(specs)} tasks; other answers, with a margin below the tolerance: {closer}")
    assert compared == ROWS * len(specs)


def _values(replies: list[Any]) -> list[float]:
    return [float(reply[0]) if isinstance(reply, tuple | list) else float(reply) for reply in replies]


@pytest.mark.slow
def test_the_documented_tasks_have_lm_evals_scores_and_a_paired_test(
    tiny_experiment, make_adapter, tmp_path, instruct, monkeypatch
):
    """Lines of labels in latin-1, some blank; texts and labels in two files; questions in the chat template."""
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    section = PAGE.read_text(encoding="utf-8").partition("## Name local files")[2].partition("\n## How a label")[0]
    for path, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        Path(path).write_text(text, encoding="utf-8")
    for line in re.findall(r"^printf .*$", section, re.MULTILINE):
        subprocess.run(["bash", "-c", line], check=True)
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config({**content, "judges": [], "comparisons": []}, [], "test").model_dump(mode="json"))
    make_adapter(tiny_experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    assert instruct("evaluate", run.folder, "--tasks", "avis.yaml,weather.yaml")[0] == 0
    assert instruct("evaluate", run.folder, "--tasks", "sums.yaml", "--chat")[0] == 0
    rows = {(row.system, row.task, row.metric): row.value for row in read_metrics(run).measurements}
    for system in ("base", "emo"):
        folder = None if system == "base" else run.adapters / "emo"
        model = open_model(ModelOptions(name=tiny_experiment["model"]["name"], dtype="float32"), folder)
        with model.engine.adapted(model.adapter) as network:
            lm = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
            manager = TaskManager(include_defaults=False)
            for task in ("avis", "weather", "sums"):
                found = lm_eval.simple_evaluate(
                    lm, tasks=[f"{task}.yaml"], task_manager=manager, bootstrap_iters=0,
                    apply_chat_template=task == "sums",
                )["results"][task]  # fmt: skip
                if task == "sums":
                    assert rows[system, task, "exact_match (last-number)"] == found["exact_match,last-number"]
                else:
                    assert rows[system, task, "accuracy"] == pytest.approx(100 * found["acc,none"])
    assert instruct("report", run.folder)[0] == 0
    report = json.loads((run.report / "report.json").read_text())
    assert {(claim["task"], claim["candidate"], claim["baseline"]) for claim in report["claims"]} == {
        (task, "emo", "base") for task in ("avis", "weather", "sums")
    }
