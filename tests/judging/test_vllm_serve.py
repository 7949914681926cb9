"""A real `vllm serve` of SmolLM2-135M answers `instruct judge --base-url`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import forked
import pytest

from instruct.config import ExperimentConfig
from instruct.judging.cards import load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.presentations import PromptTemplate
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

LABELS = str(Path(__file__).resolve().parent.parent / "judges" / "smollm2_labels")  # a card that only tests use
PAIRS = [
    ("Name a colour.", "Blue.", "Not telling."),
    ("What is 2 + 3?", "5", "22"),
    ("Name the capital of Italy.", "I like trains.", "The capital of Italy is Rome."),
    ("Say yes – ✓ 好.", "yes", "no \u202e no"),
    ("Say a lot.", "word " * 4000, "no"),  # more than the server accepts
]
CONTEXT = 2048


@contextmanager
def vllm_serve(model: str, log: Path, name: str = "smollm2-135m-instruct", dtype: str = "float32") -> Iterator[str]:
    """The base URL of vLLM's own server with the embedded model.

    It is started as the module that `vllm serve` runs: the command itself looks for a package of the name vllm, which
    the build for CPUs does not have.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1", "--port", str(port),
        "--model", model, "--served-model-name", name, "--max-model-len", str(CONTEXT),
        "--dtype", dtype, "--enforce-eager",
    ]  # fmt: skip
    settings = {"VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 900
        while True:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself, and the test has failed
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def assert_label_logprobs(store: JudgmentStore, smollm2: str) -> None:
    """What is stored are the log-probabilities of the label tokens, as transformers computes them."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    template = PromptTemplate(load_judge_card(LABELS))
    tokenizer = AutoTokenizer.from_pretrained(smollm2)
    network = AutoModelForCausalLM.from_pretrained(smollm2, dtype=torch.float32)
    labels = [tokenizer(label, add_special_tokens=False)["input_ids"][0] for label in ("1", "2")]
    for each in store.judgments(ComparisonKey("smollm2_labels", "a", "b")):
        if each.verdict == "failed":
            continue
        text, *shown = PAIRS[each.pair]
        first, second = shown if each.position == "first" else shown[::-1]
        ids = tokenizer(template.render_all({"instruction": text}, first, second)[0], return_tensors="pt")["input_ids"]
        with torch.no_grad():
            wanted = network(ids).logits[0, -1].log_softmax(-1)[labels]
        found = store.completions([each.key])[each.key].label_logprobs
        assert torch.allclose(torch.tensor([found["1"], found["2"]]), wanted, atol=1e-3)


@pytest.mark.slow
@pytest.mark.xdist_group("vllm")
def test_a_real_server_is_asked_once(smollm2, tmp_path):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    run = RunDirectory(tmp_path / "runs" / "served")
    run.start(ExperimentConfig(name="served").model_dump(mode="json"))
    run.outputs.mkdir()
    for side, name in enumerate("ab", 1):
        rows = [{"dataset": "d", "instruction": pair[0], "output": pair[side], "generator": name} for pair in PAIRS]
        (run.outputs / f"{name}.json").write_text(json.dumps(rows))

    def judge(url: str) -> str:
        command = [sys.executable, "-m", "instruct", "judge", str(run.folder), "--judge", LABELS]
        sides = ["--candidate", str(run.outputs / "a.json"), "--baseline", str(run.outputs / "b.json")]
        done = forked.run([*command, *sides, "--base-url", url], tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with vllm_serve(smollm2, tmp_path / "server.log") as url:
        judge(url)
    with JudgmentStore(run.store) as store:
        judgments = store.judgments(ComparisonKey("smollm2_labels", "a", "b"))
        assert_label_logprobs(store, smollm2)
    verdicts = Counter(judged.verdict for judged in judgments)
    assert sum(verdicts.values()) == 2 * len(PAIRS)
    assert verdicts["failed"] == 2
    assert "unparsed" not in verdicts
    assert all(j.reason.startswith("too long") for j in judgments if j.verdict == "failed")
    comparison = json.loads((run.report / "report.json").read_text())["judges"][0]["comparisons"][0]
    assert comparison["claim"]["counts"]["failed"] == 1

    report = (run.report / "report.json").stat().st_mtime_ns
    judge(url)  # the server has stopped: nothing is sent
    with JudgmentStore(run.store) as store:
        assert store.judgments(ComparisonKey("smollm2_labels", "a", "b")) == judgments
    assert (run.report / "report.json").stat().st_mtime_ns > report
