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
from instruct.judging.work import JudgingMode
from instruct.phases import PHASES
from instruct.phases.answer import Answering
from instruct.phases.evaluate import Evaluating
from instruct.phases.judge import Judging
from instruct.phases.steps import Step, check_steps, start_or_continue
from instruct.phases.train import Training
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
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

    from instruct.reporting.report import print_written, written_report

    config = settle_dtype(config)
    phases, steps = _phases(first, last, run_folder(config.name)), steps_of(config, mode)
    read = check_steps(steps, RunDirectory(run_folder(config.name)), phases, redo)
    if dry_run:
        return None, None
    run = open_run(config, redo)
    failure, alone = None, PartialState().num_processes == 1
    for step in steps:
        if step.name in phases and (alone or step.name == "train"):
            failure = step.make(run, read.pop(step.name)) or failure  # the space of training's rows is free then
    if not alone and last != "train":
        say(f"trained   continue without `accelerate launch`: python {' '.join(sys.argv)}")
    if not alone or "report" not in phases or ("judge" in phases and not (config.judges or config.evaluation)):
        return None, failure
    report = written_report(run.folder, failure=failure)
    print_written(report, run.folder)
    return report, failure


def steps_of(config: ExperimentConfig, mode: JudgingMode | None = None) -> list[Step]:
    """The steps of an experiment, in order."""
    return [kind(config, mode or JudgingMode()) for kind in (Training, Answering, Evaluating, Judging)]


def _phases(first: str, last: str, folder: Path) -> tuple[str, ...]:
    """The phases from the first to the last one.

    Raises:
        InputError: there is none, or the run does not have what the first one reads.
    """
    phases = PHASES[PHASES.index(first) : PHASES.index(last) + 1]
    if not phases:
        raise InputError(f"`first` {first} comes after `last` {last}; the phases are {', '.join(PHASES)}")
    if first in ("evaluate", "judge", "report") and not (folder / "manifest.json").is_file():
        raise InputError(f"{folder}: no such run; drop `first` to run the earlier phases")
    return phases


def run_folder(name: str) -> Path:
    """The directory of an experiment's run."""
    return Path("runs") / name


def settle_dtype(config: ExperimentConfig) -> ExperimentConfig:
    """The config with the dtype that its model computes in: the one that its run began with, else this machine's.

    For a cluster, too, the machine of the command picks it. Without PyTorch, nothing is computed.

    Raises:
        InputError: on a GPU, a checkpoint that cannot be read, which states its dtype.
    """
    if config.model.dtype != "auto" or find_spec("torch") is None:
        return config
    run = RunDirectory(run_folder(config.name))
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
    from instruct.training.processes import from_main

    run = RunDirectory(run_folder(config.name))

    def start() -> str:
        start_or_continue(run, config.model_dump(mode="json"), steps_of(config), redo)
        return str(run.manifest()["created"])

    run.join(from_main(start))
    return run
