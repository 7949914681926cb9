"""The estimated memory of a training: against a measured peak, and per process when it is spread over several."""

from __future__ import annotations

import weakref
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from train_configs import rows_of, tiny_config, write_rows
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from instruct.base.errors import InputError
from instruct.config import load_config
from instruct.engines.memory import GIB
from instruct.phases.train import check_memory, check_training
from instruct.training.estimate import Sharding, memory_gib, model_network, shape_of, sharding_of
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


class PeakBytes(TorchDispatchMode):
    """The largest number of bytes that the storages of all tensors made inside have held at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor)
        return result

    def count(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        if tensor.device.type != "meta" and storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = storage.nbytes()
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, storage._cdata)

    def forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def test_the_estimate_is_near_a_measured_peak(tmp_path, tiny_model_folder):
    """Of two steps in bfloat16, of a small model whose layers outweigh its ends."""
    sizes = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=4096, eos_token_id=2, pad_token_id=0)).bfloat16()
    model.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_model_folder).save_pretrained(tmp_path / "model")
    config = tiny_config(
        tmp_path / "model", write_rows(tmp_path / "rows.jsonl", 64), lora=None,
        model={"name": str(tmp_path / "model"), "dtype": "bfloat16"},
        train={
            "max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_length": 64,
            "gradient_checkpointing": True, "save_strategy": "no", "use_cpu": True,
        },
    )  # fmt: skip
    data = rows_of(config)
    arguments = trainer_arguments(config, config.systems["emo"], tmp_path / "out")
    shape = shape_of(model_network(config.model), config.model.name)
    estimated = sum(memory_gib(config.model, config.lora, shape, arguments, sharding_of(arguments)).values())
    with PeakBytes() as measured:
        trainer = make_trainer(config.model, config.lora, arguments, data)
        for tensor in (*trainer.model.parameters(), *trainer.model.buffers()):
            measured.count(tensor)
        trainer.train()
    assert estimated == pytest.approx(measured.peak / GIB, rel=0.15)


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
