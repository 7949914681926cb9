"""Real vLLM with the real SmolLM2-135M and an adapter: kills of either process, and continuations."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import stored

from instruct.base.models import ModelOptions
from instruct.data.cards import Cut
from instruct.data.evaluation import load_answers
from instruct.data.prefixes import Prefix, PrefixSet
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import GenerationConfig, generate_answers
from instruct.generation.continuations import continue_texts, read_continuations
from instruct.generation.options import ContinuationOptions

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("vllm"), pytest.mark.timeout(1200)]
PROMPTS = [EvalPrompt("Name the capital of France.", "tiny"), EvalPrompt("Reply with the single word yes.", "tiny")]
PROMPTS += [EvalPrompt(f"Write a line about the number {number}.", "tiny") for number in range(10)]
CONFIG = GenerationConfig(engine="vllm", max_new_tokens=16, batch_size=2)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # vLLM has three processes to start


def of_vllm(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if "vllm" in " ".join(each.cmdline()).lower()]


def test_a_kill_of_the_command_or_of_vllm_loses_no_reply_and_leaves_no_process(
    smollm2, make_adapter, tmp_path, run_and_kill, answer_command
):
    systems: dict[str, Path | None] = {"base": None, "tuned": make_adapter(smollm2, tmp_path / "adapter", 1, 0.05)}
    out = tmp_path / "out"
    command = answer_command(smollm2, systems, PROMPTS, CONFIG, out)
    engines: list[psutil.Process] = []
    others = set(psutil.Process().children(recursive=True))

    def reached(count: int) -> bool:
        if stored.count(out, "base") < count:
            return False
        engines.extend(of_vllm([*set(psutil.Process().children(recursive=True)) - others]))
        return True

    run_and_kill(command, lambda: reached(2))
    assert len(engines) >= 3  # the server, its engine and a worker
    assert not psutil.wait_procs(engines, timeout=30)[1]
    stored.change(out, "base", "UPDATE completions SET created = 'before'")  # SQLite first undoes a commit cut off
    kept = stored.count(out, "base")
    assert 1 <= kept < len(PROMPTS)

    engines.clear()
    with (tmp_path / "again.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while not reached(kept + 1):
            assert process.poll() is None, (tmp_path / "again.log").read_text()[-3000:]
        next(each for each in engines if "EngineCore" in " ".join(each.cmdline())).kill()
        assert process.wait(timeout=120) == 1
    said = (tmp_path / "again.log").read_text()
    assert "vLLM ended (" in said.splitlines()[-1]
    assert not psutil.wait_procs(engines, timeout=30)[1]

    stats = generate_answers(ModelOptions(name=smollm2), systems, PROMPTS, "chat", CONFIG, out)
    before = stored.select(stored.path_of(out, "base"), "SELECT COUNT(*) FROM completions WHERE created = 'before'")
    assert before == [(kept,)]  # not asked again
    for name in systems:
        assert stats[name].n == len(load_answers(out / f"{name}.json")) == len(PROMPTS)
        assert stats[name].engine.startswith("vllm ")
        assert stats[name].failed == {}
        assert 0 < stats[name].mean_tokens <= 16
    base, tuned = ([row["output"] for row in load_answers(out / f"{name}.json")] for name in systems)
    assert "Paris" in base[0]
    assert base != tuned
    assert 0 < stats["base"].truncated < len(PROMPTS)  # some answers need more tokens, some do not


def test_vllm_continues_to_the_letter_with_samples_of_their_own_seeds(smollm2, make_adapter, tmp_path):
    texts = [" It was a dark and", "Call me", "The capital of France is", "The capital of France is", "In the year"]
    prefixes = PrefixSet("tiny", [Prefix(str(i), text, None, f"row {i}") for i, text in enumerate(texts)], {}, Cut())
    generation: dict[str, Any] = {"engine": "vllm", "max_new_tokens": 6, "max_model_len": 64}
    systems = {
        "base": (None, 1.0),
        "tuned": (make_adapter(smollm2, tmp_path / "adapter", 1, 0.05), 1.0),
        "cold": (None, 0.05),
    }
    options = ContinuationOptions(files=["-"], samples=2, generation=generation)
    continue_texts(ModelOptions(name=smollm2, dtype="float32"), systems, prefixes, options, tmp_path)
    found = {name: read_continuations(tmp_path / f"{name}.json") for name in systems}
    assert {(row.tokens, row.finish_reason) for rows in found.values() for row in rows} == {(6, "length")}
    base, tuned, cold = ([row.continuation for row in found[name]] for name in systems)
    assert base != tuned
    assert len(set(base)) == len(base) == 10  # also of equal prefixes
    assert cold[2] == cold[3] == cold[7]
    assert cold[2].startswith(" Paris")  # the space is the model's own first token
