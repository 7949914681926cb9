"""One process at a time writes a system's adapter, its outputs, or the verdicts of a run."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from instruct.base.errors import InputError, InstructError
from instruct.config import make_config
from instruct.phases.experiment import open_run, run_experiment
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


def test_a_second_process_is_refused_with_the_first_ones_name(tmp_path):
    run, scope = RunDirectory(tmp_path), outputs_of("emo")
    with held(run, scope) as process:
        who = rf"process {process.pid} on {re.escape(socket.gethostname())} \(since 20..-..-..T..:..:..\+00:00\)"
        with (
            pytest.raises(InputError, match=rf"{who} is writing the outputs of emo; wait until it ends, or stop it"),
            only_process(run, scope),
        ):
            pass
        for other in (VERDICTS, outputs_of("mle"), adapter_of("emo")):
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


def test_two_systems_train_side_by_side_and_one_system_in_one_process(tiny_experiment):
    systems = {name: {"objective": name} for name in ("mle", "emo")}
    content = {key: tiny_experiment[key] for key in ("model", "data", "lora", "train")}
    config = make_config({"name": "tiny", "systems": systems, "answers": None, **content}, [], "test")
    run = open_run(config)
    with held(run, adapter_of("emo")):
        with pytest.raises(InputError, match="is training emo; wait until it ends"):
            run_experiment(config, last="train")
        assert any((run.adapters / "mle").glob("*.safetensors"))
        assert not (run.adapters / "emo").exists()
    run_experiment(config, last="train")
    assert any((run.adapters / "emo").glob("*.safetensors"))
