"""An experiment from its configuration to its report: the phases in order. What is done is not done again."""

from __future__ import annotations

import sys
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import InputError, InstructError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.phases import PHASES
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from instruct.judging.work import JudgingMode
    from instruct.reporting.report import Report


def run_experiment(
    config: ExperimentConfig,
    dry_run: bool = False,
    first: str = PHASES[0],
    last: str = PHASES[-1],
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
        StoppedError: a budget or too many failures stopped a judge; the others were asked, and the report is partial.
    """
    report, failure = run_phases(config, dry_run, first, last)
    if failure:
        raise failure
    return report


def run_phases(
    config: ExperimentConfig,
    dry_run: bool,
    first: str,
    last: str,
    mode: JudgingMode | None = None,
    redo: Collection[str] = (),
) -> tuple[Report | None, InstructError | None]:
    """`run_experiment`, which returns what stopped or refused a judge beside the report.

    Args:
        mode: what judges are asked again; what failed, of answers too.
        redo: finished steps to make again, see `start_or_continue`.
    """
    from accelerate import PartialState

    from instruct.judging.work import JudgingMode
    from instruct.phases.answer import generate
    from instruct.phases.judge import judge_run
    from instruct.phases.preflight import check_experiment
    from instruct.phases.remedies import judge_flags, renamed
    from instruct.phases.train import train_systems
    from instruct.phases.upload import upload
    from instruct.reporting.report import print_written, written_report

    mode = mode or JudgingMode()
    config = settle_dtype(config)
    phases = _phases(first, last, run_folder(config))
    data, judges = check_experiment(config, run_folder(config), phases, redo)
    if dry_run:
        from instruct.phases.plan import print_later_phases

        print_later_phases(config)
        return None, None
    run = open_run(config, redo)
    if data:
        train_systems(config, run, data)
        data = None  # its files are removed, and their space is free when nothing maps them
    if "train" in phases:
        upload(config, run)
    if PartialState().num_processes > 1:
        say(f"trained   continue without `accelerate launch`: python {' '.join(sys.argv)}")
        return None, None
    if "answer" in phases:
        generate(config, run, mode.retry_failed)
    if "evaluate" in phases and config.evaluation:
        from instruct.phases.evaluate import evaluate_run, metrics_text

        say(metrics_text(evaluate_run(config, run), run))
    failure = None
    if "judge" in phases and judges:
        with judge_flags(config):
            failure = judge_run(run, judges, config.compared, mode)
        failure = failure and renamed(failure, config)
    elif "judge" in phases:
        _say_what_is_next(config, run)
        if not config.evaluation:
            return None, None
    report = None
    if "report" in phases:
        report = written_report(run.folder, failure=failure)
        print_written(report, run.folder)
        upload(config, run)  # the cards, now with the evaluation
    return report, failure


def _phases(first: str, last: str, folder: Path) -> tuple[str, ...]:
    """The phases from the first to the last one.

    Raises:
        InputError: there is none, or the run does not have what the first one reads.
    """
    phases = PHASES[PHASES.index(first) : PHASES.index(last) + 1]
    if not phases:
        raise InputError(f"--from {first} comes after --until {last}; the phases are {', '.join(PHASES)}")
    if first in ("evaluate", "judge", "report") and not (folder / "manifest.json").is_file():
        raise InputError(f"{folder}: no such run; drop --from to run the earlier phases")
    return phases


def _say_what_is_next(config: ExperimentConfig, run: RunDirectory) -> None:
    """What can be done with the outputs of a run without judges."""
    if config.answers:
        say(f"answered  judge the answers with `instruct judge {run.folder} --judge NAME`")
    elif config.continuations:
        say(f"continued {run.continuations}")


def run_folder(config: ExperimentConfig) -> Path:
    """The directory of an experiment's run."""
    return Path("runs") / config.name


def settle_dtype(config: ExperimentConfig) -> ExperimentConfig:
    """The config with the dtype that its model computes in: the one that its run began with, else this machine's.

    For a cluster, too, the machine of the command picks it. Without PyTorch, nothing is computed.

    Raises:
        InputError: on a GPU, a checkpoint that cannot be read, which states its dtype.
    """
    if config.model.dtype != "auto" or find_spec("torch") is None:
        return config
    run = RunDirectory(run_folder(config))
    begun = run.config().get("model") if (run.folder / "config.yaml").is_file() else None
    if begun and "dtype" in begun:
        return config.computing_in(begun["dtype"])
    from instruct.base.models import compute_dtype
    from instruct.training.processes import from_main
    from instruct.training.rows import unreachable_model

    try:
        return config.computing_in(from_main(lambda: compute_dtype(config.model)))
    except (OSError, ValueError) as error:
        raise unreachable_model(config.model.name, error) from None


def open_run(config: ExperimentConfig, redo: Collection[str] = ()) -> RunDirectory:
    """`runs/NAME/`, created or continued.

    Raises:
        InputError: a finished step was made with other options and is not to be made again (`redo`), or the directory
            is not shared by all nodes of a training.
    """
    from instruct.phases.steps import start_or_continue
    from instruct.phases.upload import configured_repositories, create_repositories
    from instruct.training.processes import from_main

    run = RunDirectory(run_folder(config))

    def start() -> str:
        # A token without write access is found out before training.
        create_repositories(configured_repositories(config).values(), config.train.get("hub_private_repo"))
        start_or_continue(run, config, redo)
        return str(run.manifest()["created"])

    run.join(from_main(start))
    return run
