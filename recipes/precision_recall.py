"""Recall and precision of each objective: cross-entropies from a reference model (EMO paper, Figure 2).

    python recipes/precision_recall.py                       # with a GPU: GPT-2, GPT-Neo-1.3B as the reference
    python recipes/precision_recall.py --data.files wiki.train.tokens --data.eval_files wiki.valid.tokens \\
        --evaluation.texts.held_out.files wiki.valid.tokens  # without: SmolLM2, tuned and as it is
    python recipes/precision_recall.py --evaluation.texts.held_out null    # on texts that the reference writes

Each objective trains the same model on the same texts. On held-out texts, the next-token distributions q of each are
compared with p of the reference, token by token: forward cross-entropy -sum p ln q is high if q misses what p writes
(recall), reverse cross-entropy -sum q ln p if q writes what p does not (precision). The table also has MLE at other
temperatures, and MLE at the temperature that has each system's entropy: what a system gains over that is more than
sharpening.

The paper compares on the validation sets of three data sets, its code on texts that the reference samples; the latter
is what `held_out null` does, with 5 words of the training texts as prefixes. Rerun the command to resume.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import study
from study import config_for_machine, markdown, measured, recipe_arguments, run_recipe

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.base.output import say
from instruct.config import ExperimentConfig, load_config
from instruct.phases.experiment import run_folder
from instruct.run.measurements import Metrics

# Of the texts that the reference writes, as in the paper's code.
TEXTS, LEAST_WORDS, MOST_TOKENS = 1000, 20, 500
METRICS = ("forward_cross_entropy", "reverse_cross_entropy", "jensen_shannon", "total_variation")
HEADER = ("system", "temperature", "forward CE (recall)", "reverse CE (precision)", "Jensen-Shannon", "total variation")
PAPER = (
    "The paper's claim (Figure 2, a plot without numbers, GPT-2 against GPT-Neo-1.3B): TaiLr and MixCE balance both "
    "better than MLE, and EMO better than these. It has no control at matched entropy."
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train, measure, and write runs/NAME/precision_recall.md."""
    options, overrides = recipe_arguments(__doc__, arguments)
    options.config = config_for_machine(options, "precision_recall", "precision_recall_smollm2")
    config = load_config(options.config, overrides)
    reference, held_out = config.text_metrics.reference_model, config.text_metrics.held_out
    if reference is None:
        raise InputError(f"{config.name}: has no reference; set evaluation.texts.reference_model")
    texts = f"{TEXTS:,} texts that it writes" if held_out is None else held_out.card or ", ".join(held_out.files or [])
    say(f"compare   {', '.join(config.trained)} with {reference.name} on {texts}")
    if held_out is None and not options.dry_run:
        files = json.dumps([str(sampled_texts(config, reference))])
        config = load_config(options.config, [*overrides, "--evaluation.texts.held_out", f"{{files: {files}}}"])
    metrics = measured(config, options)
    if metrics.measurements:
        study.write_table(run_folder(config.name) / "precision_recall.md", table(config, metrics))


def sampled_texts(config: ExperimentConfig, reference: ModelOptions) -> Path:
    """A file of texts that the reference wrote: runs/NAME-reference/texts.jsonl."""
    import torch

    source = config.data.eval_files or config.data.files
    if not source:
        raise InputError(f"{config.name}: no texts for the reference's prefixes; set data.eval_files or data.files")
    continuations = {
        "files": source,
        "prefix": "5 words",
        "limit": TEXTS,
        "generation": {
            "max_new_tokens": min(MOST_TOKENS, config.text_metrics.max_length // 2),
            "min_new_tokens": 0,
            "engine": "auto" if torch.cuda.is_available() else "transformers",
        },
    }
    model = reference.model_dump(mode="json")
    _, rows = study.sampled(f"{config.name}-reference", model=model, continuations=continuations)
    texts = [row.prefix + row.continuation for row in rows]
    kept = [text for text in texts if len(text.split()) >= LEAST_WORDS]
    file = Path("runs") / f"{config.name}-reference" / "texts.jsonl"
    if not kept:
        raise InputError(f"{file.parent}: no text has {LEAST_WORDS} words; raise evaluation.texts.max_length")
    study.write_texts(file, kept)
    say(f"texts     {file}: {len(kept):,} of {len(texts):,} with {LEAST_WORDS} words or more")
    return file


def table(config: ExperimentConfig, metrics: Metrics) -> list[str]:
    """Our figures as lines of Markdown, the paper's claim below them."""
    rows = []
    for name, texts in metrics.texts.items():
        if all(metric in texts for metric in METRICS):
            figures = [texts[metric] for metric in METRICS]
            own = [row.value or 0.0 for row in figures]
            curves = zip(*(row.details.curve for row in figures), strict=True)
            others = [(f"{name}, other temperature", at[0][0], [value for _, value in at]) for at in curves]
            for label, temperature, values in [(name, figures[0].details.temperature, own), *others]:
                rows.append([label, f"{temperature:.3f}", *(f"{value:.4f}" for value in values)])
    missing = [f"{row.system}: {row.details.reason}" for row in metrics.measurements if row.details.reason]
    return [
        f"# Precision and recall: {config.name}",
        "",
        "Means over tokens, then over texts, in nats; lower is better. The paper asks an objective for both.",
        "",
        *markdown(HEADER, rows),
        "",
        *(f"**No matched-temperature control** for {reason}." for reason in missing),
        "",
        PAPER,
    ]


if __name__ == "__main__":
    run_recipe(main)
