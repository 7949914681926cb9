"""An experiment from its configuration to its report: the phases in order. What is done is not done again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.phases import PHASES
from instruct.phases.changes import start_or_continue
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process

if TYPE_CHECKING:
    from instruct.reporting.report import Report


def run_experiment(
    config: ExperimentConfig, dry_run: bool = False, first: str = PHASES[0], last: str = PHASES[-1]
) -> Report | None:
    """Train every system except the base, let each answer the prompts, evaluate, let the judges compare, report.

    A phase whose result exists is skipped, and an interrupted one resumes. Under `accelerate launch` it ends after
    training.

    Args:
        dry_run: check access, memory and disk, print the plan and stop.
        first, last: the phases to run, of PHASES; earlier ones must be done.

    Returns:
        The report, if it was written.

    Raises:
        InputError: the experiment cannot be run as configured; nothing has been written.
        StoppedError: a budget or too many failures stopped a judge.
    """
    from accelerate import PartialState

    from instruct.judging.judge import judge_answers
    from instruct.phases.answer import generate
    from instruct.phases.preflight import check_experiment
    from instruct.phases.report import print_report
    from instruct.phases.train import train_systems
    from instruct.phases.upload import upload

    phases = PHASES[PHASES.index(first) : PHASES.index(last) + 1]
    if not phases:
        raise InputError(f"--from {first} comes after --until {last}; the phases are {', '.join(PHASES)}")
    if first in ("evaluate", "judge", "report") and not (run_folder(config) / "manifest.json").is_file():
        raise InputError(f"{run_folder(config)}: no such run; drop --from to run the earlier phases")
    data, judges = check_experiment(config, run_folder(config), phases)
    if dry_run:
        return None
    run = open_run(config)
    if data:
        train_systems(config, run, data)
    if "train" in phases:
        upload(config, run)
    if PartialState().num_processes > 1:
        say(f"trained   continue without `accelerate launch`: python {' '.join(sys.argv)}")
        return None
    if "answer" in phases:
        generate(config, run)
    if "evaluate" in phases and config.evaluation:
        from instruct.phases.evaluate import evaluate_run, metrics_text

        say(metrics_text(evaluate_run(config, run), run))
    if "judge" in phases and judges:
        with only_process(run, VERDICTS):
            for judge in judges:
                judge_answers(run, judge, judge.options.comparisons or config.comparisons)
    elif "judge" in phases and config.answers is None:
        if config.continuations:
            say(f"continued {run.continuations}")
        if not config.evaluation:
            return None
    elif "judge" in phases:
        say(f"answered  judge the answers with `instruct judge {run.folder} --judge NAME`")
        if not config.evaluation:
            return None
    if "report" not in phases:
        return None
    report = print_report(run.folder)
    upload(config, run)  # the cards, now with the evaluation
    return report


def run_folder(config: ExperimentConfig) -> Path:
    """The directory of an experiment's run."""
    return Path("runs") / config.name


def open_run(config: ExperimentConfig) -> RunDirectory:
    """`runs/NAME/`, created or continued.

    Raises:
        InputError: the directory holds a run with a different config, or is not shared by all nodes of a training.
    """
    from instruct.phases.upload import configured_repositories, create_repositories
    from instruct.training.processes import from_main

    run = RunDirectory(run_folder(config))

    def start() -> str:
        # A token without write access is found out before training.
        create_repositories(configured_repositories(config).values(), config.train.get("hub_private_repo"))
        start_or_continue(run, config)
        return str(run.manifest()["created"])

    run.join(from_main(start))
    return run
