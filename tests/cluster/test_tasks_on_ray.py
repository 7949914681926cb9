"""Tasks on a Ray cluster of two nodes: the replies of a single process, and no reply asked again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from instruct.base.models import ModelOptions
from instruct.engines.ray_cluster import ClusterOptions
from instruct.measuring.tasks.evaluate import evaluate_tasks
from instruct.measuring.tasks.options import TaskOptions
from instruct.run.directory import RunDirectory
from instruct.run.measurements import read_metrics

pytest.importorskip("lm_eval")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

SHARED = {
    "dataset_path": "json",
    "dataset_kwargs": {"data_files": {"test": "rows.jsonl"}},
    "test_split": "test",
    "doc_to_text": "{{text}} was",
}
CHOICE = SHARED | {
    "task": "choice",
    "output_type": "multiple_choice",
    "doc_to_choice": ["dark", "fine and dark"],
    "doc_to_target": "label",
}
REPLY = SHARED | {
    "task": "reply",
    "output_type": "generate_until",
    "doc_to_target": "dark",
    "generation_kwargs": {"until": [" the"], "max_gen_toks": 6},
}


def test_tasks_on_a_cluster_have_the_results_of_one_machine_and_move_to_it(
    cluster, tiny_model, tiny_adapters, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    words = ["the", "night", "rain", "a", "dark", "house", "it", "and"]
    rows = [{"text": " ".join(words[: 1 + n % 8]) + f" {n}", "label": n % 2} for n in range(20)]
    Path("rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for task in (CHOICE, REPLY):
        Path(f"{task['task']}.yaml").write_text(yaml.safe_dump(task))
    options = TaskOptions(cards=["choice.yaml", "reply.yaml"])
    model = ModelOptions(name=str(tiny_model), dtype="float32")
    systems = {"base": None, "emo": tiny_adapters["emo"]}
    found = {}
    for name, where in (("here", None), ("there", ClusterOptions(address=cluster.address))):
        run = RunDirectory(Path(name))
        run.start({"name": name})
        evaluate_tasks(options, run, model, systems, cluster=where)
        metrics = read_metrics(run).measurements
        replies = {path.name: dict(map(json.loads, path.read_text().splitlines())) for path in replies_of(run)}
        found[name] = {(row.system, row.part, row.metric): row.value for row in metrics}, replies
    values, replies = zip(*found.values(), strict=True)
    assert values[0] == pytest.approx(values[1])
    assert replies[0].keys() == replies[1].keys()
    assert len(replies[0]) == len(systems)
    for file, own in replies[1].items():
        assert len(own) == 3 * len(rows)
        for key, reply in own.items():
            other = replies[0][file][key]
            assert reply == (other if isinstance(other, str) else [pytest.approx(other[0], abs=1e-4), other[1]])
    # What the cluster measured is not measured again here.
    before = {path: path.read_bytes() for path in replies_of(run)}
    evaluate_tasks(options, run, model, systems)
    assert {path: path.read_bytes() for path in replies_of(run)} == before


def replies_of(run: RunDirectory) -> list[Path]:
    return sorted(run.folder.glob("metrics/replies/*.jsonl"))
