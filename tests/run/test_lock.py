"""One process at a time writes a system's adapter, its outputs, or the verdicts of a run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from instruct.base.errors import InputError, InstructError
from instruct.config import make_config
from instruct.judging.work import JudgingMode
from instruct.phases.experiment import open_run, run_experiment
from instruct.phases.train import Training
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, adapter_of, only_process, outputs_of

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from instruct.run.directory import RunDirectory
from instruct.run.lock import only_process
with only_process(RunDirectory(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    time.sleep(120)
"""


@contextlib.contextmanager
def held(run: RunDirectory, scope: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lock."""
    command = [sys.executable, "-c", HOLD, str(run.folder.resolve()), scope]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("scope", "doing"),
    [
        (VERDICTS, "is judging this run"),
        (adapter_of("emo"), "is training emo"),
        (outputs_of("emo"), "is writing the outputs of emo"),
    ],
)
def test_a_second_process_is_refused_with_the_first_ones_name(tmp_path, scope, doing):
    run = RunDirectory(tmp_path)
    with held(run, scope) as process:
        who = rf"process {process.pid} on {re.escape(socket.gethostname())} \(since 20..-..-..T..:..:..\+00:00\)"
        with (
            pytest.raises(InputError, match=rf"{who} {doing}; wait until it ends, or stop it"),
            only_process(run, scope),
        ):
            pass
        for other in {VERDICTS, adapter_of("mle"), outputs_of("mle"), adapter_of("emo")} - {scope}:
            with only_process(run, other):  # another scope is free
                pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with only_process(run, scope):  # the lock of a killed process is released
        pass


def test_a_lock_that_cannot_be_opened_or_leads_elsewhere_is_one_line(tmp_path):
    run, lock, other = RunDirectory(tmp_path), tmp_path / ".verdicts.lock", tmp_path / "other"
    lock.mkdir()  # like a read-only directory, also for root
    with pytest.raises(InstructError, match=r"\.verdicts\.lock: cannot be opened"), only_process(run, VERDICTS):
        pass
    lock.rmdir()
    other.write_text("theirs")
    lock.symlink_to(other)
    with pytest.raises(InstructError, match="is a link; put the file itself there"), only_process(run, VERDICTS):
        pass
    assert other.read_text() == "theirs"


@pytest.fixture
def config(tmp_path, tiny_model_folder, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [json.dumps({"instruction": f"Say {n}.", "input": "", "output": f"It is {n}."}) for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    content = {
        "name": "tiny",
        "model": {"name": str(tiny_model_folder), "dtype": "float32"},
        "data": {"files": ["rows.jsonl"], "template": "chat"},
        "lora": {"r": 2},
        "train": {"max_steps": 1, "per_device_train_batch_size": 2},
        "systems": {"mle": {"objective": "mle"}, "emo": {"objective": "emo"}},
        "answers": None,
    }
    return make_config(content, [], "test")


def test_two_systems_train_side_by_side_and_one_system_in_one_process(config):
    run = open_run(config)
    with held(run, adapter_of("emo")):
        with pytest.raises(InputError, match="is training emo; wait until it ends"):
            run_experiment(config, last="train")
        assert any((run.adapters / "mle").glob("*.safetensors"))
        assert not (run.adapters / "emo").exists()
    run_experiment(config, last="train")
    assert any((run.adapters / "emo").glob("*.safetensors"))


def test_the_main_process_of_a_launch_holds_the_lock_for_all(config, monkeypatch):
    trained: list[str] = []
    monkeypatch.setattr("instruct.training.train.train_system", lambda config, name, *rest: trained.append(name))
    run, data = open_run(config), SimpleNamespace(rows=None, close=lambda: None)
    training = Training(config, JudgingMode())
    with held(run, adapter_of("mle")):
        monkeypatch.setattr("accelerate.PartialState", lambda: SimpleNamespace(is_main_process=False))
        training.make(run, data)
        assert trained == ["mle", "emo"]
        monkeypatch.setattr("accelerate.PartialState", lambda: SimpleNamespace(is_main_process=True))
        with pytest.raises(InputError, match="is training mle"):
            training.make(run, data)
