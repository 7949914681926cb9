"""Real vLLM with the real SmolLM2-135M and an adapter: one start for both, and resuming after a kill."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest
import stored

from instruct.base.models import ModelOptions
from instruct.data.evaluation import load_answers
from instruct.data.prompts import EvalPrompt
from instruct.data.templates import Rendering
from instruct.engines import vllm
from instruct.engines.vllm import VLLMClient
from instruct.generation.answers import GenerationConfig, generate_answers

PROMPTS = [
    EvalPrompt(text, "tiny")
    for text in (
        "Name the capital of France.",
        "Say hello.",
        "Write a line about the sea, the wind and the ships that pass at night.",
        "What is two plus three?",
        "List three colours.",
        "Why is the sky blue?",
        "Reply with the single word yes.",
    )
]
CONFIG = GenerationConfig(engine="vllm", max_new_tokens=8, batch_size=2)
BATCHES = 4  # of each system


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_vllm_answers_for_base_and_adapter_in_one_start_and_resumes_after_a_kill(
    smollm2,
    make_adapter,
    tmp_path,
    monkeypatch,
    run_and_kill,
    answer_command,
):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    starts: list[VLLMClient] = []

    class Counted(VLLMClient):
        def __init__(self, *arguments: Any) -> None:
            starts.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(vllm, "VLLMClient", Counted)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    systems: dict[str, Path | None] = {"base": None, "tuned": make_adapter(smollm2, tmp_path / "adapter", 1, 0.05)}
    undisturbed, out = tmp_path / "undisturbed", tmp_path / "out"
    stats = generate_answers(ModelOptions(name=smollm2), systems, PROMPTS, "chat", CONFIG, undisturbed)
    assert len(starts) == 1
    for name in systems:
        assert stats[name].n == len(load_answers(undisturbed / f"{name}.json")) == len(PROMPTS)
        assert stats[name].engine.startswith("vllm ")
        assert 0 < stats[name].mean_tokens <= 8
    base, tuned = ([row["output"] for row in load_answers(undisturbed / f"{name}.json")] for name in systems)
    assert "Paris" in base[0]
    assert base != tuned
    assert 0 < stats["base"].truncated < len(PROMPTS)  # some answers need more than 8 tokens, some do not

    engines: list[psutil.Process] = []
    running = set(psutil.Process().children(recursive=True))  # other tests share an engine

    def reached() -> bool:
        if stored.finished(out, "base") < 2:
            return False
        started = set(psutil.Process().children(recursive=True)) - running
        engines.extend(process for process in started if "vllm_process.py" in str(process.cmdline()))
        return True

    run_and_kill(answer_command(smollm2, systems, PROMPTS, CONFIG, out), reached)
    assert engines
    assert not psutil.wait_procs(engines, timeout=30)[1]  # vLLM ends with the process that it served
    stored.change(out, "base", "UPDATE batches SET seconds = 12345")  # SQLite first undoes a commit that was cut off
    kept = stored.finished(out, "base")
    assert 1 <= kept < BATCHES

    generate_answers(ModelOptions(name=smollm2), systems, PROMPTS, "chat", CONFIG, out)
    assert len(starts) == 2
    again = stored.select(stored.path_of(out, "base"), "SELECT COUNT(*) FROM batches WHERE seconds = 12345")
    assert again == [(kept,)]  # not generated again
    for name in systems:
        assert (out / f"{name}.json").read_bytes() == (undisturbed / f"{name}.json").read_bytes()
    generate_answers(ModelOptions(name=smollm2), systems, PROMPTS, "chat", CONFIG, out)
    assert len(starts) == 2  # all is there


@pytest.mark.slow
def test_an_answer_that_is_cut_off_while_the_model_thinks_has_failed(smollm2, tmp_path):
    pytest.importorskip("vllm")
    rendering = Rendering("qwen3_5_think")  # its prompts open the thinking, which this model does not end
    for engine in ("vllm", "transformers"):
        config = GenerationConfig(engine=engine, max_new_tokens=8, batch_size=4)
        stats = generate_answers(
            ModelOptions(name=smollm2), {"base": None}, PROMPTS[:2], "chat", config, tmp_path / engine,
            rendering=rendering,
        )  # fmt: skip
        rows = json.loads((tmp_path / engine / "base.json").read_text())
        assert {(row["output"], row["failed"]) for row in rows} == {("", "cut off while thinking")}
        assert stats["base"].failed == {"cut off while thinking": 2}
