"""How accuracy in few-shot tasks changes with the size of the model and the amount of text it is fine-tuned on.

    python recipes/scaling.py                   # with a GPU: four models, then LLaMA-13B on 4 to 100 million tokens
    python recipes/scaling.py --sweep data --dry-run

Figure 1 of the EMO paper. Each point is a run of recipes/continual.py's experiment, runs/NAME_POINT; rerun the command
to resume. Without a GPU, SmolLM2-135M is fine-tuned on three amounts of text. At the end runs/NAME.md has the mean
accuracy of each system with its 95 % interval, next to the paper's mean where its tables give one, and runs/NAME.png
the curves.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from continual import BASES
from few_shot import FLAGS, measured_tasks
from matplotlib.figure import Figure
from pandas import DataFrame
from study import Finished, config_for_machine, markdown, paper, recipe_arguments, run_points, run_recipe

from instruct.base.output import say
from instruct.config import load_config
from instruct.run.measurements import Measurement

# Parameters in billions, and the paper's models.
MODELS = {"opt-1.3b": 1.3, "opt-2.7b": 2.7, "llama-7b": 7.0, "llama-13b": 13.0}
MILLIONS = (4, 10, 25, 50, 100)
SMALL_TOKENS = (25_600, 51_200, 76_800)
_Z = 1.96


def mean_accuracy(rows: Sequence[Measurement]) -> tuple[float, float]:
    """The mean over tasks in percent, and half its 95 % interval over test rows: other trainings are not covered."""
    shares = [(row.value or 0.0, row.n or 0) for row in rows]
    variance = sum(share * (1 - share) / n for share, n in shares) / len(shares) ** 2
    return 100 * sum(share for share, _ in shares) / len(shares), 100 * _Z * math.sqrt(variance)


def table(found: Mapping[str, Mapping[str, tuple[float, float]]]) -> list[str]:
    """A row for each point and system: our mean, and the paper's over its eight tasks."""
    rows = []
    for point, systems in found.items():
        for system, (mean, half) in systems.items():
            theirs = paper("table_3").get(point, {}).get(system)
            figure = "-" if theirs is None else f"{statistics.fmean(theirs.values()):.1f}"
            rows.append([point, system, f"{mean:.1f} ± {half:.1f}", figure])
    return markdown(("point", "system", "mean accuracy, ours", "mean accuracy, the paper's"), rows, left=2)


def draw(found: Mapping[str, Mapping[str, tuple[float, float]]], sizes: Mapping[str, float], path: Path) -> None:
    """A curve for each system over the points' sizes, with error bars."""
    label = "parameters (billions)" if set(found) <= set(MODELS) else "training tokens"
    rows = [(sizes[point], system, *mean) for point, systems in found.items() for system, mean in systems.items()]
    frame = DataFrame(rows, columns=[label, "system", "mean", "half"]).pivot(index=label, columns="system")
    style = {"marker": "o", "capsize": 3, "logx": True, "ylabel": "mean accuracy over tasks, %"}
    axes = frame["mean"].plot(yerr=frame["half"], ax=Figure(figsize=(6, 4)).subplots(), **style)
    axes.figure.savefig(path, dpi=150, bbox_inches="tight")
    say(f"figure: {path}")


def run(sweep: str, small: bool, arguments: argparse.Namespace, overrides: list[str]) -> None:
    """Run every point of a sweep, then print and write its table, and draw its figure.

    Raises:
        InputError: a point could not be run.
    """
    start = load_config(arguments.config, overrides)
    name, train = f"{start.name}_scaling_{sweep}", start.train
    per_step = int(train["per_device_train_batch_size"]) * int(train.get("gradient_accumulation_steps", 1))
    per_step *= int(train["max_length"])
    sizes: Mapping[str, float] = MODELS
    flags = {point: ["--model.name", model] for point, model in (BASES | {"opt-1.3b": "facebook/opt-1.3b"}).items()}
    if sweep == "data":
        model = [] if small else flags["llama-13b"]
        tokens = SMALL_TOKENS if small else [1_000_000 * count for count in MILLIONS]
        sizes = {f"{count // 1000}k": count for count in tokens}
        steps = (str(max(1, count // per_step)) for count in tokens)
        flags = {point: [*model, "--train.max_steps", step] for point, step in zip(sizes, steps, strict=True)}

    def table_and_figure(finished: Finished) -> list[str]:
        accuracies = {
            point: {system: mean_accuracy(list(rows.values())) for system, rows in metrics.tasks.items()}
            for point, (_, metrics) in finished.items()
            if point
        }
        if not any(accuracies.values()):
            return []
        draw(accuracies, sizes, Path("runs") / f"{name}.png")
        return table(accuracies)

    run_points(
        name, {point: [*overrides, *flags[point]] for point in sizes}, arguments, table_and_figure, measured_tasks
    )


def main() -> None:
    sweeps = {"action": "append", "choices": ("model", "data")}
    arguments, overrides = recipe_arguments(__doc__, sweep=sweeps, **FLAGS)
    arguments.config = config_for_machine(arguments, "continual", "continual_smollm2")
    small = arguments.config == "continual_smollm2"
    for sweep in arguments.sweep or (["data"] if small else ["model", "data"]):
        run(sweep, small, arguments, overrides)


if __name__ == "__main__":
    run_recipe(main)
