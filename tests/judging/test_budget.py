"""A judge that costs money, as a command, with a server that counts tokens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import forked
import pytest
from fake_server import reply
from json_files import write_json

from instruct.judging.money import Price
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory

PAIRS = 24
PRICE = Price(1000, 2000)  # 0.001 USD per prompt token: 24 requests cost about 10 USD
CALL = ["judge", "runs/one", "--judge", "alpaca_eval_gpt4", "--candidate", "ours", "--baseline", "theirs"]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "OPENAI_API_KEY": "sk-none", "COLUMNS": "200"}
    return forked.run([sys.executable, "-m", "instruct", *arguments], folder, env)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with a run of two systems' answers, and a price table in which the local server costs money."""
    directory = RunDirectory(tmp_path / "runs" / "one")
    directory.start({"name": "one"})
    for name in ("ours", "theirs"):
        rows = [
            {"dataset": "d", "instruction": f"Question {i}?", "output": f"{name} {i} " * 20, "generator": name}
            for i in range(PAIRS)
        ]
        write_json(directory.outputs / f"{name}.json", rows)
    price = {"model": "gpt-4", "endpoint": "127.0.0.1", "input": PRICE.input, "output": PRICE.output}
    write_json(tmp_path / "judges" / "prices.yaml", {"prices": [price]})
    return tmp_path


def bill(requests: list[dict]) -> float:
    """What the server would charge for these requests."""
    counts = [reply(request["body"], "ok")["usage"] for request in requests]
    return sum(PRICE.usd(count["prompt_tokens"], count["completion_tokens"]) for count in counts)


def report(folder: Path) -> dict:
    return json.loads((folder / "runs" / "one" / "report" / "report.json").read_text())


@pytest.mark.slow
def test_refused_without_a_budget_then_partial_then_complete(folder, fake_server):
    url, requests = fake_server()
    call = [*CALL, "--base-url", url]

    refused = run(folder, *call)
    assert refused.returncode == 2
    assert f"estimate: {PAIRS} requests" in refused.stdout
    assert "instruct: this judge costs money; set --budget-usd, a limit" in refused.stderr
    assert requests() == []

    partial = run(folder, *call, "--budget-usd", "8")
    assert partial.returncode == 3, partial.stderr
    sent = requests()
    assert 0 < len(sent) < PAIRS
    assert bill(sent) <= 8
    assert (
        f"{PAIRS - len(sent)} requests to judge alpaca_eval_gpt4 are left; rerun with a larger --budget-usd"
        in partial.stderr
    )
    assert report(folder)["usd"] == pytest.approx(bill(sent))

    whole = run(folder, *call, "--budget-usd", "40")
    assert whole.returncode == 0, whole.stderr
    assert len(requests()) == len({json.dumps(request["body"]) for request in requests()}) == PAIRS
    spent = bill(requests())
    assert spent <= 40
    assert report(folder)["usd"] == pytest.approx(spent)

    again = run(folder, *call)  # nothing is left to pay for
    assert (again.returncode, len(requests())) == (0, PAIRS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_signal_loses_no_charge(folder, fake_server, number):
    """What is in flight counts in full; after Ctrl-C it is waited for, and paid once."""
    url, requests = fake_server(delay=0.7)
    call = [sys.executable, "-m", "instruct", *CALL, "--base-url", url, "--budget-usd", "100"]
    process = subprocess.Popen(call, cwd=folder, env={**os.environ, "OPENAI_API_KEY": "sk-none"})
    deadline = time.monotonic() + 60
    while len(requests()) < 12 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(number)
    code = process.wait(20)
    all_asked = number == signal.SIGINT and len(requests()) == PAIRS  # then the work is done
    assert code == (130 if number == signal.SIGINT else -number) or (all_asked and code == 0)
    with JudgmentStore(folder / "runs" / "one" / "judgments.sqlite") as store:
        spent = store.spent_usd()
        assert bill(requests()) - 1e-9 <= spent <= 100
        if number == signal.SIGINT:
            assert spent == pytest.approx(bill(requests()))
    again = run(folder, *CALL, "--base-url", url, "--budget-usd", "100")
    assert again.returncode == 0, again.stderr
    assert bill(requests()) - 1e-9 <= report(folder)["usd"] <= 100
    if number == signal.SIGINT:
        assert len(requests()) == PAIRS
