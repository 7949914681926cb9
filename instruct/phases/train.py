"""The train phase: every system but the base becomes an adapter; one process at a time trains a system."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

from instruct.base.errors import InputError
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.data.rows import RowSet
from instruct.run.directory import RunDirectory
from instruct.run.lock import adapter_of, only_process

if TYPE_CHECKING:
    from instruct.training.rows import TrainingRows


def train_systems(config: ExperimentConfig, run: RunDirectory, data: TrainingRows) -> None:
    """Train every system that is not trained yet, after counting the overlap with the evaluation prompts, and
    remove the rows' files and what teachers answered.

    Of the processes of `accelerate launch`, the main one holds a system's lock for all.

    Raises:
        InputError: another process trains a system of this run.
    """
    from instruct.training.train import TEACHER, train_system

    record_overlap(config, run, data.rows)
    tasks, watch = config.evaluation.tasks if config.evaluation else None, None
    if tasks and tasks.every_steps:
        from instruct.measuring.tasks.while_training import tasks_while_training

        watch = tasks_while_training(tasks, config.data.rendering(run.day))
    for name in config.trained:
        with _only_launch(run, name):
            train_system(config, name, run, data, watch)
    shutil.rmtree(run.folder / TEACHER, ignore_errors=True)
    data.close()


@contextlib.contextmanager
def _only_launch(run: RunDirectory, system: str) -> Iterator[None]:
    """Hold the lock of a system's adapter for all processes of a launch; a refusal ends each of them."""
    from instruct.training.processes import from_main

    with contextlib.ExitStack() as held:
        from_main(lambda: held.enter_context(only_process(run, adapter_of(system))))
        yield


def record_overlap(config: ExperimentConfig, run: RunDirectory, rows: RowSet) -> None:
    """Record and print how many prompts of the evaluation set are in the training data, unless that is recorded."""
    from accelerate import PartialState

    from instruct.data.overlap import find_overlap, overlap_text
    from instruct.generation.answers import evaluation_set

    if not PartialState().is_main_process or config.answers is None:
        return
    try:
        evaluation = evaluation_set(config.answers)
    except InputError as error:  # training does not need the prompts
        say(f"overlap   not counted: {error}")
        return
    inputs = {"data": rows.sha256, "prompts": evaluation.sha256}
    if not run.is_done("overlap", inputs):
        with run.step("overlap", inputs) as results:
            results |= find_overlap([prompt.instruction for prompt in evaluation.prompts], rows)
    say(f"overlap   {overlap_text(run.manifest()['steps']['overlap']['results'])}")
