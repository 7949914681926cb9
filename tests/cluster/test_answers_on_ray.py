"""Answers on a Ray cluster of two nodes: the files of a single process, to the byte, whatever is killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instruct.base.models import ModelOptions
from instruct.data.evaluation import EvalPrompt
from instruct.engines.cluster_options import ClusterOptions
from instruct.generation.answers import AnswerStats, GenerationConfig, generate_answers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 4)}words about the number {i}.", "tiny") for i in range(14)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=24, batch_size=3)
BATCHES = 5  # of each system


@pytest.fixture(scope="module")
def systems(tiny_adapters: dict[str, Path]) -> dict[str, Path | None]:
    return {"mle": tiny_adapters["mle"], "base": None, "emo": tiny_adapters["emo"]}


@pytest.fixture(scope="module")
def alone(tiny_model: Path, systems: dict[str, Path | None], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a single process writes."""
    folder = tmp_path_factory.mktemp("alone")
    generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", CONFIG, folder)
    return folder


def journal(folder: Path, name: str) -> list[dict[str, Any]]:
    """A system's batches, without the time that they took."""
    lines = (folder / f"{name}.batches.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": 0} for line in lines[1:]]


def test_answers_are_those_of_a_single_process_and_a_run_moves_both_ways(
    cluster: Any, tiny_model: Path, systems: dict[str, Path | None], alone: Path, tmp_path: Path
) -> None:
    model, options = ModelOptions(name=str(tiny_model)), ClusterOptions(address=cluster.address)

    def answer(**where: Any) -> dict[str, AnswerStats]:
        return generate_answers(model, systems, PROMPTS, "chat", CONFIG, tmp_path, **where)

    stats = answer(cluster=options)
    for name in systems:
        assert (tmp_path / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
        made = journal(tmp_path, name)
        assert sorted(made, key=lambda batch: batch["batch"]) == journal(alone, name)
        header = (tmp_path / f"{name}.batches.jsonl").read_text().partition("\n")[0]
        assert header == (alone / f"{name}.batches.jsonl").read_text().partition("\n")[0]
    workers = stats["emo"].workers
    assert len(workers) == 2
    assert sum(worker["batches"] for worker in workers.values()) == BATCHES * len(systems)
    assert sum(worker["replies"] for worker in workers.values()) == len(PROMPTS) * len(systems)
    for worker in workers.values():
        assert worker["device"]
        assert worker["engine"] == stats["emo"].engine
        assert {"torch", "transformers", "python"} <= set(worker["versions"])

    # A journal that a cluster began is finished here, and one that began here is finished on the cluster.
    for keep, where in ((2, {}), (3, {"cluster": options})):
        source = tmp_path if keep == 2 else alone
        for name in systems:
            lines = (source / f"{name}.batches.jsonl").read_bytes().splitlines(keepends=True)
            (tmp_path / f"{name}.batches.jsonl").write_bytes(b"".join(lines[: 1 + keep]))
            (tmp_path / f"{name}.json").unlink()
        moved = answer(**where)
        for name in systems:
            assert (tmp_path / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
            assert len(journal(tmp_path, name)) == BATCHES
        asked = sum(worker["batches"] for worker in moved["emo"].workers.values())
        assert asked == (0 if keep == 2 else (BATCHES - 3) * len(systems))
