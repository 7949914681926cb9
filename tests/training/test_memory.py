"""The estimated memory of a training: against a measured peak, and per process when it is spread over several."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from peak import estimated_and_measured, save_model
from train_configs import tiny_config, write_rows
from transformers import LlamaConfig

from instruct.base.errors import InputError
from instruct.config import load_config
from instruct.phases.train import check_memory, check_training
from instruct.training.estimate import Sharding, memory_gib, model_network, shape_of, sharding_of
from instruct.training.train import train_options

SHARDINGS = {
    "one": Sharding(),
    "ddp": Sharding(8),
    "fsdp2": Sharding(8, weights=True, gradients=True, optimizer=True),
    "zero2": Sharding(8, gradients=True, optimizer=True),
    "zero3": Sharding(8, weights=True, gradients=True, optimizer=True),
}
LLAMA_2_13B = LlamaConfig(
    hidden_size=5120, intermediate_size=13824, num_hidden_layers=40, num_attention_heads=40, vocab_size=32000,
    architectures=["LlamaForCausalLM"],
)  # fmt: skip
GPU = 79.0  # what an 80 GB GPU has free, in GiB


@pytest.fixture
def full_13b(tmp_path):
    """`llama2_13b_alpaca` without its weights, its arguments, and its sizes."""
    LLAMA_2_13B.save_pretrained(tmp_path / "llama")
    config = load_config("paper/llama2_13b_alpaca", ["--model.name", str(tmp_path / "llama")])
    arguments = SimpleNamespace(
        per_device_train_batch_size=4, max_length=512, gradient_checkpointing=True, optim="adamw_torch_fused",
        use_cpu=False, chunk_rows=None,
    )  # fmt: skip
    return config, shape_of(model_network(config.model), config.model.name), arguments


@pytest.mark.parametrize("lora", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["full", "lora"])
def test_the_estimate_is_near_a_measured_peak(tmp_path, tiny_model_folder, lora):
    save_model(tmp_path / "model", tiny_model_folder)
    estimated, measured = estimated_and_measured(tmp_path / "model", tmp_path / "run", lora)
    assert estimated == pytest.approx(measured, rel=0.15)


def test_llama_2_13b_is_fully_fine_tuned_on_eight_gpus_and_refused_on_one(full_13b):
    config, shape, arguments = full_13b
    needed = {
        name: sum(memory_gib(config.model, None, shape, arguments, how).values()) for name, how in SHARDINGS.items()
    }
    for name in ("fsdp2", "zero2", "zero3"):
        check_memory(needed[name], GPU, SHARDINGS[name], lora=False)
    with pytest.raises(InputError, match=r"needs about 2\d\d GiB .*79 GiB are free; spread it over .*fsdp2\.yaml"):
        check_memory(needed["one"], GPU, SHARDINGS["one"], lora=False)
    with pytest.raises(InputError, match=r"on each of 8 GPUs .* spread it over "):
        check_memory(needed["ddp"], GPU, SHARDINGS["ddp"], lora=False)
    two = Sharding(2, weights=True, gradients=True, optimizer=True)
    with pytest.raises(InputError, match=r"use more GPUs \(--num_processes\)"):
        check_memory(sum(memory_gib(config.model, None, shape, arguments, two).values()), GPU, two, lora=False)


def test_a_trained_run_goes_on_where_training_would_not_fit(tmp_path, tiny_model_folder, monkeypatch, capsys):
    """Eight GPUs train, then a single process answers and judges."""
    monkeypatch.setattr("instruct.phases.train.available_gib", lambda: 0.0)
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"))
    with pytest.raises(InputError, match="0 GiB are free"):
        check_training(config, tmp_path / "run")
    adapter = tmp_path / "run" / "adapters" / "emo"
    adapter.mkdir(parents=True)
    (adapter / "adapter_model.safetensors").touch()
    assert check_training(config, tmp_path / "run").encoded.counts["kept"] == 24


@pytest.mark.parametrize(
    ("environment", "stage", "expected"),
    [
        ({}, None, Sharding(8)),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_RESHARD_AFTER_FORWARD": "true"}, None, SHARDINGS["fsdp2"]),
        ({"ACCELERATE_USE_FSDP": "true", "FSDP_RESHARD_AFTER_FORWARD": "false"}, None, SHARDINGS["zero2"]),
        ({}, 2, SHARDINGS["zero2"]),
        ({}, 3, SHARDINGS["zero3"]),
    ],
    ids=["ddp", "fsdp2", "fsdp2-whole", "zero2", "zero3"],
)
def test_the_sharding_is_that_of_the_environment(monkeypatch, environment, stage, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    plugin = None if stage is None else SimpleNamespace(zero_stage=stage)
    assert sharding_of(arguments_of(4, {"sync_each_batch": True}, plugin)) == expected


def test_fsdp_holds_whole_gradients_where_it_exchanges_them_after_the_last_micro_batch(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert sharding_of(arguments_of(4, None)) == Sharding(8, weights=True, optimizer=True)
    assert sharding_of(arguments_of(1, None)) == SHARDINGS["fsdp2"]


def test_fsdp_exchanges_gradients_after_each_micro_batch(tmp_path, tiny_model_folder, monkeypatch):
    """Otherwise a GPU of eight needs 48 GiB more for a model of 13 billion parameters."""
    config = tiny_config(tiny_model_folder, write_rows(tmp_path / "rows.jsonl"))
    assert "accelerator_config" not in train_options(config.train, config.model, adapted=True, evaluates=False)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    options = train_options(config.train, config.model, adapted=True, evaluates=False)
    assert options["accelerator_config"]["gradient_accumulation_kwargs"] == {"sync_each_batch": True}


def arguments_of(micro_batches: int, accumulation: dict | None, plugin=None) -> SimpleNamespace:
    """What `sharding_of` reads of the trainer's arguments, on 8 GPUs."""
    return SimpleNamespace(
        world_size=8,
        deepspeed_plugin=plugin,
        gradient_accumulation_steps=micro_batches,
        accelerator_config=SimpleNamespace(gradient_accumulation_kwargs=accumulation),
    )
