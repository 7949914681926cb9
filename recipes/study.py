"""What the recipes share: points of an experiment, systems and seeds, and a table beside the paper's figures.

Not a recipe by itself. A point is a run of a config with flags of its own, such as a corpus or a base model.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from instruct.base.errors import InputError
from instruct.base.machine import check_gpu_is_usable
from instruct.base.output import say
from instruct.command.arguments import recipe_arguments

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.run.measurements import Metrics

Finished = Mapping[str | None, tuple["ExperimentConfig", "Metrics"]]

# A metric of a system's texts, by the heading of a table's column.
NUMBERS = {
    "perplexity": "perplexity",
    "PPL_test": "perplexity",
    "PPL_oracle": "oracle_perplexity",
    "MAUVE": "mauve",
    "ROUGE-1": "rouge1",
    "ROUGE-L": "rougeL",
    "forward CE": "forward_cross_entropy",
    "reverse CE": "reverse_cross_entropy",
    "entropy": "entropy",
    "distinct-2": "distinct_2",
}


def paper(table: str) -> dict[str, dict[str, dict[str, float]]]:
    """The paper's figures in a table (paper.yaml): by base model, system and column."""
    content = yaml.safe_load(Path(__file__).with_name("paper.yaml").read_text(encoding="utf-8"))[table]
    columns = content.pop("columns")
    return {
        base: {system: dict(zip(columns, row, strict=True)) for system, row in systems.items()}
        for base, systems in content.items()
    }


def arguments_of(description: str | None, **flags: Mapping[str, Any]) -> tuple[argparse.Namespace, list[str]]:
    """A recipe's arguments, its own `flags` (what argparse takes, by name) among them, and overrides of its config."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for name, about in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **about)
    own, rest = parser.parse_known_args(sys.argv[1:])
    arguments, overrides = recipe_arguments(rest, description)
    return argparse.Namespace(**vars(arguments), **vars(own)), overrides


def config_for_machine(arguments: argparse.Namespace, gpu: str, cpu: str) -> str:
    """The config that the call names, else the one for this machine; says so if that is not the recipe's own.

    Raises:
        InputError: the machine has a GPU that PyTorch cannot use.
    """
    import torch

    if arguments.config or torch.cuda.is_available():
        return arguments.config or gpu
    check_gpu_is_usable()
    say(f"note: this machine has no GPU, so {cpu} runs in place of {gpu}; its results say nothing about {gpu}")
    return cpu


def run_points(
    name: str,
    points: Mapping[str | None, Sequence[str]],
    arguments: argparse.Namespace,
    table: Callable[[Finished], list[str]],
) -> None:
    """Run a config once for each point, as runs/NAME_POINT, then print and write their table, runs/NAME.md.

    A point that cannot be run does not keep the others from it.

    Args:
        points: the flags of each point; None: the config by itself, as runs/NAME.
        table: the lines of the points that were run; none: nothing is written.

    Raises:
        InputError: a point cannot be run.
    """
    from instruct.config import load_config
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory
    from instruct.run.measurements import read_metrics

    finished: dict[str | None, tuple[ExperimentConfig, Metrics]] = {}
    refused: list[str] = []
    for point, flags in points.items():
        try:
            config = load_config(arguments.config, [*flags, "--name", name if point is None else f"{name}_{point}"])
            run_experiment(config, dry_run=arguments.dry_run, first=arguments.first, last=arguments.last)
        except InputError as error:
            refused.append(f"{point or name}: {error}")
            continue
        if not arguments.dry_run:
            finished[point] = config, read_metrics(RunDirectory(run_folder(config)))
    if lines := table(finished):
        write_table(Path("runs") / f"{name}.md", lines)
    if refused:
        raise InputError("; ".join(refused))


def write_table(path: Path, lines: Iterable[str]) -> None:
    """Write a table, and print it with its place."""
    from instruct.base.files import write_atomically

    text = "\n".join(lines)
    write_atomically(path, text + "\n")
    print(f"{text}\ntable: {path}")


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> list[str]:
    """A Markdown table, its first `left` columns aligned left."""
    rules = ["---"] * left + ["--:"] * (len(header) - left)
    return [f"| {' | '.join(map(str, row))} |" for row in (header, rules, *rows)]


def by_system(values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Values of systems by their names without seeds: `mle-matched-emo-seed1` is one of `mle-matched-emo`."""
    groups: dict[str, list[Any]] = {}
    for name, value in values.items():
        groups.setdefault(re.sub(r"-seed\d+$", "", name), []).append(value)
    return groups


def numbers(metrics: Metrics, columns: Sequence[str]) -> dict[str, dict[str, float | None]]:
    """What is compared of each system's texts, by column."""
    return {
        system: {name: row.value if (row := rows.get(NUMBERS[name])) else None for name in columns}
        for system, rows in metrics.texts.items()
    }


def seeds_table(systems: Mapping[str, Mapping[str, float | None]], columns: Sequence[str]) -> list[str]:
    """Means over seeds with their standard deviations; a row per system without its seed, controls below theirs."""
    groups = by_system(systems)
    rows = []
    for name in sorted(groups, key=lambda name: (name.removeprefix("mle-matched-"), name.startswith("mle-matched-"))):
        cells = []
        for column in columns:
            values = [value for seed in groups[name] if (value := seed.get(column)) is not None]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            cells.append(f"{statistics.fmean(values):.3f}{spread}" if values else "-")
        rows.append([name, len(groups[name]), *cells])
    return markdown(["system", "seeds", *columns], rows)


def run_seeds(
    config: ExperimentConfig,
    arguments: argparse.Namespace,
    file: str,
    columns: Sequence[str],
    ending: Sequence[str] = (),
) -> None:
    """Run a config whose systems have seeds; print and write a table of their means, with lines that follow it."""
    from instruct.phases.experiment import run_experiment, run_folder
    from instruct.run.directory import RunDirectory
    from instruct.run.measurements import read_metrics

    run_experiment(config, first=arguments.first, last=arguments.last)
    run = RunDirectory(run_folder(config))
    write_table(run.folder / file, [*seeds_table(numbers(read_metrics(run), columns), columns), *ending])
