"""Twenty kills of each verb, at times drawn over its undisturbed duration: the bytes of an undisturbed run, and nothing
asked again but what was in flight.

Each test prints its figures: `make test-full PYTEST_ARGS="-s -k test_kills"`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import nodes
import pytest
import yaml
from works import RECORDED, RUN, Started, call_of, change_config, products, write_inputs

from instruct.base.models import EMBEDDED_MODEL

pytestmark = [pytest.mark.full, pytest.mark.slow, pytest.mark.timeout(3600)]
KILLS = int(os.environ.get("INSTRUCT_KILLS", "20"))


class Killed(NamedTuple):
    """A verb's work: its state before it, and what may be in flight when it is killed."""

    verb: str
    folder: Path
    in_flight: int
    asked: Callable[[], Counter[Any]]
    """How often each request was sent so far."""
    call: list[str]
    batches: Path | None = None


def killed_twenty_times(work: Killed, tmp_path: Path) -> None:
    draw = random.Random(work.verb)
    place = tmp_path / "life"

    def fresh() -> Counter[Any]:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(work.folder, place)
        return work.asked()

    def start() -> Started:
        return Started(work.call, place, work.batches, place=tmp_path)

    fresh()
    began = time.monotonic()
    code, printed = start().end(900)
    duration = time.monotonic() - began
    assert code == 0, printed[-3000:]
    wanted = products(place, work.verb)
    assert wanted
    before, kills, resumes, repeated, killed_in_life = fresh(), 0, 0, 0, 0
    began = time.monotonic()

    def finished() -> None:
        nonlocal before, resumes, repeated, killed_in_life
        assert products(place, work.verb) == wanted
        again = (work.asked() - before).values()
        more = sum(again) - len(again)
        assert more <= work.in_flight * killed_in_life, again
        resumes, repeated = resumes + killed_in_life, repeated + more
        before, killed_in_life = fresh(), 0

    while kills < KILLS:
        process = start()
        process.process.join(draw.random() * duration)
        if process.running:
            process.send(signal.SIGKILL)
            process.process.join()
        if process.process.exitcode == -signal.SIGKILL:
            kills, killed_in_life = kills + 1, killed_in_life + 1
            time.sleep(0.2)  # what it had sent arrives
        else:
            assert process.process.exitcode == 0, process.log.read_text()[-3000:]
            finished()
    code, printed = start().end(900)
    assert code == 0, printed[-3000:]
    finished()
    seconds = time.monotonic() - began
    print(
        f"\n{' '.join(work.call[:1])}: {kills} kills, {resumes} resumes, {repeated} repeated requests, "
        f"{seconds:.0f} s; undisturbed {duration:.1f} s"
    )


def batch_log(path: Path) -> Callable[[], Counter[Any]]:
    path.touch()
    return lambda: nodes.asked(path)


def of_server(requests: Callable[[], list[dict]]) -> Callable[[], Counter[Any]]:
    return lambda: Counter(json.dumps(request["body"], sort_keys=True) for request in requests())


@pytest.mark.xdist_group("faults")
@pytest.mark.parametrize("verb", ["train", "generate", "evaluate", "judge", "report"])
def test_kills_change_nothing(undisturbed, tmp_path, verb):
    log = tmp_path / "batches.log"
    asked = of_server(undisturbed.requests) if verb == "judge" else batch_log(log)
    folder = shutil.copytree(undisturbed.before[verb], tmp_path / "before")
    if verb == "report":
        shutil.rmtree(folder / RUN / "report")
    batches = log if verb == "generate" else None
    killed_twenty_times(Killed(verb, folder, 2 if verb == "judge" else 1, asked, call_of(verb), batches), tmp_path)


def only_answers(folder: Path, url: str, generation: dict[str, Any], **changes: Any) -> None:
    """A config whose only work is to answer; no system is trained."""
    write_inputs(folder, url)
    change_config(
        folder, systems={"base": {"objective": "none"}}, evaluation=None, comparisons=[], judges=[],
        answers={"files": ["prompts.json"], "generation": generation}, **changes,
    )  # fmt: skip


@pytest.fixture
def before(tmp_path: Path) -> Path:
    folder = tmp_path / "before"
    folder.mkdir()
    return folder


@pytest.mark.xdist_group("faults")
def test_kills_change_nothing_of_answers_of_a_server(before, fake_server, tmp_path):
    url, requests = fake_server(delay=0.3)
    only_answers(before, url, {"engine": "server", "base_url": url, "batch_size": 2})
    work = Killed("generate", before, 2, of_server(requests), ["generate", "mine.yaml"])
    killed_twenty_times(work, tmp_path)


VLLM = {"engine": "vllm", "max_new_tokens": 8, "batch_size": 2}


@pytest.mark.xdist_group("vllm")
def test_kills_change_nothing_of_answers_of_vllm(before, tmp_path, monkeypatch):
    pytest.importorskip("vllm", reason="vLLM is not installed")
    only_answers(before, "http://127.0.0.1:9/v1", VLLM, model={"name": EMBEDDED_MODEL})
    log = tmp_path / "batches.log"
    work = Killed("generate", before, 1, batch_log(log), ["generate", "mine.yaml"], log)
    killed_twenty_times(work, tmp_path)


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray", reason="Ray is not installed")
    with nodes.two_nodes() as started:
        yield started


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize("what", ["transformers", "vllm", "judge"])
def test_kills_change_nothing_on_two_nodes(undisturbed, cluster, tmp_path, what):
    """What trains, evaluates or reports runs on the machine of the call; an answering server is not on the cluster."""
    log, verb = tmp_path / "batches.log", "judge" if what == "judge" else "generate"
    folder = tmp_path / "before"
    call = [*call_of(verb), "--cluster", "ray", "--address", cluster.address]
    if what == "vllm":
        pytest.importorskip("vllm", reason="vLLM is not installed")
        folder.mkdir()
        only_answers(folder, "http://127.0.0.1:9/v1", VLLM, model={"name": EMBEDDED_MODEL})
        call[1] = "mine.yaml"
    else:
        shutil.copytree(undisturbed.before[verb], folder)
    if what == "judge":
        card = shutil.copytree(RECORDED.parent / "judges" / "smollm2_labels", folder / "judges" / "local")
        content = yaml.safe_load((card / "judge.yaml").read_text())
        settings = json.loads((folder / "model" / "config.json").read_text())
        (folder / "model" / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 8192}))
        (card / "judge.yaml").write_text(yaml.safe_dump({**content, "name": "local", "model": "./model"}))
        call += ["--judge", "judges/local", "--engine", "transformers", "--candidate", "emo", "--baseline", "baseline"]
    # Each of two workers computes a batch, and one more of each may be on its way.
    killed_twenty_times(Killed(verb, folder, 4, batch_log(log), call, log), tmp_path)
