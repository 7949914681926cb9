"""The report's part about few-shot tasks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.holm import holm
from instruct.analysis.inference import bootstrap_interval, mean_of_groups, sign_flip_test, sign_test
from instruct.analysis.task_results import (
    Forgetting,
    HarnessFigure,
    Loss,
    TaskDifference,
    TaskFigure,
    TaskReport,
    VoteFigure,
)
from instruct.run.measurements import Measurement, Metrics

# Columns of the answers to each row by part (`tasks/KEY`) and system, as `instruct evaluate` keeps them.
AnswerColumns = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]


# What a figure has from its row's details.
_SHARED = ("rule", "of", "floor", "most_frequent", "in_training", "shortened")
_OF_HARNESS = ("shots", "standard_error", "chat", "shortened", "draws", "lowest", "highest")


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
    order = {key: place for place, key in enumerate(dict.fromkeys(figure.task for figure in figures))}
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
        figures=sorted(figures, key=lambda figure: order[figure.task]),
        votes=[
            _beside_the_vote(figure.task, figure.system, answers[f"tasks/{figure.task}"][figure.system])
            for figure in sorted(figures, key=lambda figure: order[figure.task])
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
    corrected = holm([difference.p for difference in differences])
    return [difference.model_copy(update={"p_holm": p}) for difference, p in zip(differences, corrected, strict=True)]


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
        change = mean_of_groups([values[:, place] - values[:, 0] for values in tasks.values()])
        interval = change.interval and [100 * end for end in change.interval]
        losses.append(
            Loss(
                system=system,
                value=means[place],
                difference=100 * change.mean,
                interval=interval,
                p=change.p,
                p_holm=None,
            )
        )
    corrected = holm([loss.p for loss in losses])
    return Forgetting(
        tasks=list(tasks),
        n=sum(map(len, tasks.values())),
        base=base,
        value=means[0],
        losses=[loss.model_copy(update={"p_holm": p}) for loss, p in zip(losses, corrected, strict=True)],
    )


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
    values = np.array([score - their_scores[place] for place, score in our_scores.items() if place in their_scores])
    alone, other = int((values > 0).sum()), int((values < 0).sum())
    graded = not set(values) <= {-1.0, 0.0, 1.0}
    return TaskDifference(
        task=task,
        metric=metric,
        first=first,
        second=second,
        n=len(values),
        difference=100 * float(values.mean()) if len(values) else 0.0,
        interval=bootstrap_interval(values) if alone + other else None,
        first_alone=alone,
        second_alone=other,
        p=sign_flip_test(values)[0] if graded else sign_test(alone, other),
        p_holm=None,
    )
