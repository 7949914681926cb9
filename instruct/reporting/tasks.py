"""The report's part about few-shot tasks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.claims import holm
from instruct.analysis.inference import mean_of_groups, paired_difference, sign_test
from instruct.analysis.measured_results import (
    Forgetting,
    HarnessFigure,
    Loss,
    TaskDifference,
    TaskFigure,
    TaskReport,
    VoteFigure,
)
from instruct.reporting.tables import Column, Table, Value, columns_table, text_columns
from instruct.reporting.text import probability
from instruct.run.measurements import Measurement, Metrics

# Columns of the answers to each row by part (`tasks/KEY`) and system, as `instruct evaluate` keeps them.
AnswerColumns = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]
# What a figure has from its row's details.
_SHARED = ("rule", "of", "floor", "most_frequent", "in_training", "shortened")
_OF_HARNESS = ("shots", "standard_error", "chat", "shortened", "draws", "lowest", "highest")


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


def task_report(metrics: Metrics, answers: AnswerColumns) -> TaskReport | None:
    """The results of every task, and the systems compared with each other; None if no task was run."""
    rows = [row for row in metrics.measurements if row.value is not None]
    f1 = {(row.part, row.system): row.value for row in rows if row.kind == "tasks" and row.metric == "macro_f1"}
    figures = [
        TaskFigure(
            task=row.task,
            system=row.system,
            rows=row.n or 0,
            accuracy=row.value or 0.0,
            interval=row.interval or [0.0, 100.0],
            shots=row.details.shots or 0,
            macro_f1=f1.get((row.part, row.system)),
            **{name: getattr(row.details, name) for name in _SHARED},
        )
        for row in rows
        if row.kind == "tasks" and row.metric == "accuracy"
    ]
    order = list(dict.fromkeys(figure.task for figure in figures))
    figures.sort(key=lambda figure: order.index(figure.task))
    harness = [
        HarnessFigure(
            task=row.task,
            system=row.system,
            rows=row.n,
            metric=row.metric,
            value=row.value or 0.0,
            **{name: getattr(row.details, name) for name in _OF_HARNESS},
        )
        for row in rows
        if row.kind == "lm_eval"
    ]
    if not figures and not harness:
        return None
    return TaskReport(
        figures=figures,
        votes=[
            _beside_the_vote(figure.task, figure.system, answers[f"tasks/{figure.task}"][figure.system])
            for figure in figures
            if figure.floor is not None and "vote" in answers.get(f"tasks/{figure.task}", {}).get(figure.system, {})
        ],
        differences=_differences(answers),
        harness=harness,
        forgetting=_forgetting(rows, answers),
    )


def _beside_the_vote(task: str, system: str, columns: Mapping[str, Sequence[Any]]) -> VoteFigure:
    """Whether a system answers as the demonstrations vote, and how often it is right with them and against them."""
    rows = list(zip(columns["answer"], columns["vote"], columns["label"], strict=True))
    right = {
        voted: [answer == label for answer, vote, label in rows if (vote == label) == voted] for voted in (True, False)
    }
    shares = {voted: 100 * sum(own) / len(own) if own else None for voted, own in right.items()}
    return VoteFigure(
        task=task,
        system=system,
        like_vote=100 * sum(answer == vote for answer, vote, _ in rows) / len(rows),
        vote_right=len(right[True]),
        right_with=shares[True],
        vote_wrong=len(right[False]),
        right_against=shares[False],
    )


def _differences(answers: AnswerColumns) -> list[TaskDifference]:
    """Every two systems in every task; of several metrics of lm-eval's the task's first."""
    differences = []
    for part, systems in answers.items():
        metric, scored = scored_rows(part, systems)
        task = part.partition("/")[2]
        differences += [
            _difference(task, metric, (second, scored[second]), (first, scored[first]))
            for first, second in itertools.combinations(scored, 2)
        ]
    for difference, p in zip(differences, holm([difference.p for difference in differences]), strict=True):
        difference.p_holm = p
    return differences


def _forgetting(rows: Sequence[Measurement], answers: AnswerColumns) -> Forgetting | None:
    """The trained systems beside the untrained base, over the tasks that were put to all of them for this purpose.

    Only metrics from 0 to 1 count: others have no mean in common.
    """
    asked = {(row.part, row.system): row.details.forgetting for row in rows if row.details.forgetting}
    base = next((system for (_, system), when in asked.items() if when == "before"), None)
    trained = list(dict.fromkeys(system for (_, system), when in asked.items() if when == "after"))
    if base is None or not trained:
        return None
    tasks: dict[str, NDArray[np.float64]] = {}  # (rows, systems), the base first
    for part in dict.fromkeys(part for part, _ in asked):
        columns = answers.get(part, {})
        if not {base, *trained} <= columns.keys():
            continue
        scores = scored_rows(part, {name: columns[name] for name in (base, *trained)})[1]
        common = [row for row in scores[base] if all(row in own for own in scores.values())]
        values = np.array([[scores[name][row] for name in (base, *trained)] for row in common])
        if values.size and values.min() >= 0 and values.max() <= 1:
            tasks[part.partition("/")[2]] = values
    if not tasks:
        return None
    means = 100 * np.mean([values.mean(axis=0) for values in tasks.values()], axis=0)
    losses = []
    for place, system in enumerate(trained, start=1):
        change, interval, p = mean_of_groups([values[:, place] - values[:, 0] for values in tasks.values()])
        percent = interval and [100 * end for end in interval]
        change *= 100
        losses.append(Loss(system=system, value=means[place], difference=change, interval=percent, p=p, p_holm=None))
    for loss, corrected in zip(losses, holm([loss.p for loss in losses]), strict=True):
        loss.p_holm = corrected
    return Forgetting(tasks=list(tasks), n=sum(map(len, tasks.values())), base=base, value=means[0], losses=losses)


def scored_rows(
    part: str, systems: Mapping[str, Mapping[str, Sequence[Any]]]
) -> tuple[str, dict[str, dict[Any, float]]]:
    """A task's metric, and what each row of each system has of it."""
    if part.startswith("tasks/"):
        return "accuracy", {name: _row_scores(columns, "accuracy") for name, columns in systems.items()}
    theirs = part.startswith("lm_eval/")
    values = {system: columns for system, columns in systems.items() if theirs and len(columns) > 1}
    names = [name for columns in values.values() for name in columns if name != "id"]
    whole = (name for name in names if all(None not in columns.get(name, [None]) for columns in values.values()))
    metric = next(whole, names[0] if names else "accuracy")
    return metric, {name: _row_scores(columns, metric) for name, columns in values.items()}


def _row_scores(columns: Mapping[str, Sequence[Any]], metric: str) -> dict[Any, float]:
    """What each row of a task counts: of labels, whether the answer is right."""
    if "answer" in columns:
        rows = zip(columns["id"], columns["answer"], columns["label"], strict=True)
        return {place: float(answer == label) for place, answer, label in rows}
    values = zip(columns["id"], columns.get(metric, ()), strict=False)
    return {place: value for place, value in values if value is not None}


def _difference(
    task: str, metric: str, ours: tuple[str, Mapping[Any, float]], theirs: tuple[str, Mapping[Any, float]]
) -> TaskDifference:
    """McNemar's exact test is the sign test over the rows on which only one of the two is right."""
    (first, our_scores), (second, their_scores) = ours, theirs
    values = [score - their_scores[place] for place, score in our_scores.items() if place in their_scores]
    alone, other = sum(value > 0 for value in values), sum(value < 0 for value in values)
    difference = paired_difference(our_scores, their_scores)
    return TaskDifference(
        task=task,
        metric=metric,
        first=first,
        second=second,
        n=difference.n,
        difference=difference.difference or 0.0,
        interval=difference.interval,
        first_alone=alone,
        second_alone=other,
        p=sign_test(alone, other) if set(values) <= {-1.0, 0.0, 1.0} else difference.p,
        p_holm=None,
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
        Column("difference", form="+.1f"),
        Column("95 % CI", "interval"),
        Column("only first right", "first_alone"),
        Column("only second right", "second_alone"),
        Column("p", form=probability),
        Column("p (Holm)", "p_holm", form=probability),
    ]
    note = _DIFFERENCES + _GRADED if harness else _DIFFERENCES
    return columns_table("Tasks: differences", report.differences, columns, note)


def _harness(report: TaskReport) -> Table:
    drawn = any(figure.draws > 1 for figure in report.harness)
    columns = [
        *text_columns("task", "system", "metric"),
        Column("shots"),
        Column("rows"),
        Column("value", form=".4f"),
        Column("std. error", "standard_error", form=".4f"),
        Column("prompts", lambda figure: "chat" if figure.chat else "text", when=any(f.chat for f in report.harness)),
        Column("shortened", when="known"),
        Column("draws", when=drawn),
        Column("lowest", "lowest", when=drawn),
        Column("highest", "highest", when=drawn),
    ]
    return columns_table("lm-eval", report.harness, columns, _HARNESS + _DRAWS if drawn else _HARNESS)
