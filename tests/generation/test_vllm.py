"""Real vLLM: kills of either process."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest
import stored

PROMPTS = 40
COMMAND = f"""
import sys
from pathlib import Path
from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.generation.answers import GenerationConfig, generate_answers
prompts = [EvalPrompt(f"Write a line about the number {{number}}.", "tiny") for number in range({PROMPTS})]
config = GenerationConfig(engine="vllm", max_new_tokens=16, batch_size=2)
generate_answers(ModelOptions(name=sys.argv[1]), {{"base": None}}, prompts, "chat", config, Path(sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
@pytest.mark.timeout(1200)
def test_a_kill_of_the_command_or_of_vllm_loses_no_reply_and_leaves_no_process(
    smollm2, tmp_path, run_and_kill, monkeypatch
):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # on a busy machine threads spend minutes waiting for each other
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)  # vLLM has three processes to start
    command = [sys.executable, "-c", COMMAND, smollm2, str(tmp_path)]
    others = {*psutil.Process().children(recursive=True)}
    log = tmp_path / "vllm.log"

    def of_vllm() -> list[psutil.Process]:
        own = {*psutil.Process().children(recursive=True)} - others
        return [each for each in own if "vllm" in " ".join(each.cmdline()).lower()]

    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        while stored.count(tmp_path, "base") < 2:
            assert process.poll() is None, log.read_text()[-3000:]
        engines = of_vllm()
        assert len(engines) >= 3  # the server, its engine and a worker
        next(each for each in engines if "EngineCore" in " ".join(each.cmdline())).kill()
        assert process.wait(timeout=120) == 1
    assert "vLLM ended (" in log.read_text().splitlines()[-1]
    assert not psutil.wait_procs(engines, timeout=30)[1]
    stored.change(tmp_path, "base", "UPDATE completions SET created = 'before'")
    kept = stored.count(tmp_path, "base")
    assert 2 <= kept < PROMPTS

    engines.clear()

    def reached() -> bool:
        if stored.count(tmp_path, "base") <= kept:
            return False
        engines.extend(of_vllm())
        return True

    run_and_kill(command, reached)
    assert len(engines) >= 3
    assert not psutil.wait_procs(engines, timeout=30)[1]
    before = "SELECT COUNT(*) FROM completions WHERE created = 'before'"
    assert stored.select(stored.path_of(tmp_path, "base"), before) == [(kept,)]  # not asked again
    assert kept < stored.count(tmp_path, "base") < PROMPTS
