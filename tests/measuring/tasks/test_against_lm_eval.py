"""The documented tasks: a run's scores are those that lm-eval prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from instruct.base.models import ModelOptions
from instruct.config import make_config
from instruct.engines.forward import open_model
from instruct.reporting.compare_logs import compare_logs
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics

lm_eval = pytest.importorskip("lm_eval")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "tasks.md"


@pytest.mark.slow
def test_the_documented_tasks_have_lm_evals_scores_and_a_paired_test(
    tiny_experiment, make_adapter, tmp_path, instruct, monkeypatch
):
    """Labels, and questions in the chat template."""
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    section = PAGE.read_text(encoding="utf-8").partition("## Add a task")[2].partition("\n## Read the results")[0]
    for path, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text, encoding="utf-8")
    content = {**tiny_experiment, "systems": {"base": {"objective": "none"}, "emo": {"objective": "emo"}}}
    run = RunDirectory("runs/mine")
    run.start(make_config({**content, "judges": [], "comparisons": []}, [], "test").model_dump(mode="json"))
    make_adapter(tiny_experiment["model"]["name"], run.adapters / "emo", 1, 0.5)
    assert instruct("evaluate", run.folder, "--tasks", "mood")[0] == 0
    assert instruct("evaluate", run.folder, "--tasks", "sums.yaml", "--chat")[0] == 0
    rows = {(row.system, row.task, row.metric): row.value for row in read_metrics(run).measurements}
    for system in ("base", "emo"):
        folder = None if system == "base" else run.adapters / "emo"
        model = open_model(ModelOptions(name=tiny_experiment["model"]["name"], dtype="float32"), folder)
        with model.engine.adapted(model.adapter) as network:
            lm = HFLM(pretrained=network, tokenizer=model.tokenizer, batch_size=4)
            manager = TaskManager(include_defaults=False)
            for task, file in (("mood", "data/tasks/mood.yaml"), ("sums", "sums.yaml")):
                found = lm_eval.simple_evaluate(
                    lm, tasks=[file], task_manager=manager, bootstrap_iters=0,
                    apply_chat_template=task == "sums",
                )["results"][task]  # fmt: skip
                metric = "exact_match,last-number" if task == "sums" else "acc,none"
                name = "exact_match (last-number)" if task == "sums" else "acc"
                assert rows[system, task, name] == found[metric]
    found = compare_logs([run.folder], baseline="base").claims
    assert {(claim.task, claim.candidate, claim.baseline) for claim in found} == {
        (task, "emo", "base") for task in ("mood", "sums")
    }
