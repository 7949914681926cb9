"""The judge phase: the judges compare the systems' answers; the report tells what they found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from instruct.base.errors import InstructError
from instruct.phases.report import written_report
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from instruct.judging.asking import Judge
    from instruct.judging.judge import JudgingMode
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.report import Report


def judge_run(
    run: RunDirectory, judges: Sequence[Judge], comparisons: Sequence[tuple[str, str]], mode: JudgingMode
) -> InstructError | None:
    """Let each judge compare a run's answers; what stopped or refused the last one that did not finish.

    Args:
        comparisons: pairs of candidate and baseline, for judges that name none of their own.

    Raises:
        InputError: no judge can be asked.
    """
    from instruct.judging.judge import ask_judges, comparison_tasks

    return ask_judges(
        run, judges, lambda judge: comparison_tasks(run, judge, judge.options.comparisons or comparisons), mode
    )


def judge_and_report(
    run: RunDirectory,
    judges: Sequence[Judge],
    comparisons: Sequence[tuple[str, str]],
    mode: JudgingMode,
    difficulty: Difficulty | None = None,
) -> tuple[Report, InstructError | None]:
    """Let each judge compare a run's answers, and write the report; a partial one if a judge did not finish.

    Returns:
        The report, and what stopped or refused the last judge that did not finish.
    """
    failure = judge_run(run, judges, comparisons, mode)
    return written_report(run.folder, difficulty, failure), failure
