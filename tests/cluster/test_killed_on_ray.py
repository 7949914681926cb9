"""Answers on a Ray cluster of two nodes are those of a single process, to the byte, whatever is killed.

What is killed is asked again, and what no worker survives ends the run with its name.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stored
from nodes import asked, driven, is_gone, two_nodes, wait

from instruct.base.errors import InstructError
from instruct.base.models import ModelOptions
from instruct.data.prompts import EvalPrompt
from instruct.engines.ray_cluster import ClusterOptions
from instruct.generation.answers import GenerationConfig, generate_answers

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray"), pytest.mark.timeout(600)]

PROMPTS = [EvalPrompt(f"Say {'many ' * (i % 4)}words about the number {i}.", "tiny") for i in range(23)]
CONFIG = GenerationConfig(engine="transformers", max_new_tokens=16, batch_size=2)
BATCHES = 12  # of each system
IN_FLIGHT = 2  # one batch is computed by each of two workers
Answer = Callable[..., Any]


@pytest.fixture(scope="module")
def systems(tiny_adapters):
    return {"base": None, "emo": tiny_adapters["emo"]}


@pytest.fixture(scope="module")
def alone(tiny_model, systems, tmp_path_factory):
    """What a single process writes."""
    folder = tmp_path_factory.mktemp("alone")
    generate_answers(ModelOptions(name=str(tiny_model)), systems, PROMPTS, "chat", CONFIG, folder)
    return folder


@pytest.fixture
def answer(tiny_model, systems, alone, tmp_path):
    """Answer on a cluster into `tmp_path/out`, and compare the files."""

    def call(address: str) -> Any:
        model, options = ModelOptions(name=str(tiny_model)), ClusterOptions(address=address)
        stats = generate_answers(model, systems, PROMPTS, "chat", CONFIG, tmp_path / "out", options)
        for name in systems:
            assert (tmp_path / "out" / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
        return stats

    return call


@pytest.fixture
def driver_arguments(batch_log, tiny_model, systems, tmp_path):
    """Arguments of `driver.py` that answer as `answer` does; without the address."""
    return {
        "log": str(batch_log), "seconds": 0.5, "model": str(tiny_model),
        "systems": {name: folder and str(folder) for name, folder in systems.items()},
        "prompts": [prompt.instruction for prompt in PROMPTS], "config": CONFIG.model_dump(),
        "folder": str(tmp_path / "out"),
    }  # fmt: skip


def finished(folder: Path) -> set[str]:
    """The stored batches, by their first keys."""
    return {
        f"{path.name.partition('.')[0]}/{batch * CONFIG.batch_size}"
        for path in folder.glob("*.replies.sqlite")
        for (batch,) in stored.select(path, "SELECT batch FROM batches")
    }


def test_answers_are_those_of_a_single_process_and_a_run_moves_both_ways(cluster, tiny_model, systems, alone, tmp_path):
    model, options = ModelOptions(name=str(tiny_model)), ClusterOptions(address=cluster.address)

    def answer(**where):
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


def test_a_killed_worker_and_a_failed_engine_are_replaced(cluster, batch_log, answer, caplog):
    batch_log.with_name("once-kill-base-6").touch()
    batch_log.with_name("once-fail-emo-8").touch()
    stats = answer(cluster.address)
    counts = asked(batch_log)
    assert len(counts) == 2 * BATCHES
    assert {key: count for key, count in counts.items() if count > 1} == {"base/6": 2, "emo/8": 2}
    assert 2 <= len(stats["emo"].workers) <= 4  # two, and those that replaced them
    lines = [line.split() for line in batch_log.read_text().splitlines()]
    for repeated in ("base/6", "emo/8"):
        assert len({process for process, first, *_ in lines if first == repeated}) == 2
    assert len({process for process, *_ in lines}) >= 3
    assert "cluster   replies of each worker: " in caplog.text
    wait(lambda: is_gone(batch_log), 30)


@pytest.mark.full
def test_a_batch_that_ends_its_worker_three_times_ends_the_run_with_its_name(cluster, batch_log, answer, tmp_path):
    poison = batch_log.with_name("fail-base-4")
    poison.touch()
    with pytest.raises(InstructError) as caught:
        answer(cluster.address)
    said = str(caught.value)
    assert "(base/4 to base/5) has ended its worker 3 times (last: RuntimeError: CUDA error: an illegal" in said
    assert said.endswith("finished batches are kept: rerun to resume")
    assert "\n" not in said
    assert asked(batch_log)["base/4"] == 3
    kept = finished(tmp_path / "out")
    assert len(kept) >= 2
    assert "base/4" not in kept
    before = asked(batch_log)
    poison.unlink()
    answer(cluster.address)
    assert {key for key in kept if asked(batch_log)[key] > before[key]} == set()


@pytest.mark.full
def test_an_engine_that_never_starts_ends_the_run(cluster, batch_log, answer):
    batch_log.with_name("no-start").touch()
    with pytest.raises(InstructError, match=r"^an engine has failed to start 3 times \(last: RuntimeError: CUDA"):
        answer(cluster.address)
    assert not batch_log.exists()


@pytest.mark.full
@pytest.mark.parametrize("what", ["kill", "fail"])
@pytest.mark.parametrize("batch", ["base-0", "base-12", "base-22", "emo-0", "emo-10", "emo-22"])
def test_an_end_at_any_batch_loses_nothing(cluster, batch_log, answer, what, batch):
    batch_log.with_name(f"once-{what}-{batch}").touch()
    answer(cluster.address)
    repeated = {key: count for key, count in asked(batch_log).items() if count > 1}
    assert repeated == {batch.replace("-", "/"): 2}


def test_a_killed_driver_loses_nothing_and_leaves_no_process(cluster, batch_log, answer, driver_arguments, tmp_path):
    with driven(driver_arguments | {"address": cluster.address}, tmp_path / "driver.log") as driver:
        wait(lambda: driver.poll() is not None or len(finished(tmp_path / "out")) >= 5, 240)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
    wait(lambda: is_gone(batch_log), 60)
    kept, before = finished(tmp_path / "out"), asked(batch_log)
    assert len(kept) >= 5
    assert len(before) - len(kept) <= 2 * IN_FLIGHT  # computed, and those whose replies were on their way
    answer(cluster.address)
    again = asked(batch_log) - before
    assert set(again) & kept == set()
    assert sum(asked(batch_log).values()) <= 2 * BATCHES + 2 * IN_FLIGHT


@pytest.mark.full
def test_workers_that_hang_end_the_run(cluster, batch_log, answer, monkeypatch, caplog):
    monkeypatch.setattr("instruct.engines.ray_engine.PATIENCE_S", 40.0)
    monkeypatch.setattr("instruct.engines.ray_crew.QUIET_S", 4.0)
    for key in ("base-2", "base-4"):
        batch_log.with_name(f"hang-{key}").touch()
    with pytest.raises(InstructError, match=r"no worker has finished a batch for \d+ s .*working on batch 1"):
        answer(cluster.address)
    assert " working on batch " in caplog.text
    wait(lambda: is_gone(batch_log), 30)


def test_a_machine_that_dies_is_done_without(batch_log, driver_arguments, alone, tmp_path):
    with two_nodes() as own:
        arguments = driver_arguments | {"address": own.address, "node": str(tmp_path / "node")}
        with driven(arguments, tmp_path / "driver.log") as driver:
            wait(lambda: driver.poll() is not None or (batch_log.is_file() and len(asked(batch_log)) >= 6), 240)
            assert driver.poll() is None, (tmp_path / "driver.log").read_text()[-3000:]
            here = (tmp_path / "node").read_text()
            other = next(node for node in own.list_all_nodes() if node.node_id != here)
            os.kill(other.all_processes["raylet"][0].process.pid, signal.SIGKILL)
            assert driver.wait(timeout=300) == 0, (tmp_path / "driver.log").read_text()[-3000:]
        wait(lambda: is_gone(batch_log), 60)
    for name in driver_arguments["systems"]:
        assert (tmp_path / "out" / f"{name}.json").read_bytes() == (alone / f"{name}.json").read_bytes()
    counts = asked(batch_log)
    assert len(counts) == 2 * BATCHES
    assert counts.total() <= 2 * BATCHES + IN_FLIGHT


@pytest.mark.full
def test_a_head_that_dies_is_named_and_what_is_finished_is_kept(batch_log, driver_arguments, answer, tmp_path):
    log = tmp_path / "driver.log"
    with two_nodes() as own:
        with driven(driver_arguments | {"address": own.address}, log) as driver:
            wait(lambda: driver.poll() is not None or len(finished(tmp_path / "out")) >= 3, 240)
            assert driver.poll() is None, log.read_text()[-3000:]
            kept = finished(tmp_path / "out")
            batch_log.with_name("hang-emo-22").touch()  # workers need no head to finish what they have
            os.kill(own.head_node.all_processes["gcs_server"][0].process.pid, signal.SIGKILL)
            assert driver.wait(timeout=200) == 1, log.read_text()[-3000:]
        (line,) = [line for line in log.read_text().splitlines() if "does not answer any more" in line]
        assert f"its head at {own.address} " in line
        assert "finished batches are kept: start the cluster again (docs/cluster.md) and rerun the command" in line
        assert "Traceback" not in log.read_text()
    batch_log.with_name("hang-emo-22").unlink()
    before = asked(batch_log)
    with two_nodes() as again:
        answer(again.address)
    assert {key for key in kept if asked(batch_log)[key] > before[key]} == set()
