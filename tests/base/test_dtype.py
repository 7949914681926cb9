"""The dtype that models compute in: what picks it, and every place that computes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from instruct import EMOConfig
from instruct.base import models
from instruct.base.models import ModelOptions, compute_dtype, pick_dtype
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.forward import open_model
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine
from instruct.measuring.sampled import TextReader


def never() -> str:
    raise AssertionError("the checkpoint was looked at")


@pytest.mark.parametrize(
    ("line", "flags", "picked"),
    [
        ("flags", "avx2 avx512f avx512_bf16", "bfloat16"),
        ("Features", "fp asimd bf16", "bfloat16"),
        ("flags", "avx2 avx512f", "float32"),
    ],
)
def test_a_cpu_takes_bfloat16_if_it_has_the_instructions(monkeypatch, line, flags, picked):
    monkeypatch.setattr(models, "has_gpu", lambda: False)
    monkeypatch.setattr(models, "processor_line", lambda name: flags if name == line else "")
    assert pick_dtype("auto", never) == pick_dtype(None, never) == picked
    assert pick_dtype("float16", never) == "float16"


@pytest.mark.parametrize(
    ("stated", "supported", "picked"),
    [
        ("bfloat16", True, "bfloat16"),
        ("bfloat16", False, "float16"),
        ("float32", True, "float32"),
    ],
)
def test_a_gpu_takes_the_checkpoints_own(monkeypatch, stated, supported, picked):
    monkeypatch.setattr(models, "has_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: supported)
    assert pick_dtype("auto", lambda: stated) == picked
    assert pick_dtype("float32", never) == "float32"


# Every place that computes with a model


def options_of(model: Path) -> EngineOptions:
    return EngineOptions("model", str(model), Decoding(max_tokens=4), 64)


@pytest.fixture(params=["float32", "bfloat16"])
def picked(request, monkeypatch) -> str:
    """What a CPU picks, with and without the instructions."""
    monkeypatch.setattr(models, "has_gpu", lambda: False)
    for module in ("base.models", "training.emo_config"):
        monkeypatch.setattr(f"instruct.{module}.has_bfloat16_instructions", lambda: request.param == "bfloat16")
    return request.param


@contextlib.contextmanager
def opened(engine: Any) -> Iterator[Any]:
    with contextlib.closing(engine):
        yield engine.network


def test_answers_and_measurements_compute_in_it(picked, tiny_model, tiny_model_folder):
    for model in (tiny_model, tiny_model_folder):  # checkpoints in bfloat16 and in float32
        assert compute_dtype(ModelOptions(name=str(model))) == picked
        reader = TextReader(ModelOptions(name=str(model)), 8)  # the features of MAUVE
        places = [TransformersEngine(options_of(model)), open_model(ModelOptions(name=str(model))).engine]
        for engine in (*places, reader.model.engine):
            with opened(engine) as network:
                assert {weight.dtype for weight in network.parameters()} == {getattr(torch, picked)}
        assert reader.made_from[1] == picked
        assert f"--dtype={picked}" in VLLMEngine(options_of(model)).arguments()


def test_training_computes_in_it(picked, tmp_path):
    assert EMOConfig(str(tmp_path), use_cpu=True).bf16 == (picked == "bfloat16")


# A run


def test_a_run_records_its_dtype_and_goes_on_in_it(tiny_experiment, instruct, monkeypatch):
    """Begun without instructions for bfloat16, continued with them: nothing is trained, answered or judged again."""
    del tiny_experiment["model"]["dtype"]
    Path("config.yaml").write_text(yaml.safe_dump(tiny_experiment))
    monkeypatch.setattr(models, "has_gpu", lambda: False)
    monkeypatch.setattr(models, "has_bfloat16_instructions", lambda: False)
    code, printed, errors = instruct("run", "config.yaml")
    assert code == 0, errors
    assert "LoRA rank 2, float32" in printed
    assert yaml.safe_load(Path("runs/mine/config.yaml").read_text())["model"]["dtype"] == "float32"
    steps = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]

    monkeypatch.setattr(models, "has_bfloat16_instructions", lambda: True)
    code, printed, errors = instruct("run", "config.yaml")
    assert code == 0, errors
    again = json.loads(Path("runs/mine/manifest.json").read_text())["steps"]
    assert {name: step["started"] for name, step in again.items()} == {
        name: step["started"] for name, step in steps.items()
    }
    code, _, errors = instruct("run", "config.yaml", "--model.dtype", "bfloat16")
    assert code == 2
    assert 'model.dtype was "float32" and is "bfloat16" now, but train/emo is finished' in errors
