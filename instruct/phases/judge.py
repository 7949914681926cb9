"""The judge phase: the judges compare the systems' answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from instruct.base.errors import StoppedError
from instruct.run.directory import RunDirectory
from instruct.run.lock import VERDICTS, only_process

if TYPE_CHECKING:
    from instruct.judging.asking import Judge
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.report import Report


def judge_and_report(
    run: RunDirectory,
    judges: Iterable[Judge],
    comparisons: Sequence[tuple[str, str]],
    difficulty: Difficulty | None = None,
    **given: bool,
) -> tuple[Report, StoppedError | None]:
    """Let each judge compare a run's answers, and write the report.

    Args:
        comparisons: pairs of candidate and baseline, for judges that name none of their own.
        given: further arguments of judge_answers.

    Returns:
        The report, and what stopped the last judge that was stopped by its budget or too many failures.
    """
    from instruct.judging.judge import judge_answers
    from instruct.reporting.report import write_report

    stopped: StoppedError | None = None
    with only_process(run, VERDICTS):
        for judge in judges:
            try:
                judge_answers(run, judge, judge.options.comparisons or comparisons, **given)
            except StoppedError as error:  # report what was judged, and let the other judges go on
                stopped = error
    return write_report(run.folder, difficulty).report, stopped
