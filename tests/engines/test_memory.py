"""A model that does not fit this machine is refused before anything is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from json_files import write_json

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu_device
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.memory import check_memory
from instruct.run.directory import RunDirectory


@pytest.mark.skipif(has_gpu_device(), reason="this machine has a GPU")
def test_a_judge_without_its_gpu_is_refused_without_loading_torch_and_leaves_no_store(tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.start({"name": "run", "systems": {}, "comparisons": []})
    for system in ("ours", "theirs"):
        write_json(run.outputs / f"{system}.json", [{"instruction": "Why?", "output": system}])
    program = (
        "import sys; from instruct.command.main import main; code = main(); "
        "print(code, *({'torch', 'vllm', 'transformers'} & sys.modules.keys()))"
    )
    command = ["judge", run.folder, "--judge", "autoj", "--candidate", "ours", "--baseline", "theirs"]
    ended = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["2"], ended.stderr
    assert "judge autoj: needs its " in ended.stderr
    assert not run.store.exists()


def test_a_folder_larger_than_the_memory_is_refused(tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(2**43)  # sparse: takes no disk
    options = EngineOptions("judge x", str(tmp_path), Decoding(), 512)
    with pytest.raises(InputError, match=r"judge x: the weights in .* need at least 4096 GiB of memory and \d+ GiB"):
        check_memory(options)
