"""Fine-tunes a whole model as a reward model on human labels, with TRL's RewardTrainer and LoRA."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from instruct.base.errors import InputError
from instruct.base.models import model_path
from instruct.base.output import say
from instruct.judging.presentations import ChatTemplate
from instruct.validation.human_sets import HumanPair


@dataclass(frozen=True)
class RewardTraining:
    """Hyperparameters of `trl.RewardTrainer`; `rank` is LoRA's. A pair with a longer text is left out."""

    epochs: float = 1.0
    learning_rate: float = 1e-4
    batch_size: int = 8
    max_length: int = 2048
    rank: int = 16


def train_reward_model(
    model: str, pairs: Sequence[HumanPair], folder: Path, training: RewardTraining, seed: int = 0
) -> Path:
    """The folder with the fine-tuned model, its adapter merged. Ties are not trained on.

    Raises:
        InputError: no pair has a winner, the model cannot be loaded, or its tokenizer has no chat template.
    """
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    from trl import RewardConfig, RewardTrainer

    rows = [_preference(pair) for pair in pairs if pair.label != "tie"]
    if not rows:
        raise InputError("the labels have no pair with a winner; a reward model needs some")
    cuda = torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(model_path(model))
        torch.manual_seed(seed)
        network = AutoModelForSequenceClassification.from_pretrained(
            model_path(model), num_labels=1, dtype=torch.float32
        )
    except (OSError, ValueError) as error:
        from instruct.engines.pickles import unreadable

        raise unreadable(model, error) from error
    if not tokenizer.chat_template:
        raise InputError(f"{model}: the tokenizer has no chat template; choose a chat model")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    network.config.pad_token_id = tokenizer.pad_token_id
    with tempfile.TemporaryDirectory() as scratch:
        trainer = RewardTrainer(
            model=network,
            args=RewardConfig(
                output_dir=scratch,
                num_train_epochs=training.epochs,
                learning_rate=training.learning_rate,
                per_device_train_batch_size=training.batch_size,
                max_length=training.max_length,
                seed=seed,
                bf16=cuda and torch.cuda.is_bf16_supported(),
                use_cpu=not cuda,
                report_to="none",
                save_strategy="no",
                logging_steps=10,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            peft_config=LoraConfig(
                task_type="SEQ_CLS", r=training.rank, lora_alpha=2 * training.rank, target_modules="all-linear",
                modules_to_save=["score"],
            ),
        )  # fmt: skip
        if left := len(rows) - len(trainer.train_dataset):
            say(f"{left} of {len(rows)} pairs have a text of more than {training.max_length} tokens and are left out")
        trainer.train()
        merged = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    merged.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _preference(pair: HumanPair) -> dict[str, list[dict[str, str]]]:
    """TRL's explicit-prompt preference row, in the chat form in which the judge is asked."""
    row = {"instruction": pair.instruction, "input": pair.input}
    first, second = ChatTemplate().render_all(row, pair.first, pair.second)
    better, worse = (first, second) if pair.label == "first" else (second, first)
    return {"prompt": better[:1], "chosen": better[1:], "rejected": worse[1:]}  # type: ignore[dict-item]
