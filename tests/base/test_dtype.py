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

from instruct.base import models
from instruct.base.models import ModelOptions, compute_dtype, pick_dtype
from instruct.config import make_config
from instruct.engines.base import Decoding, EngineOptions
from instruct.engines.forward import open_model
from instruct.engines.rewards import RewardEngine
from instruct.engines.transformers import TransformersEngine
from instruct.engines.vllm import VLLMEngine, VLLMRewardEngine
from instruct.judging.asking import Judge
from instruct.judging.options import JudgeOptions
from instruct.measuring.sampled import TextReader


def never() -> str:
    raise AssertionError("the checkpoint was looked at")


@pytest.mark.parametrize(
    ("line", "flags", "picked"),
    [
        ("flags", "avx2 avx512f avx512_bf16", "bfloat16"),
        ("flags", "avx512f amx_bf16", "bfloat16"),
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
        ("float16", True, "float16"),
        ("float32", True, "float32"),
    ],
)
def test_a_gpu_takes_the_checkpoints_own(monkeypatch, stated, supported, picked):
    monkeypatch.setattr(models, "has_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: supported)
    assert pick_dtype("auto", lambda: stated) == picked
    assert pick_dtype("float32", never) == "float32"


# Every place that computes with a model

GENERIC = Decoding(max_tokens=4)


def options_of(model: str | Path, **more: Any) -> EngineOptions:
    return EngineOptions("model", str(model), GENERIC, 64, **more)


@pytest.fixture(params=["float32", "bfloat16"])
def picked(request, monkeypatch) -> str:
    """What a CPU picks, with and without the instructions."""
    monkeypatch.setattr(models, "has_gpu", lambda: False)
    for module in ("base.models", "training.emo_config"):
        monkeypatch.setattr(f"instruct.{module}.has_bfloat16_instructions", lambda: request.param == "bfloat16")
    return request.param


@pytest.fixture
def trained_with(tmp_path, tiny_model_folder):
    """A trainer of LoRA on the tiny model, by an objective, and its config."""
    from instruct.training.rows import load_training_rows
    from instruct.training.train import make_trainer, trainer_arguments

    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"instruction": "Say one.", "input": "", "output": "One."}\n' * 4)

    def make(**content: Any) -> tuple[Any, Any]:
        data, model = {"files": [str(rows)], "template": "chat"}, {"name": str(tiny_model_folder)}
        config = make_config({"name": "t", "model": model, "data": data, "lora": {"r": 2}, **content}, [], "test")
        encoded = load_training_rows(config.data, config.model, config.train)
        arguments = trainer_arguments(config, config.systems["emo"], tmp_path / "out")
        return config, make_trainer(config.model, config.lora, arguments, encoded)

    return make


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


def test_judges_compute_in_it(picked, reward_model, tiny_experiment, tmp_path):
    with opened(RewardEngine(options_of(reward_model, reward=True))) as network:
        assert {weight.dtype for weight in network.base_model.parameters()} == {getattr(torch, picked)}
    assert f"--dtype={picked}" in VLLMRewardEngine(options_of(reward_model, reward=True)).arguments()
    for card in ("judge/judge.yaml", "smollm2_score"):  # a written verdict, and a score head on a model's states
        with Judge(JudgeOptions(card=card, engine="transformers")).open() as engine:
            assert engine.network.dtype == getattr(torch, picked)


def test_training_computes_in_it(picked, trained_with):
    _, trainer = trained_with()
    frozen = {weight.dtype for weight in trainer.model.parameters() if not weight.requires_grad}
    assert frozen == {getattr(torch, picked)}
    assert trainer.args.bf16 == (picked == "bfloat16")


def test_the_trainer_in_python_computes_in_it(picked, tmp_path):
    from instruct import EMOConfig

    assert EMOConfig(str(tmp_path), use_cpu=True).bf16 == (picked == "bfloat16")
    assert EMOConfig(str(tmp_path), use_cpu=True, bf16=True).bf16
    assert not EMOConfig(str(tmp_path), use_cpu=True, bf16=False).bf16


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
    judged = next(step for name, step in steps.items() if name.startswith("judge/"))
    assert judged["inputs"]["judge"]["dtype"] == judged["config"]["engine"]["dtype"] == "float32"

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
