"""Clusters that cannot answer are refused in one line that names the machine, before anything is written."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines import ray_cluster
from instruct.engines.ray_cluster import ClusterOptions
from instruct.generation.answers import GenerationConfig, generate_answers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]


def test_a_cluster_that_cannot_answer_is_refused_in_one_line(cluster, tiny_model, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    here = ray_cluster.versions()

    def refused(said: str, **options: Any) -> None:
        where = ClusterOptions(**{"address": cluster.address, **options})
        config = GenerationConfig(engine="transformers", max_new_tokens=4, batch_size=1)
        with pytest.raises(InputError) as caught:
            answer(config, where)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not list((tmp_path / "out").glob("*"))

    answer = functools.partial(_answer, tiny_model, tmp_path / "out")
    refused("cluster: no Ray cluster at 127.0.0.1:9 (", address="127.0.0.1:9")
    refused("cluster: a worker needs 2 GPUs, and the largest of its 2 machines has 0", gpus_per_worker=2)
    refused("`workers` 3: the cluster has room for 2; lower it", workers=3)
    refused("`gpus_per_worker` 1.5: must be tensor_parallel_size (1) or more, and whole above 1", gpus_per_worker=1.5)

    monkeypatch.setattr(ray_cluster, "versions", lambda: {**here, "torch": "0.1"})
    refused("torch is 2.")
    answer(GenerationConfig(engine="transformers", max_new_tokens=4, batch_size=1), ClusterOptions(
        address=cluster.address, allow_mixed=True
    ))  # fmt: skip
    assert (tmp_path / "out" / "base.json").is_file()


def test_a_model_that_a_machine_lacks_is_refused_with_the_machine_s_name(cluster, tiny_model, tmp_path, batch_log):
    batch_log.with_name("no-model").touch()
    with pytest.raises(InputError, match=r"^worker [\d.]+ \(.+\): .* no such folder; copy the model"):
        _answer(tiny_model, tmp_path / "out", GenerationConfig(engine="transformers"), ClusterOptions(
            address=cluster.address
        ))  # fmt: skip


def _answer(model: Path, folder: Path, config: GenerationConfig, cluster: ClusterOptions) -> None:
    prompts = [EvalPrompt(f"Number {number}?", "tiny") for number in range(3)]
    generate_answers(ModelOptions(name=str(model)), {"base": None}, prompts, "chat", config, folder, cluster)
