"""Recall and precision of each objective: cross-entropies from a reference model (EMO paper, Figure 2).

    python recipes/precision_recall.py                       # with a GPU: GPT-2, GPT-Neo-1.3B as the reference
    python recipes/precision_recall.py --data.files wiki.train.tokens --data.eval_files wiki.valid.tokens \\
        --evaluation.texts.held_out.files wiki.valid.tokens  # without: SmolLM2, tuned and as it is

Each objective trains the same model on the same texts. On held-out texts, the next-token distributions q of each are
compared with p of the reference, token by token: forward cross-entropy -sum p ln q is high if q misses what p writes
(recall), reverse cross-entropy -sum q ln p if q writes what p does not (precision). The table also has MLE at other
temperatures, and MLE at the temperature that has each system's entropy: what a system gains over that is more than
sharpening.

The paper compares on the validation sets of three data sets, its code on texts that the reference samples. Rerun the
command to resume.
"""

from __future__ import annotations

from collections.abc import Sequence

from study import config_for_machine, markdown, measured, recipe_arguments, run_recipe, write_table

from instruct.config import load_config
from instruct.phases.experiment import run_folder
from instruct.run.measurements import Metrics

METRICS = ("forward_cross_entropy", "reverse_cross_entropy", "jensen_shannon", "total_variation")
HEADER = ("system", "temperature", "forward CE (recall)", "reverse CE (precision)", "Jensen-Shannon", "total variation")
PAPER = (
    "The paper's claim (Figure 2, a plot without numbers, GPT-2 against GPT-Neo-1.3B): TaiLr and MixCE balance both "
    "better than MLE, and EMO better than these. It has no control at matched entropy."
)


def main(argv: Sequence[str] | None = None) -> None:
    """Train, measure, and write runs/NAME/precision_recall.md."""
    arguments, overrides = recipe_arguments(__doc__, argv)
    config = load_config(config_for_machine(arguments, "precision_recall", "precision_recall_smollm2"), overrides)
    metrics = measured(config, arguments)
    if metrics.measurements:
        write_table(run_folder(config.name) / "precision_recall.md", table(config.name, metrics))


def table(name: str, metrics: Metrics) -> list[str]:
    """Our figures as lines of Markdown, the paper's claim below them."""
    rows = []
    for system, texts in metrics.texts.items():
        if all(metric in texts for metric in METRICS):
            figures = [texts[metric] for metric in METRICS]
            own = [row.value or 0.0 for row in figures]
            curves = zip(*(row.details.curve for row in figures), strict=True)
            others = [(f"{system}, other temperature", at[0][0], [value for _, value in at]) for at in curves]
            for label, temperature, values in [(system, figures[0].details.temperature, own), *others]:
                rows.append([label, f"{temperature:.3f}", *(f"{value:.4f}" for value in values)])
    missing = [f"{row.system}: {row.details.reason}" for row in metrics.measurements if row.details.reason]
    return [
        f"# Precision and recall: {name}",
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
