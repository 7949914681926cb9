"""What the recipes share: points of an experiment, systems and seeds, a table beside the paper's figures, and learning
rates that are chosen.

Not a recipe by itself. A point is a run of a config with flags of its own, such as a corpus or a base model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import yaml

from instruct.base.errors import InputError
from instruct.base.files import write_atomically
from instruct.base.machine import check_gpu_is_usable
from instruct.base.output import run_guarded, say
from instruct.command.flags import VERBOSE, add_phase_flags, split_overrides
from instruct.config import ExperimentConfig, load_config, make_config
from instruct.phases.bench import cross_entropy
from instruct.phases.experiment import run_experiment, run_folder
from instruct.run.directory import RunDirectory
from instruct.run.measurements import Metrics, read_metrics

Finished = Mapping[str | None, tuple[ExperimentConfig, Metrics]]

# Of experiments whose learning rates are tuned; energy's weight is tuned, too.
SEEDS = "[1, 2, 3]"
WEIGHTS = [5.0, 20.0]

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


def run_recipe(main: Callable[[], None]) -> None:
    """Run a recipe, which reads its arguments first, as a command, and exit as one: see `run_guarded`."""
    if {"-h", "--help"} & {*sys.argv[1:]}:
        main()
    sys.exit(run_guarded(main, verbose="--verbose" in sys.argv))


class RecipeParser(argparse.ArgumentParser):
    """Reads the arguments of a recipe, which is described by its docstring."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--verbose", action="store_true", help=VERBOSE)

    def error(self, message: str) -> NoReturn:
        """Refuse the call like every other one."""
        raise InputError(f"{message}; see --help")


def recipe_arguments(
    description: str | None, argv: Sequence[str] | None = None, /, **flags: Mapping[str, Any]
) -> tuple[argparse.Namespace, list[str]]:
    """A recipe's arguments (`config`, `dry_run`, `first`, `last`, and its own `flags`: what argparse takes, by name),
    and its overrides of the config, with `--name`."""
    parser = RecipeParser(description)
    parser.add_argument("--config", help="a YAML file, or the name of one in recipes/configs")
    parser.add_argument("--name", help="the run's name: results go to runs/NAME (default: the config's name)")
    add_phase_flags(parser)
    for name, about in flags.items():
        parser.add_argument(f"--{name.replace('_', '-')}", **about)
    rest, overrides = split_overrides(sys.argv[1:] if argv is None else argv, parser._option_string_actions)
    arguments = parser.parse_args(rest)
    return arguments, overrides + (["--name", arguments.name] if arguments.name else [])


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


def measured(config: ExperimentConfig, arguments: argparse.Namespace) -> Metrics:
    """Run the phases of a config that the call names; what was measured so far."""
    run_experiment(config, dry_run=arguments.dry_run, first=arguments.first, last=arguments.last)
    return Metrics() if arguments.dry_run else read_metrics(RunDirectory(run_folder(config.name)))


def run_points(
    name: str,
    points: Mapping[str | None, Sequence[str]],
    arguments: argparse.Namespace,
    table: Callable[[Finished], list[str]],
    measure: Callable[[ExperimentConfig, argparse.Namespace], Metrics] = measured,
) -> None:
    """Run a config once for each point, as runs/NAME_POINT, then print and write their table, runs/NAME.md.

    A point that cannot be run does not keep the others from it.

    Args:
        points: the flags of each point; None: the config by itself, as runs/NAME.
        table: the lines of the points that were run; none: nothing is written.
        measure: runs a point's config; what was measured.

    Raises:
        InputError: a point cannot be run.
    """
    finished: dict[str | None, tuple[ExperimentConfig, Metrics]] = {}
    refused: list[str] = []
    for point, flags in points.items():
        try:
            config = load_config(arguments.config, [*flags, "--name", name if point is None else f"{name}_{point}"])
            finished[point] = config, measure(config, arguments)
        except InputError as error:
            refused.append(f"{point or name}: {error}")
    if not arguments.dry_run and (lines := table(finished)):
        write_table(Path("runs") / f"{name}.md", lines)
    if refused:
        raise InputError("; ".join(refused))


def run_seeds(
    config: ExperimentConfig,
    arguments: argparse.Namespace,
    file: str,
    columns: Sequence[str],
    ending: Sequence[str] = (),
) -> None:
    """Run a config whose systems have seeds; print and write a table of their means, with lines that follow it."""
    table = seeds_table(numbers(measured(config, arguments), columns), columns)
    write_table(run_folder(config.name) / file, [*table, *ending])


def write_table(path: Path, lines: Iterable[str]) -> None:
    """Write a table, and print it with its place."""
    text = "\n".join(lines)
    write_atomically(path, text + "\n")
    say(f"{text}\ntable: {path}")


def mean_and_spread(values: Sequence[float], digits: int = 3) -> str:
    """The mean of some seeds' values, with their standard deviation if there are several; a dash for none."""
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.{digits}f}{spread}" if values else "-"


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
    return {system: {name: metrics.value(system, NUMBERS[name]) for name in columns} for system in metrics.texts}


def seeds_table(systems: Mapping[str, Mapping[str, float | None]], columns: Sequence[str]) -> list[str]:
    """Means over seeds with their standard deviations; a row per system without its seed, controls below theirs."""
    groups = by_system(systems)
    rows = []
    for name in sorted(groups, key=lambda name: (name.removeprefix("mle-matched-"), name.startswith("mle-matched-"))):
        values = ([seed[column] for seed in groups[name] if seed.get(column) is not None] for column in columns)
        rows.append([name, len(groups[name]), *map(mean_and_spread, values)])
    return markdown(["system", "seeds", *columns], rows)


def plain_config(name: str, overrides: Sequence[str], *flags: str, cost: str | None = None) -> ExperimentConfig:
    """A config without seeds; `cost`: the table of its objectives that take costs or embeddings."""
    config = load_config(name, [*overrides, "--seeds", "null", *flags])
    for system in config.systems.values():
        if cost and system.objective in ("emo", "energy"):
            system.transport_cost = cost
    return config


def candidates(config: ExperimentConfig, rates: list[float], weights: list[float]) -> dict[str, dict[str, Any]]:
    """A system for each objective and point of the grid, by name; energy has a point for each pair of values."""
    systems = {}
    for name, system in config.trained.items():
        for rate, weight in itertools.product(rates, weights if system.objective == "energy" else [None]):
            over: dict[str, Any] = {"learning_rate": rate}
            if weight is not None:
                over["objective_args"] = {**(system.objective_args or {}), "weight": weight}
            label = f"{name}-lr{rate:g}" + ("" if weight is None else f"-w{weight:g}")
            systems[label] = {**system.model_dump(mode="json"), "seed": 0, **over, "tunes": name}
    return systems


# The sign by which the lowest value is the best: of cross-entropy, and of the metrics that can decide beside it.
SIGNS = {"ce": 1, "mauve": -1, "jensen_shannon": 1}


def tuned_systems(config: ExperimentConfig, rates: list[float], steps: int, second: str) -> dict[str, dict[str, Any]]:
    """The config's systems with the learning rate, and the weight, whose validation cross-entropy is lowest; where the
    second rule chooses otherwise, that choice follows as NAME_by_SECOND.

    All objectives are tuned on the same grid, MLE as hard as the others. Cross-entropy is MLE's own loss and may favor
    it, so the choice by another stands beside it: the highest MAUVE of what each candidate writes, or, where the truth
    is a model, the lowest Jensen-Shannon divergence from it. Trains each candidate for `steps` steps in
    runs/NAME-tuning, once, and writes what was found to its tuning.json.

    Args:
        config: with data to evaluate on and continuations, and without seeds.
        second: of SIGNS, measured on the validation text.
    """
    systems = candidates(config, rates, WEIGHTS)
    base = {name: system.pop("tunes") for name, system in systems.items()}
    tuning = _tuning_config(config, systems, steps, "mauve" if second == "mauve" else "distances")
    run_experiment(tuning, last="evaluate")
    run = RunDirectory(run_folder(tuning.name))
    metrics = read_metrics(run)
    by_rule: dict[str, dict[str, float | None]] = {
        "ce": {name: cross_entropy(run, name) for name in systems},
        second: {name: metrics.value(name, second) for name in systems},
    }

    def best(name: str, rule: str) -> dict[str, Any]:
        values = {label: SIGNS[rule] * value for label, value in by_rule[rule].items() if value is not None}
        own = [label for label in values if base[label] == name]
        system = systems[min(own, key=values.__getitem__)] if own else config.systems[name].model_dump(mode="json")
        return {**system, "seed": None}

    chosen = {rule: {name: best(name, rule) for name in config.systems} for rule in by_rule}
    record: dict[str, Any] = {"steps": steps}
    for rule, values in by_rule.items():
        record[f"validation_{rule}"] = {name: value and round(value, 4) for name, value in values.items()}
    record["chosen"] = {
        rule: {name: {key: system[key] for key in ("learning_rate", "objective_args")} for name, system in own.items()}
        for rule, own in chosen.items()
    }
    write_atomically(run.folder / "tuning.json", json.dumps(record, indent=1) + "\n")
    say(f"tuned     {run.folder / 'tuning.json'}")
    others = {f"{name}_by_{second}": own for name, own in chosen[second].items() if own != chosen["ce"][name]}
    return chosen["ce"] | others


def _tuning_config(
    config: ExperimentConfig, systems: dict[str, dict[str, Any]], steps: int, metric: str
) -> ExperimentConfig:
    """The run that tunes: each candidate for some steps, then its continuations of the validation text, measured."""
    content = config.model_dump(mode="json")
    texts = content["evaluation"]["texts"] | {"metrics": [metric], "matched_temperature": False}
    content |= {
        "name": f"{config.name}-tuning",
        "systems": systems,
        "train": {**config.train, "max_steps": steps, "eval_steps": steps, "save_steps": steps},
        "answers": None,
        "continuations": content["continuations"] | {"files": config.data.eval_files},
        "evaluation": content["evaluation"] | {"texts": texts},
    }
    return make_config(content, [], "tuning")
