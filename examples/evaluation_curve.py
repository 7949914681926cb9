"""Perplexity over the steps of one run or several: a table and a figure from the evaluations while training.

python examples/evaluation_curve.py OUTPUT runs/ONE runs/TWO
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

COLUMNS = {
    "step": "step",
    "eval_ce": "cross_entropy",
    "eval_perplexity": "perplexity",
    "eval_mean_token_accuracy": "token_accuracy",
}


def evaluations(runs: list[Path]) -> list[dict[str, str | float]]:
    """A row per system and evaluation, in the order of their steps."""
    rows: list[dict[str, str | float]] = []
    for run in runs:
        for log in sorted(run.glob("adapters/*/training_log.json")):
            for entry in json.loads(log.read_text()):
                if "eval_ce" in entry:
                    rows.append({"system": log.parent.name, **{name: entry[key] for key, name in COLUMNS.items()}})
    return rows


def figure(rows: list[dict[str, str | float]]) -> Figure:
    """Perplexity by step, a line per system."""
    picture = Figure(figsize=(6, 3.6), layout="constrained")
    axes = picture.add_subplot()
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        axes.plot([row["step"] for row in own], [row["perplexity"] for row in own], marker="o", label=system)
    axes.set(xlabel="training step", ylabel="perplexity on the evaluation texts")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return picture


def main(output: Path, *runs: Path) -> None:
    rows = evaluations(list(runs))
    if not rows:
        sys.exit("no evaluations in these runs; train with --data.eval_fraction or --data.eval_files")
    (output / "figures").mkdir(parents=True, exist_ok=True)
    with (output / "evaluations.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["system", *COLUMNS.values()], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with matplotlib.rc_context({"svg.hashsalt": "perplexity"}):
        picture = figure(rows)
        picture.savefig(output / "figures" / "perplexity.svg", metadata={"Date": None})
        picture.savefig(output / "figures" / "perplexity.png", dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
