"""The verbs that make an experiment: run, config, preview, train, generate, evaluate."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import InputError
from instruct.base.output import Result, warn
from instruct.base.parsing import parse_json
from instruct.command import call, flags
from instruct.command.flags import OVERRIDES
from instruct.training.objective_names import OBJECTIVES

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.run.directory import RunDirectory


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    for function, about in [
        (run, "the whole experiment of a config: train, answer, evaluate, judge, report; rerun it to resume"),
        (config, "print every key of a config with its default, or a config with its flags resolved"),
        (preview, "show what training would see: rows, loss mask, lengths, one step"),
        (train, "train every system of a config (or a single one, with flags alone)"),
    ]:
        sub = verb(function, about, OVERRIDES)
        _config_arguments(sub)
        text = f"train with this objective only: {', '.join(OBJECTIVES)}, or FILE.py:NAME of your own"
        sub.add_argument("--objective", help=text)
        sub.add_argument("--name", help="the run's name: results go to runs/NAME")
        if function in (run, train):
            text = "make this step and those that depend on it again, such as train/emo, answers, judge; repeatable"
            sub.add_argument("--redo", action="append", default=[], metavar="STEP", help=text)
        if function is run:
            flags.add_phase_flags(sub)
            flags.add_retry_flag(sub)
            flags.add_cluster_flag(sub)
        if function is config:
            sub.add_argument("--schema", action="store_true", help="print the path of the JSON Schema for editors")
        if function is preview:
            sub.add_argument("--rows", type=int, default=3, metavar="N", help="number of rows to show (default: 3)")
    _add_bench_and_check(verb)
    sub = verb(generate, "answer prompts or continue prefixes with every system of a run", OVERRIDES)
    _run_or_file(sub)
    text = "replace answers that verdicts were made on"
    sub.add_argument("--redo", action="append", default=[], choices=["answers"], help=text)
    flags.add_retry_flag(sub)
    flags.add_cluster_flag(sub)
    _add_evaluate(verb)


def _add_bench_and_check(verb: flags.AddVerb) -> None:
    sub = verb(
        bench, "compare objectives: choose learning rates, train with several seeds, measure, one table", OVERRIDES
    )
    _config_arguments(sub)
    sub.add_argument("--name", help="the run's name: results go to runs/NAME (default: bench)")
    flags.add_option_flags(sub, "BenchOptions")
    text = (
        "an adapter or a whole model trained elsewhere, beside the objectives: a folder, or a hub id (ID@REVISION); "
        "repeatable; several of one name are its seeds (a key of a file: systems.NAME.adapter)"
    )
    sub.add_argument("--arm", action="append", default=[], metavar="NAME=ADAPTER", help=text)
    sub.add_argument("--dry-run", action="store_true", help="check access and memory, print the plan and stop")

    sub = verb(check, "test an objective on a known distribution, in a minute on a CPU")
    sub.add_argument("objective", help=f"{', '.join(OBJECTIVES)}, or FILE.py:NAME of your own")
    text = "its arguments: '{\"gamma\": 0.8}'"
    sub.add_argument("--args", metavar="JSON", help=text)


def _add_evaluate(verb: flags.AddVerb) -> None:
    text = "measure without a judge: perplexity, MAUVE and other text metrics, tasks"
    sub = verb(evaluate, text, f"Held-out text: --evaluation.texts.held_out.files FILE. {OVERRIDES}")
    _run_or_file(sub)
    text = "tasks, separated by commas: those of `instruct list tasks`, lm-eval's, or their YAML files"
    sub.add_argument("--tasks", metavar="NAMES", help=text)
    text = "ask tasks in the model's chat template"
    sub.add_argument("--chat", action=argparse.BooleanOptionalAction, help=text)
    sub.add_argument("--limit", metavar="N", help="answer only the first rows of each task")
    text = "let the YAML file of a task run the Python functions that it names"
    sub.add_argument("--trust-task-code", action="store_true", default=None, help=text)


def _config_arguments(sub: argparse.ArgumentParser) -> None:
    text = "a YAML file, or the name of a packaged config"
    sub.add_argument("config", nargs="?", metavar="CONFIG", help=text)
    sub.add_argument("--model", metavar="M", help="the base model: a hub id or a local folder")
    sub.add_argument("--data", metavar="FILE", help="the training rows: a file (--data.files), or a data card's name")


def _run_or_file(sub: argparse.ArgumentParser) -> None:
    flags.run_argument(sub, "trained systems", ", or a YAML file whose only system is the base")
    sub.add_argument("--name", help="with a YAML file: the run's name")


def run(arguments: argparse.Namespace) -> Result:
    from instruct.phases.experiment import run_folder, run_phases

    config = _config(arguments, arguments.overrides + call.cluster_override(arguments))
    first, last, mode = arguments.first, arguments.last, call.named_mode(arguments)
    report, failure = run_phases(config, arguments.dry_run, first, last, mode, arguments.redo)
    folder = str(run_folder(config.name))
    line = "\n".join(call.short(report)) if report else folder
    return Result({"run": folder, "report": report}, line, failure=failure)


def config(arguments: argparse.Namespace) -> Result:
    from instruct.command.reference import SCHEMA_PATH, config_keys, render_text

    if arguments.schema:
        return call.shown({"schema": str(SCHEMA_PATH)}, str(SCHEMA_PATH))
    if any(
        (arguments.config, arguments.model, arguments.data, arguments.objective, arguments.name, arguments.overrides)
    ):
        import yaml

        content = _config(arguments, arguments.overrides).model_dump(mode="json")
        return call.shown(content, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return call.shown([key._asdict() for key in config_keys()], render_text())


def preview(arguments: argparse.Namespace) -> Result:
    from instruct.training.preview import print_preview

    printed = print_preview(_config(arguments, arguments.overrides), shown=arguments.rows)
    return Result(printed, printed.step.words())


def bench(arguments: argparse.Namespace) -> Result:
    from instruct.base.cards import validated
    from instruct.phases.bench import BenchOptions
    from instruct.phases.bench import bench as bench_objectives
    from instruct.phases.experiment import run_folder

    options = validated(BenchOptions, flags.options_given(arguments, "BenchOptions"), "command line")
    config = bench_config(arguments, options.objectives)
    result = bench_objectives(config, options, arguments.dry_run)
    if result is None:
        return Result(None, str(run_folder(config.name)))
    return call.reported(result)


def bench_config(arguments: argparse.Namespace, objectives: list[str]) -> ExperimentConfig:
    """The config of a call of `bench`, whose `objectives` are its systems."""
    from instruct.config import ExperimentConfig, load_config
    from instruct.phases.bench import arms_as_systems, objectives_as_systems

    arguments.objective = None
    arguments.name = arguments.name or (None if arguments.config else "bench")
    overrides, arms = list(arguments.overrides), arms_as_systems(arguments.arm)
    if objectives or arms:
        config = load_config(arguments.config) if arguments.config else ExperimentConfig(name="train")
        systems = config.model_dump(mode="json")["systems"]
        elsewhere = {name: system for name, system in systems.items() if system["adapter"]}
        if objectives:
            systems = objectives_as_systems(objectives, systems if arguments.config else {}) | elsewhere
        if twice := [name for name in arms if name in systems]:
            raise InputError(f"--arm {twice[0]}: is another system's name; choose one that no objective has")
        # A flag may change one of them.
        overrides = ["--systems", json.dumps(systems | arms), *overrides]
    return _config(arguments, overrides)


def check(arguments: argparse.Namespace) -> Result:
    from dataclasses import asdict

    from instruct.objectives.check import check as check_objective
    from instruct.training.emo_config import objective_of

    try:
        options = parse_json(arguments.args or "{}")
    except ValueError:
        options = None
    if not isinstance(options, dict):
        raise InputError(f"--args: {arguments.args!r} is not a JSON object; write it as '{{\"gamma\": 0.8}}'")
    objective = objective_of(arguments.objective, options)
    plain = type(objective).__repr__ is object.__repr__  # which names an address in memory
    title = f"{arguments.objective}: {type(objective).__name__ if plain else objective}"
    found = check_objective(objective)
    return call.shown(asdict(found), "\n".join([title, *found.words()]))


def train(arguments: argparse.Namespace) -> Result:
    from instruct.phases.experiment import run_folder, run_phases

    config = _config(arguments, arguments.overrides)
    config.first_trained()  # refuses a config that trains nothing
    run_phases(config, False, "train", "train", redo=arguments.redo)
    return _files({name: run_folder(config.name) / "adapters" / name for name in config.trained})


def generate(arguments: argparse.Namespace) -> Result:
    from instruct.judging.work import JudgingMode
    from instruct.phases.answer import Answering
    from instruct.phases.steps import make_again

    overrides = arguments.overrides + call.cluster_override(arguments)
    config, run = _run_of_systems(arguments, overrides)
    make_again(run, arguments.redo)
    return _files(Answering(config, JudgingMode(retry_failed=arguments.retry_failed)).generate(run))


def evaluate(arguments: argparse.Namespace) -> Result:
    from instruct.phases.evaluate import evaluate_run, metrics_text

    overrides: list[str] = []
    if arguments.tasks:
        overrides += ["--evaluation.tasks.names", json.dumps(arguments.tasks.split(","))]
    for key in ("chat", "limit", "trust_task_code"):
        if (value := getattr(arguments, key)) is not None:
            overrides += [f"--evaluation.tasks.{key}", value if isinstance(value, str) else str(value).lower()]
    config, run = _run_of_systems(arguments, overrides + arguments.overrides)
    metrics = evaluate_run(config, run)
    return call.shown(metrics, metrics_text(metrics, run))


def _files(files: dict[str, Path]) -> Result:
    """The result of a verb that makes something for each system."""
    return call.shown(files, "\n".join(f"{name}: {path}" for name, path in files.items()))


def _run_of_systems(arguments: argparse.Namespace, overrides: list[str]) -> tuple[ExperimentConfig, RunDirectory]:
    """A run whose systems can be asked, and its config; a YAML file that trains nothing starts one."""
    named = arguments.run
    if named and Path(named).suffix in (".yaml", ".yml"):
        from instruct.config import load_config
        from instruct.phases.experiment import open_run, settle_dtype

        config = load_config(named, overrides + (["--name", arguments.name] if arguments.name else []))
        if config.trained:
            raise InputError(
                f"{named}: {', '.join(config.trained)} must be trained first: run instruct train {named}, then "
                f"instruct generate runs/{config.name}"
            )
        config = settle_dtype(config)
        return config, open_run(config)
    if arguments.name:
        raise InputError("--name: is for the run that a YAML file starts; drop it, or name that file instead of a run")
    run = call.named_run(named, "config.yaml" if named else "adapters/*/*.safetensors")
    return call.run_config(run, overrides, ("model", "data", "answers", "continuations", "evaluation", "cluster")), run


def _config(arguments: argparse.Namespace, overrides: list[str]) -> ExperimentConfig:
    """The config file, if one was given, with the flags on top."""
    from instruct.config import load_config, make_config

    overrides = list(overrides)
    if arguments.model:
        overrides += ["--model.name", arguments.model]
    if arguments.data:
        overrides = ["--data", arguments.data, *overrides]
    if arguments.name:
        overrides += ["--name", arguments.name]
    if arguments.objective:
        name = arguments.objective.rpartition(":")[2]
        if arguments.config:
            overrides += _comparisons_left(load_config(arguments.config, overrides).comparisons, name)
        overrides += ["--systems", json.dumps({name: {"objective": arguments.objective}})]
    if arguments.config:
        return load_config(arguments.config, overrides)
    return make_config({"name": "train"}, overrides, "command line")


def _comparisons_left(comparisons: list[tuple[str, str]], objective: str) -> list[str]:
    """The override of `comparisons` if the only system is `objective`; says what it leaves out."""
    left = [pair for pair in comparisons if {*pair} <= {objective, "baseline"}]
    if len(left) == len(comparisons):
        return []
    dropped = ", ".join(" against ".join(pair) for pair in comparisons if pair not in left)
    warn(f"note: comparisons left out, because {objective} is the only system: {dropped}")
    return ["--comparisons", json.dumps(left)]
