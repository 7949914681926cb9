"""The report's part about few-shot tasks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from instruct.analysis.holm import holm
from instruct.analysis.inference import bootstrap_interval, sign_flip_test, sign_test
from instruct.analysis.task_results import HarnessFigure, TaskDifference, TaskFigure, TaskReport, VoteFigure
from instruct.run.measurements import Metrics

# Columns of the answers to each row by part (`tasks/KEY`) and system, as `instruct evaluate` keeps them.
AnswerColumns = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]


# What a figure has from its row's details.
_SHARED = ("rule", "of", "floor", "most_frequent", "in_training", "shortened")


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
            **{name: getattr(row.details, name) for name in ("shots", "standard_error", "chat", "shortened")},
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
        kind, _, task = part.partition("/")
        values = {system: columns for system, columns in systems.items() if kind == "lm_eval" and len(columns) > 1}
        names = [name for columns in values.values() for name in columns if name != "id"]
        whole = (name for name in names if all(None not in columns.get(name, [None]) for columns in values.values()))
        metric = next(whole, names[0] if names else "accuracy")
        scored = {
            name: _row_scores(columns, metric) for name, columns in (systems if kind == "tasks" else values).items()
        }
        differences += [
            _difference(task, metric, (second, scored[second]), (first, scored[first]))
            for first, second in itertools.combinations(scored, 2)
        ]
    corrected = holm([difference.p for difference in differences])
    return [difference.model_copy(update={"p_holm": p}) for difference, p in zip(differences, corrected, strict=True)]


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
