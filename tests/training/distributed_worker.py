"""The trainings that test_distributed.py compares, and one process of those that take two.

    python -m torch.distributed.run --standalone --nproc-per-node 2 tests/training/distributed_worker.py FOLDER MODE ...

The test calls `run_case` itself for what one process gives, and starts this file for the rest: many trainings in one
group of processes, since most of the time goes into starting them.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers.training_args
from datasets import Dataset
from peft import LoraConfig
from safetensors.torch import load_file
from tiny import VOCABULARY, tiny_model, tiny_tokenizer
from transformers import TrainerCallback

from instruct import EMOConfig, EMOTrainer
from instruct.data.token_weights import weighted_labels
from instruct.training.processes import save_whole

BATCH = 8  # rows of an optimizer step, over all processes and micro-batches
STEPS = 3


@dataclass(frozen=True)
class Case:
    """A training. What comes of it depends neither on the number of processes nor on what is sharded over them."""

    tied: bool = False
    lora: dict[str, Any] | None = None
    masked: bool = False  # no row of the second process has a response token
    micro_batches: int = 1
    resumed: bool = False  # stopped after the first step, and taken up again by another trainer
    streamed: bool = False
    weighted: bool = False
    arguments: dict[str, Any] = field(default_factory=dict)


LORA = {"r": 4, "target_modules": "all-linear", "task_type": "CAUSAL_LM"}
CASES = {
    "full": Case(),
    "tied": Case(tied=True, arguments={"gradient_checkpointing": True}),
    "table": Case(arguments={"transport_cost": "{folder}/tied"}),  # another model's head
    "saved_head": Case(lora={**LORA, "modules_to_save": ["lm_head"]}),
    "masked_lora": Case(masked=True, lora=LORA),
    "weighted_accumulated": Case(weighted=True, masked=True, micro_batches=2),
    "weighted_streamed": Case(weighted=True, streamed=True),
    "weighted_packed": Case(
        weighted=True, micro_batches=2, arguments={"objective": "mle", "padding_free": True, "max_length": None}
    ),
    "resumed": Case(resumed=True, arguments={"optim": "adamw_torch", "adam_epsilon": 1e-3}),
}

FSDP = {
    "ACCELERATE_USE_FSDP": "true",
    "ACCELERATE_TORCH_DEVICE": "cpu",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",  # the second process has empty weights until the model is sharded
}
ZERO = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_TORCH_DEVICE": "cpu"}
# What `accelerate launch` makes of its config file: environment variables.
MODES: dict[str, dict[str, str]] = {
    "ddp": {},
    "fsdp2": FSDP,
    "zero2": {**ZERO, "ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"},
    "zero3": {
        **ZERO,
        "ACCELERATE_DEEPSPEED_ZERO_STAGE": "3",
        "ACCELERATE_DEEPSPEED_ZERO3_INIT": "true",
        "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL": "true",
    },
}
REFUSED = {
    "average_tokens_across_devices": Case(arguments={"average_tokens_across_devices": False}),
    "trainable_token_indices": Case(tied=True, lora={**LORA, "trainable_token_indices": [3, 5]}),
}


def save_models(folder: Path) -> None:
    """The two models that the cases start from."""
    for tied in (False, True):
        model = tiny_model(tied=tied)
        with torch.no_grad():  # less steep: what rounding does must not grow from step to step
            for parameter in model.parameters():
                parameter.mul_(0.6)
        model.save_pretrained(folder / ("tied" if tied else "untied"))


def rows(count: int, masked: bool = False, weighted: bool = False) -> Dataset:
    """Token ids and labels. A masked row's only label is on its first token, which no state predicts."""
    generator = torch.Generator().manual_seed(1)
    found = []
    for row in range(count):
        prompt, response = 2 + row % 3, 1 + row * 5 % 7
        ids = torch.randint(3, VOCABULARY, (prompt + response,), generator=generator).tolist()
        labels = [-100] * prompt + ids[prompt:]
        if masked and row % BATCH >= BATCH // 2:
            labels = [ids[0]] + [-100] * (len(ids) - 1)
        elif weighted:
            labels = weighted_labels(ids, [(0, prompt, 0.1), (prompt, len(ids), 0.5 + row % 4)])
        found.append({"input_ids": ids, "labels": labels})
    return Dataset.from_list(found)


class Gradients(TrainerCallback):
    """The gradients that the optimizer is handed in the last step, whole."""

    def __init__(self) -> None:
        self.found: dict[str, torch.Tensor] = {}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        if state.global_step == STEPS - 1:
            for name, parameter in model.named_parameters():
                if parameter.grad is not None:
                    grad = parameter.grad
                    self.found[name] = (grad.full_tensor() if hasattr(grad, "full_tensor") else grad).clone()


def make_trainer(case: Case, mode: str, folder: Path, processes: int, **arguments: Any) -> EMOTrainer:
    micro_batches = case.micro_batches if processes > 1 else 1
    defaults = {
        "per_device_train_batch_size": BATCH // processes // micro_batches,
        "gradient_accumulation_steps": micro_batches,
        "per_device_eval_batch_size": BATCH // processes,
        "max_steps": STEPS,
        "optim": "sgd",
        "learning_rate": 0.01,
        "lr_scheduler_type": "constant",
        "train_sampling_strategy": "sequential",
        "max_length": 64,
        "report_to": [],
        "save_strategy": "no",
        "use_cpu": mode in ("one", "ddp"),
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "disable_tqdm": True,
        "model_init_kwargs": {"dtype": "float32", "attn_implementation": "eager"},
    }
    named = {
        key: value.format(folder=folder) if isinstance(value, str) else value for key, value in case.arguments.items()
    }
    dataset = rows(BATCH * STEPS, case.masked, case.weighted)
    return EMOTrainer(
        str(folder / ("tied" if case.tied else "untied")),
        EMOConfig(str(folder / "checkpoints" / mode), **{**defaults, **named, **arguments}),
        train_dataset=dataset.to_iterable_dataset() if case.streamed else dataset,
        # Rows that are repeated to fill the last batch cannot be told apart in one that has no padding.
        eval_dataset=rows(BATCH if case.arguments.get("padding_free") else BATCH + 3),
        processing_class=tiny_tokenizer(),
        peft_config=LoraConfig(**case.lora) if case.lora else None,
    )


def saved_weights(trainer: EMOTrainer, folder: Path) -> dict[str, torch.Tensor]:
    """What a user would load."""
    save_whole(trainer, folder)
    trainer.accelerator.wait_for_everyone()
    (file,) = folder.glob("*.safetensors")
    weights = load_file(file)
    if trainer.model.config.tie_word_embeddings and "lm_head.weight" in weights:  # FSDP saves it twice
        assert torch.equal(weights.pop("lm_head.weight"), weights["model.embed_tokens.weight"])
    return weights


def run_case(name: str, mode: str, folder: Path, processes: int = 1) -> dict[str, Any]:
    """What was logged, the last step's gradients, the saved weights before and after, an evaluation's metrics."""
    case = CASES[name]
    torch.manual_seed(0)
    checkpoint = None
    if case.resumed and processes > 1:
        make_trainer(case, mode, folder, processes, save_strategy="steps", save_steps=1, max_steps=1).train()
        checkpoint = str(folder / "checkpoints" / mode / "checkpoint-1")
        torch.manual_seed(0)
    trainer = make_trainer(case, mode, folder, processes)
    assert (trainer.is_fsdp_enabled, trainer.is_deepspeed_enabled) == (mode.startswith("fsdp"), mode.startswith("zero"))
    before = saved_weights(trainer, folder / "before" / name) if mode == "one" else {}
    gradients = Gradients()
    trainer.add_callback(gradients)
    trainer.train(resume_from_checkpoint=checkpoint)
    return {
        "history": [entry for entry in trainer.state.log_history if "loss" in entry],
        "gradients": gradients.found,
        "before": before,
        "after": saved_weights(trainer, folder / "after" / mode / name),
        "evaluation": trainer.evaluate(),
    }


def shard_on_the_cpu() -> None:
    """Accelerate shards over accelerators alone: told that these processes have some, it shards here, over gloo."""
    from accelerate.state import DistributedType, PartialState

    native = PartialState._prepare_backend

    def prepare_backend(self: Any, cpu: bool = False, *args: Any, **kwargs: Any) -> Any:
        return native(self, cpu, *args, **kwargs) if cpu else ("gloo", DistributedType.MULTI_GPU)

    PartialState._prepare_backend = prepare_backend
    transformers.training_args.is_torch_bf16_gpu_available = lambda: True


def refusal(case: Case, mode: str, folder: Path) -> str:
    try:
        make_trainer(case, mode, folder, 2)
    except ValueError as error:
        return str(error)
    return "not refused"


def main(folder: Path, wanted: list[str]) -> None:
    """Run "mode:case,case" for each of `wanted`; the main process writes FOLDER/MODE-CASE.pt."""
    shard_on_the_cpu()
    for mode, _, names in (entry.partition(":") for entry in wanted):
        os.environ.update(MODES[mode])
        for name in names.split(","):
            if name in REFUSED:
                found: Any = refusal(REFUSED[name], mode, folder)
            else:
                found = run_case(name, mode, folder, processes=2)
            if os.environ["RANK"] == "0":
                torch.save(found, folder / f"{mode}-{name}.pt")
        for variable in MODES[mode]:
            del os.environ[variable]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
