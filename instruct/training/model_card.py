"""The model card of a trained system."""

from __future__ import annotations

from pathlib import Path

from instruct.training.options import TrainingOptions


def model_card(config: TrainingOptions, name: str, counts: dict[str, int]) -> str:
    """README.md of a trained system: its base model, objective, data and hyperparameters.

    Args:
        name: the system in the experiment.
        counts: the number of rows by status, see `EncodedRows`.
    """
    from instruct.training.emo_config import COSTS

    system = config.systems[name]
    cost = system.transport_cost if system.transport_cost in COSTS else Path(system.transport_cost).name
    choice = {
        "emo": f" (variant {system.variant}, emphasis {system.emphasis}, transport cost {cost})",
        "mixce": f" (gamma {system.gamma})",
        "tailr": f" (gamma {system.gamma}, variant {system.tailr_variant})",
        "ent": f" (threshold {system.ent_threshold})",
        "goldfish": f" (one token in {system.goldfish_k} left out, context {system.goldfish_context})",
    }.get(system.objective, "")
    library = "peft" if config.lora else "transformers"
    data = config.data.card or ", ".join(Path(file).name for file in config.data.files or [])
    hyperparameters = "\n".join(f"- {key}: {value}" for key, value in config.train.items()) or "- defaults"
    return f"""---
base_model: {config.model.name}
library_name: {library}
tags: [instruct, sft, {system.objective}{", lora" if config.lora else ""}]
---

# {config.name}/{name}

{config.model.name} instruction-tuned with the objective **{system.objective}**{choice} on the response tokens of
`{data}`: {counts["kept"]} complete rows and {counts["truncated"]} truncated ones. Left out: {counts["empty"]} with an
empty response and {counts["fully_masked"]} without a response token within the maximum length.

## Training

{hyperparameters}

Made with emo-instruct. EMO: Earth Mover Distance Optimization for Auto-regressive Language Modeling, Ren et al., ICLR
2024, arXiv 2310.04691. Not evaluated for safety; its answers may be wrong.
"""
