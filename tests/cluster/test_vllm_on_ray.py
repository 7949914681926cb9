"""Real SmolLM2-135M in vLLM on a cluster: the base and two adapters, and vLLM's own process killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from nodes import asked, is_gone, wait

from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines.ray_cluster import ClusterOptions
from instruct.generation.answers import GenerationConfig, generate_answers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]

QUESTIONS = ("Name the capital of", "Say hello to the people of", "Write a line about the sea of", "Who governs")
PROMPTS = [EvalPrompt(f"{question} {country}.", "tiny") for question in QUESTIONS for country in ("France", "Japan")]
CONFIG = GenerationConfig(engine="vllm", max_new_tokens=12, batch_size=2)
BATCHES = 4  # of each system


def test_base_and_two_adapters_are_those_of_one_machine_though_vllm_is_killed(
    cluster,
    batch_log,
    smollm2,
    make_adapter,
    tmp_path,
    monkeypatch,
):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    systems: dict[str, Path | None] = {"base": None}
    systems |= {f"tuned{seed}": make_adapter(smollm2, tmp_path / f"tuned{seed}", seed, 0.05) for seed in (1, 2)}
    model = ModelOptions(name=smollm2)
    generate_answers(model, systems, PROMPTS, "chat", CONFIG, tmp_path / "alone")
    batch_log.unlink()
    batch_log.with_name("once-kill_vllm-tuned1-4").touch()
    options = ClusterOptions(address=cluster.address)
    stats = generate_answers(model, systems, PROMPTS, "chat", CONFIG, tmp_path / "out", options)
    written = {name: (tmp_path / "out" / f"{name}.json").read_bytes() for name in systems}
    assert written == {name: (tmp_path / "alone" / f"{name}.json").read_bytes() for name in systems}
    assert len({content.replace(name.encode(), b"") for name, content in written.items()}) == len(systems)
    counts = asked(batch_log)
    assert len(counts) == len(systems) * BATCHES
    assert {key: count for key, count in counts.items() if count > 1} == {"tuned1/4": 2}
    assert all(worker["engine"].startswith("vllm ") for worker in stats["base"].workers.values())
    wait(lambda: is_gone(batch_log), 30)
