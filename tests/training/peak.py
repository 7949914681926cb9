"""The memory that a training really takes on a small model, to compare the estimate with."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter
from train_configs import rows_of, tiny_config, write_rows
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, TrainerCallback

from instruct.engines.memory import GIB
from instruct.training.estimate import memory_gib, model_network, shape_of, sharding_of
from instruct.training.train import make_trainer, trainer_arguments


class PeakBytes(TorchDispatchMode):
    """The largest number of bytes that the storages of all tensors made inside have held at a time.

    FSDP2 keeps the tensors of gathered weights and resizes their storages, which no dispatched operation shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.sizes: dict[int, int] = {}

    def __enter__(self):
        self.resize = torch.UntypedStorage.resize_
        torch.UntypedStorage.resize_ = lambda storage, size: self.resized(self.resize(storage, size))
        return super().__enter__()

    def __exit__(self, *error):
        torch.UntypedStorage.resize_ = self.resize
        return super().__exit__(*error)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in tree_iter(result):
            if isinstance(tensor, torch.Tensor):
                self.count(tensor)
        return result

    def count(self, tensor: torch.Tensor) -> None:
        local = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
        if local.device.type == "meta":
            return
        storage = local.untyped_storage()
        if storage._cdata not in self.sizes:
            self.sizes[storage._cdata] = 0
            weakref.finalize(storage, self.forget, storage._cdata)
            self.resized(storage)

    def resized(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage._cdata in self.sizes:
            self.now += storage.nbytes() - self.sizes[storage._cdata]
            self.sizes[storage._cdata] = storage.nbytes()
            self.peak = max(self.peak, self.now)
        return storage

    def since_the_first_step(self) -> TrainerCallback:
        """Forgets the peak of the preparations: FSDP2 has then sharded what was loaded, on a GPU's host."""

        class Begin(TrainerCallback):
            def on_train_begin(callback, *args: Any, **kwargs: Any) -> None:
                self.peak = self.now

        return Begin()

    def forget(self, key: int) -> None:
        self.now -= self.sizes.pop(key, 0)


def save_model(folder: Path, tokenizer: Path) -> None:
    """A model whose layers outweigh its ends, in bfloat16."""
    sizes = {"hidden_size": 256, "intermediate_size": 704, "num_hidden_layers": 6, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=4096, eos_token_id=2, pad_token_id=0)).bfloat16()
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)


def estimated_and_measured(model: Path, folder: Path, lora: bool, use_cpu: bool = True) -> tuple[float, float]:
    """The peak of this process in two steps of bfloat16 training, in GiB."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(
        model, write_rows(folder / "rows.jsonl", 64), model={"name": str(model), "dtype": "bfloat16"},
        lora={"r": 8} if lora else None,
        train={
            "max_steps": 2, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_length": 64,
            "gradient_checkpointing": True, "save_strategy": "no", "use_cpu": use_cpu,
        },
    )  # fmt: skip
    data = rows_of(config)
    arguments = trainer_arguments(config, config.systems["emo"], folder / "out")
    shape = shape_of(model_network(config.model), config.model.name)
    estimated = sum(memory_gib(config.model, config.lora, shape, arguments, sharding_of(arguments)).values())
    with PeakBytes() as measured:
        trainer = make_trainer(config.model, config.lora, arguments, data)
        for tensor in (*trainer.model.parameters(), *trainer.model.buffers()):
            measured.count(tensor)
        trainer.add_callback(measured.since_the_first_step())
        trainer.train()
    return estimated, measured.peak / GIB
