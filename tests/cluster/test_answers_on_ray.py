"""Answers on a Ray cluster of two nodes: the files of a single process, to the byte, whatever is killed."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import stored

from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines.ray_cluster import ClusterOptions
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.generation.written import ReplyStats

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 4)}words about the number {i}.", "tiny") for i in range(14)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=24, batch_size=3)
BATCHES = 5  # of each system


@pytest.fixture(scope="module")
def systems(tiny_adapters):
    return {"mle": tiny_adapters["mle"], "base": None, "emo": tiny_adapters["emo"]}


@pytest.fixture(scope="module")
def alone(tiny_model, systems, tmp_path_factory):
    """What a single process writes."""
    folder = tmp_path_factory.mktemp("alone")
    generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", CONFIG, folder)
    return folder


def test_answers_are_those_of_a_single_process_and_a_run_moves_both_ways(cluster, tiny_model, systems, alone, tmp_path):
    model, options = ModelOptions(name=str(tiny_model)), ClusterOptions(address=cluster.address)

    def answer(**where: Any) -> dict[str, ReplyStats]:
        return generate_answers(model, systems, PROMPTS, "chat", CONFIG, tmp_path, **where)

    stats = answer(where=options)
    for name in systems:
        assert (tmp_path / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
        assert stored.replies(tmp_path, name) == stored.replies(alone, name)
        assert stored.made_by(tmp_path, name) == stored.made_by(alone, name)
    workers = stats["emo"].workers
    assert len(workers) == 2
    assert sum(worker["batches"] for worker in workers.values()) == BATCHES * len(systems)
    assert sum(worker["replies"] for worker in workers.values()) == len(PROMPTS) * len(systems)
    for worker in workers.values():
        assert worker["device"]
        assert worker["engine"] == stats["emo"].engine
        assert {"torch", "transformers", "python"} <= set(worker["versions"])

    # What a cluster began is finished here, and what began here is finished on the cluster.
    for keep, where in ((2, {}), (3, {"where": options})):
        source = tmp_path if keep == 2 else alone
        for name in systems:
            if source != tmp_path:
                shutil.copy(stored.path_of(source, name), stored.path_of(tmp_path, name))
            stored.forget(tmp_path, name, keep)
            (tmp_path / f"{name}.json").unlink()
        moved = answer(**where)
        for name in systems:
            assert (tmp_path / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
            assert stored.finished(tmp_path, name) == BATCHES
        asked = sum(worker["batches"] for worker in moved["emo"].workers.values())
        assert asked == (0 if keep == 2 else (BATCHES - 3) * len(systems))
