"""The tables of the report's part about few-shot tasks."""

from __future__ import annotations

from instruct.analysis.task_results import TaskReport
from instruct.reporting.tables import Table, Value, table_of
from instruct.reporting.text import probability


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
    note = (
        "Accuracy in percent; the mean is over the tasks that every system answered. Retrieval alone: the vote of the "
        "demonstrations' labels, without a model. A system has to beat it to show that it uses the text."
    )
    return Table("Tasks", ["system", *tasks, "mean"], rows, left=1, note=note)


def _details(report: TaskReport) -> Table:
    with_f1 = any(figure.macro_f1 is not None for figure in report.figures)
    rows: list[list[Value]] = [
        [figure.task, figure.system, figure.rule, f"{figure.rows} of {figure.of}", figure.shots, figure.accuracy,
         figure.interval, *[figure.macro_f1] * with_f1, figure.floor, figure.most_frequent, figure.in_training,
         figure.shortened]
        for figure in report.figures
    ]  # fmt: skip
    header = ["task", "system", "rule", "rows", "shots", "accuracy %", "95 % CI", *["macro-F1 %"] * with_f1,
              "retrieval alone %", "most frequent %", "in training", "shortened"]  # fmt: skip
    note = (
        "Rule openicl: the label whose whole prompt has the lowest mean cross-entropy; sum: the most probable label. "
        "Most frequent: always the test rows' most frequent label. In training: test rows that are also training rows. "
        "Shortened: rows whose prompt did not fit the context with all demonstrations."
    )
    return Table("Tasks: details", header, rows, left=4, note=note)


def _votes(report: TaskReport) -> Table:
    rows: list[list[Value]] = [
        [each.task, each.system, each.like_vote, each.vote_right, each.right_with, each.vote_wrong, each.right_against]
        for each in report.votes
    ]
    header = ["task", "system", "answers like the vote %", "rows: vote right", "accuracy there %", "rows: vote wrong",
              "accuracy there %"]  # fmt: skip
    note = (
        "The vote of the retrieved demonstrations' labels, without a model. A system that is right more often only "
        "where the vote is right copies labels more often; reading the text shows where the vote is wrong."
    )
    return Table("Tasks: the demonstrations' vote", header, rows, left=2, note=note)


def _comparisons(report: TaskReport) -> Table:
    rows: list[list[Value]] = [
        [each.task, each.first, each.second, each.n, f"{each.difference:+.1f}", each.interval, each.first_alone,
         each.second_alone, probability(each.p), probability(each.p_holm)]
        for each in report.differences
    ]  # fmt: skip
    header = ["task", "first", "second", "rows", "difference", "95 % CI", "only first right", "only second right",
              "p", "p (Holm)"]  # fmt: skip
    note = (
        "The first's accuracy minus the second's on the same rows, in points, with its bootstrap interval; p is "
        "that of McNemar's exact test, p (Holm) corrected for all tests of this table. Other trainings are not covered."
    )
    return Table("Tasks: differences", header, rows, left=3, note=note)


def _harness(report: TaskReport) -> Table:
    rows: list[list[Value]] = [
        [each.task, each.system, each.metric, each.shots, each.rows, f"{each.value:.4f}",
         None if each.standard_error is None else f"{each.standard_error:.4f}"]
        for each in report.harness
    ]  # fmt: skip
    header = ["task", "system", "metric", "shots", "rows", "value", "std. error"]
    note = "Tasks of lm-evaluation-harness, with its own prompts, metrics and standard errors."
    return Table("lm-eval", header, rows, left=3, note=note)


def tasks_csv(report: TaskReport) -> Table:
    """Every figure of the tasks, a row for each task and system."""
    rows = []
    for figure in report.figures:
        low, high = figure.interval
        rows.append({**figure.model_dump(exclude={"interval"}), "interval_low": low, "interval_high": high})
    return table_of("Tasks", rows)
