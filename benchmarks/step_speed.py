"""How long a whole LoRA step takes with this project's trainer, compared with TRL's.

    python -m benchmarks.step_speed                   # CPU: SmolLM2-135M, 8 real rows of at most 512 tokens per step
    python -m benchmarks.step_speed --device cuda     # GPU: a 1B-class model from a config, random weights, V = 128256

A step is the trainer's training_step (forward, backward) and the optimizer step. Rank 16 on all linear layers,
bfloat16 autocast, loss on the responses alone. Every contender takes one step per round on the same rows; a ratio is
the median over the rounds. `own_mle` and `own_emo` are the classes of OWN, which equal `mle` and `emo`, from a file of
a user's own. With `--clock cpu`, seconds are those of CPU time in all threads, because the machine may be shared.

The contenders with Liger use its norms, rotary embeddings and activations; neither trainer uses its loss, because both
replace the model's own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers.integrations.liger import apply_liger_kernel
from trl import SFTConfig, SFTTrainer

from benchmarks.harness import CLOCKS, alternate, ratios, real_rows, response_ids, write_results
from instruct import EMOConfig, EMOTrainer
from instruct.training.batches import HostLabelsCollator

ROWS, MAX_LENGTH, BATCHES = 8, 512, 4
RATIOS = (
    "emo/trl_mle", "emo/mle", "mle/trl_mle", "own_mle/mle", "own_emo/emo", "emo/trl_liger", "emo_liger/trl_liger",
)  # fmt: skip
# What a user would write into a file, and its name as an objective.
OWN = """
import torch
from instruct.objectives.objective import Weighting


class CrossEntropy:
    needs = ()

    def weigh(self, token):
        return Weighting(a=torch.ones_like(token.ce), value=token.ce)


class Transport:
    needs = ("cost",)

    def weigh(self, token):
        ratio = token.ce / (token.cost + token.q_target + 1e-10)
        half = torch.full_like(token.ce, 0.5)
        return Weighting(a=half, b=half * ratio, value=half * (token.ce + ratio * token.cost))
"""
OWN_NAMES = {"own_mle": "own.py:CrossEntropy", "own_emo": "own.py:Transport"}


def small_model() -> tuple[Any, list[dict[str, list[int]]], str]:
    """SmolLM2-135M and tokenized rows of real instructions."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from instruct.base.models import EMBEDDED_MODEL, model_path

    folder = model_path(EMBEDDED_MODEL)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows, source = real_rows()
    encoded = []
    for row in random.Random(0).sample(rows, ROWS * BATCHES):
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": "\n".join(filter(None, [row["instruction"], row.get("input")]))}],
            add_generation_prompt=True,
            return_dict=False,
        )
        response = tokenizer(row["output"])["input_ids"] + [tokenizer.eos_token_id]
        encoded.append(_row(prompt, response))
    return lambda: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16), encoded, source


def large_model() -> tuple[Any, list[dict[str, list[int]]], str]:
    """A model of Llama-3.2-1B's shape with random weights, and rows with the token frequencies of real text."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=128256,
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        tie_word_embeddings=True,
    )

    def make() -> Any:
        torch.manual_seed(0)
        with torch.device("cuda"):
            return LlamaForCausalLM(config).bfloat16()

    ids, source = response_ids(ROWS * BATCHES * 4 * MAX_LENGTH)
    rows = [ids[start : start + MAX_LENGTH] for start in range(0, len(ids), MAX_LENGTH)]
    return make, [_row(row[:128], row[128:]) for row in rows], source


def _row(prompt: list[int], response: list[int]) -> dict[str, list[int]]:
    ids = (prompt + response)[:MAX_LENGTH]
    return {"input_ids": ids, "labels": ([-100] * len(prompt) + response)[:MAX_LENGTH]}


def padding_tokenizer() -> Any:
    """A tokenizer with only a padding token: all a trainer needs if rows are token ids already."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>")


def make_trainer(
    name: str, make_model: Callable[[], Any], rows: list[dict[str, list[int]]], batch: int, folder: str, gpu: bool
) -> Any:
    """A contender's trainer with its model prepared, as `Trainer.train` would before the first step."""
    shared: dict[str, Any] = {
        "output_dir": f"{folder}/{name}",
        "per_device_train_batch_size": batch,
        "max_length": MAX_LENGTH,
        "bf16": True,
        "use_cpu": not gpu,
        "gradient_checkpointing": False,
        "report_to": [],
        "dataset_kwargs": {"skip_prepare_dataset": True},
        "remove_unused_columns": False,
        "use_liger_kernel": name.endswith("_liger"),
    }
    if name.startswith("trl"):
        cls, config = SFTTrainer, SFTConfig(**shared)
    else:
        objective = f"{folder}/{OWN_NAMES[name]}" if name in OWN_NAMES else name.removesuffix("_liger")
        cls, config = EMOTrainer, EMOConfig(**shared, objective=objective)
    trainer = cls(
        make_model(),
        config,
        train_dataset=Dataset.from_list(rows),
        processing_class=padding_tokenizer(),
        peft_config=LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM"),
    )
    if trainer.args.use_liger_kernel:
        apply_liger_kernel(trainer.model, trainer.args.liger_kernel_config)
    trainer.model_wrapped = trainer.accelerator.prepare(trainer.model)
    trainer.model_wrapped.train()
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def contender(trainer: Any, rows: list[dict[str, list[int]]], batch: int) -> Callable[[], None]:
    """A function that takes one optimizer step of a trainer on its next batch."""
    model = trainer.model_wrapped
    optimizer = trainer.create_optimizer()
    collator = trainer.data_collator
    if isinstance(trainer, EMOTrainer):
        collator = HostLabelsCollator(collator)  # as in EMOTrainer.get_train_dataloader
    batches = cycle([collator(rows[start : start + batch]) for start in range(0, len(rows), batch)])

    def step() -> None:
        inputs = trainer._prepare_inputs(dict(next(batches)))
        trainer.training_step(model, inputs, num_items_in_batch=(inputs["labels"][:, 1:] != -100).sum())
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--no-write", action="store_true", help="print only")
    arguments = parser.parse_args()
    gpu = arguments.device == "cuda"
    make_model, rows, source = large_model() if gpu else small_model()
    batch = 4 * ROWS if gpu else ROWS
    names = ["trl_mle", "mle", "emo", *OWN_NAMES, *(["trl_liger", "emo_liger"] if gpu else [])]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "own.py").write_text(OWN, encoding="utf-8")
        trainers = {name: make_trainer(name, make_model, rows, batch, folder, gpu) for name in names}
        steps = {name: contender(trainer, rows, batch) for name, trainer in trainers.items()}
        seconds = alternate(steps, arguments.rounds, CLOCKS[arguments.clock])
    responses = [sum(label != -100 for label in row["labels"]) for row in rows]
    model = "Llama-3.2-1B's shape, random weights" if gpu else "SmolLM2-135M"
    tokens, answered = (
        round(sum(sizes) * batch / len(rows)) for sizes in ([len(row["input_ids"]) for row in rows], responses)
    )
    print(f"{model}: {tokens} tokens a step, {answered} of them responses")
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    for name, value in medians.items():
        print(f"  {name:14} {value:8.3f} s")
    row: dict[str, Any] = {
        "model": model,
        "rows_a_step": batch,
        "response_tokens_a_step": answered,
        "tokens_a_step": tokens,
        "seconds": medians,
        "ratios": ratios(seconds, RATIOS),
    }
    if not arguments.no_write:
        write_results("step_speed", [row], data=source, rounds=arguments.rounds, clock=arguments.clock)


if __name__ == "__main__":
    main()
