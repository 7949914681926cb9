"""A model that does not fit this machine is refused before anything is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
import torch

from instruct.base.errors import InputError
from instruct.base.machine import has_gpu_device
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.memory import check_memory
from instruct.judging.asking import engine_options
from instruct.judging.cards import load_judge_card
from instruct.run.directory import RunDirectory


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["autoj", "autoj_4bit", "autoj_single", "pandalm"])
def test_a_judge_that_does_not_fit_is_refused_before_the_hub_is_asked(name, monkeypatch):
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: pytest.fail("the hub was asked"))
    card = load_judge_card(name)
    begun = time.monotonic()
    with pytest.raises(InputError, match=rf"judge {name}: needs its .* and this machine has no GPU; give `base_url`"):
        check_memory(engine_options(card))
    assert time.monotonic() - begun < 5


@pytest.mark.skipif(has_gpu_device(), reason="this machine has a GPU")
@pytest.mark.parametrize("name", ["autoj", "pandalm"])
def test_a_judge_without_its_gpu_is_refused_without_loading_torch_and_leaves_no_store(name, tmp_path):
    run = RunDirectory(tmp_path / "run")
    run.start({"name": "run", "systems": {}, "comparisons": []})
    run.outputs.mkdir()
    for system in ("ours", "theirs"):
        (run.outputs / f"{system}.json").write_text(json.dumps([{"instruction": "Why?", "output": system}]))
    program = (
        "import sys; from instruct.command.main import main; code = main(); "
        "print(code, *({'torch', 'vllm', 'transformers'} & sys.modules.keys()))"
    )
    command = ["judge", run.folder, "--judge", name, "--candidate", "ours", "--baseline", "theirs"]
    ended = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=120)
    assert ended.stdout.split() == ["2"], ended.stderr
    assert f"judge {name}: needs its " in ended.stderr
    assert "and this machine has no GPU; give --base-url of a server that serves it" in " ".join(ended.stderr.split())
    assert not run.store.exists()


def test_a_gpu_that_is_too_small_is_refused(monkeypatch):
    card = load_judge_card("autoj")
    properties = type("Properties", (), {"total_memory": 16e9})
    monkeypatch.setattr("instruct.engines.memory.has_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    with pytest.raises(InputError, match=r"a GPU of 40 GB, and this machine's GPU has 16 GB; give `base_url`"):
        check_memory(engine_options(card))
    properties.total_memory = 42e9
    check_memory(engine_options(card))


def test_a_folder_larger_than_the_memory_is_refused(tmp_path):
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(2**43)  # sparse: takes no disk
    options = EngineOptions("judge x", str(tmp_path), Decoding(), 512)
    with pytest.raises(InputError, match=r"judge x: the weights in .* need at least 4096 GiB of memory and \d+ GiB"):
        check_memory(options)
