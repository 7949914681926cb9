"""The estimated memory of a training: against a measured peak, and per process when it is spread over several."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch
from test_train import tiny_config, write_rows
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from instruct.config import load_config
from instruct.engines.memory import GIB
from instruct.errors import InputError
from instruct.preflight import check_memory
from instruct.training.estimate import model_shape
from instruct.training.memory import Sharding, memory_gib, sharding_of
from instruct.training.rows import load_training_rows
from instruct.training.train import make_trainer, trainer_arguments

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


class PeakBytes(TorchDispatchMode):
    """The largest number of bytes that the storages of all tensors made inside have held at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.seen: set[int] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor.untyped_storage())
        return result

    def count(self, storage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self.seen:
            return
        self.seen.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, key, size)

    def forget(self, key: int, size: int) -> None:
        self.seen.discard(key)
        self.now -= size


@pytest.fixture
def full_13b(tmp_path):
    """`llama2_13b_alpaca` without its weights, its arguments, and its sizes."""
    LLAMA_2_13B.save_pretrained(tmp_path / "llama")
    config = load_config("paper/llama2_13b_alpaca", ["--model.name", str(tmp_path / "llama")])
    arguments = SimpleNamespace(
        per_device_train_batch_size=4, max_length=512, gradient_checkpointing=True, optim="adamw_torch_fused"
    )
    return config, model_shape(config), arguments


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_the_estimate_is_near_a_measured_peak(tmp_path, tiny_model_folder, lora):
    folder = tmp_path / "model"
    sizes = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=4096, eos_token_id=2, pad_token_id=0)).bfloat16()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(folder)
    config = tiny_config(
        folder, write_rows(tmp_path / "rows.jsonl"), model={"name": str(folder), "dtype": "bfloat16"},
        lora={"r": 8} if lora else None,
        train={
            "max_steps": 2, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_length": 64,
            "gradient_checkpointing": True,
        },
    )  # fmt: skip
    data = load_training_rows(config)
    arguments = trainer_arguments(config, config.systems["emo"], tmp_path / "out")
    expected = memory_gib(config, model_shape(config), arguments)
    with PeakBytes() as measured:
        trainer = make_trainer(config, arguments, data.tokenizer, data.encoded)
        for tensor in (*trainer.model.parameters(), *trainer.model.buffers()):
            measured.count(tensor.untyped_storage())
        trainer.train()
    assert sum(expected.values()) == pytest.approx(measured.peak / GIB, rel=0.15)


def test_llama_2_13b_is_fully_fine_tuned_on_eight_gpus_and_refused_on_one(full_13b):
    config, shape, arguments = full_13b
    needed = {name: sum(memory_gib(config, shape, arguments, how).values()) for name, how in SHARDINGS.items()}
    for name in ("fsdp2", "zero2", "zero3"):
        check_memory(config, needed[name], GPU, SHARDINGS[name])
    with pytest.raises(InputError, match=r"needs about 2\d\d GiB .*79 GiB are free; spread it over .*fsdp2\.yaml"):
        check_memory(config, needed["one"], GPU, SHARDINGS["one"])
    with pytest.raises(InputError, match=r"on each of 8 GPUs .* spread it over .*bf16_stochastic_round=True"):
        check_memory(config, needed["ddp"], GPU, SHARDINGS["ddp"])
    two = Sharding(2, weights=True, gradients=True, optimizer=True)
    with pytest.raises(InputError, match=r"use more GPUs \(--num_processes\)"):
        check_memory(config, sum(memory_gib(config, shape, arguments, two).values()), GPU, two)


def test_stochastic_rounding_fits_one_gpu(full_13b):
    config, shape, arguments = full_13b
    config.train |= {"optim": "adamw_torch_8bit", "optim_args": "bf16_stochastic_round=True"}
    arguments.optim = "adamw_torch_8bit"
    assert sum(memory_gib(config, shape, arguments, Sharding()).values()) < GPU


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
    assert sharding_of(SimpleNamespace(world_size=8, deepspeed_plugin=plugin)) == expected
