"""The tables of the report's part about few-shot tasks."""

from __future__ import annotations

from instruct.analysis.task_results import TaskReport
from instruct.reporting.tables import Column, Table, Value, columns_table, table_of, text_columns
from instruct.reporting.text import probability

_OVERVIEW = (
    "Accuracy in percent; the mean is over the tasks that every system answered. Retrieval alone: the vote of the "
    "demonstrations' labels, without a model. A system has to beat it to show that it uses the text."
)
_DETAILS = (
    "Rule openicl: the label whose whole prompt has the lowest mean cross-entropy; sum: the most probable label. "
    "Most frequent: always the test rows' most frequent label. In training: test rows that are also training rows. "
    "Shortened: rows whose prompt did not fit the context with all demonstrations."
)
_VOTES = (
    "The vote of the retrieved demonstrations' labels, without a model. A system that is right more often only "
    "where the vote is right copies labels more often; reading the text shows where the vote is wrong."
)
_DIFFERENCES = (
    "The first's accuracy minus the second's on the same rows, in points, with its bootstrap interval; p is "
    "that of McNemar's exact test, p (Holm) corrected for all tests of this table. Other trainings are not covered."
)
_GRADED = (
    " Of lm-eval's tasks it is the first metric that has a value for each row, times 100; where that is not right or "
    "wrong alone, p is that of the paired permutation test."
)
_HARNESS = "Tasks of lm-evaluation-harness, with its own prompts, metrics and standard errors."

_DRAWS = (
    " A value of several draws of demonstrations is their mean, also of each row, so that the standard error and the "
    "tests are of the test rows; beside it the lowest and the highest draw. One draw: fixed demonstrations or none."
)


def task_tables(report: TaskReport | None) -> list[Table]:
    """Accuracies by system, details, the vote, comparisons, lm-eval's tasks; tables without rows are left out."""
    if report is None:
        return []
    tables = [_overview(report), _details(report), _votes(report), _comparisons(report), _harness(report)]
    return [table for table in tables if table.rows]


def _overview(report: TaskReport) -> Table:
    """A row for each system, as in Table 3 of the paper; the mean is over the tasks that all systems have."""
    tasks = list(dict.fromkeys(figure.task for figure in report.figures))
    systems = list(dict.fromkeys(figure.system for figure in report.figures))
    accuracy = {(figure.task, figure.system): figure.accuracy for figure in report.figures}
    common = [task for task in tasks if all((task, system) in accuracy for system in systems)]
    rows: list[list[Value]] = []
    for system in systems:
        own = [accuracy[task, system] for task in common]
        rows.append([system, *(accuracy.get((task, system)) for task in tasks), sum(own) / len(own) if own else None])
    floors = {figure.task: figure.floor for figure in report.figures}
    if any(floor is not None for floor in floors.values()):
        rows.append(["retrieval alone", *(floors[task] for task in tasks), None])
    return Table("Tasks", ["system", *tasks, "mean"], rows, left=1, note=_OVERVIEW)


def _details(report: TaskReport) -> Table:
    columns = [
        *text_columns("task", "system", "rule"),
        Column("rows", lambda figure: f"{figure.rows} of {figure.of}", text=True),
        Column("shots"),
        Column("accuracy %", "accuracy"),
        Column("95 % CI", "interval"),
        Column("macro-F1 %", "macro_f1", when=any(figure.macro_f1 is not None for figure in report.figures)),
        Column("retrieval alone %", "floor"),
        Column("most frequent %", "most_frequent"),
        Column("in training", "in_training"),
        Column("shortened"),
    ]
    return columns_table("Tasks: details", report.figures, columns, _DETAILS)


def _votes(report: TaskReport) -> Table:
    columns = [
        *text_columns("task", "system"),
        Column("answers like the vote %", "like_vote"),
        Column("rows: vote right", "vote_right"),
        Column("accuracy there %", "right_with"),
        Column("rows: vote wrong", "vote_wrong"),
        Column("accuracy there %", "right_against"),
    ]
    return columns_table("Tasks: the demonstrations' vote", report.votes, columns, _VOTES)


def _comparisons(report: TaskReport) -> Table:
    harness = any(pair.metric != "accuracy" for pair in report.differences)
    columns = [
        *text_columns("task", "first", "second"),
        Column("metric", text=True, when=harness),
        Column("rows", "n"),
        Column("difference", lambda pair: f"{pair.difference:+.1f}"),
        Column("95 % CI", "interval"),
        Column("only first right", "first_alone"),
        Column("only second right", "second_alone"),
        Column("p", lambda pair: probability(pair.p)),
        Column("p (Holm)", lambda pair: probability(pair.p_holm)),
    ]
    note = _DIFFERENCES + _GRADED if harness else _DIFFERENCES
    return columns_table("Tasks: differences", report.differences, columns, note)


def _harness(report: TaskReport) -> Table:
    drawn = any(figure.draws > 1 for figure in report.harness)
    columns = [
        *text_columns("task", "system", "metric"),
        Column("shots"),
        Column("rows"),
        Column("value", lambda figure: f"{figure.value:.4f}"),
        Column(
            "std. error",
            lambda figure: None if figure.standard_error is None else f"{figure.standard_error:.4f}",
        ),
        Column("prompts", lambda figure: "chat" if figure.chat else "text", when=any(f.chat for f in report.harness)),
        Column("shortened", when="known"),
        Column("draws", when=drawn),
        Column("lowest", "lowest", when=drawn),
        Column("highest", "highest", when=drawn),
    ]
    return columns_table("lm-eval", report.harness, columns, _HARNESS + _DRAWS if drawn else _HARNESS)


def tasks_csv(report: TaskReport) -> Table:
    """Every figure of the tasks, a row for each task and system."""
    rows = []
    for figure in report.figures:
        low, high = figure.interval
        rows.append({**figure.model_dump(exclude={"interval"}), "interval_low": low, "interval_high": high})
    return table_of("Tasks", rows)
