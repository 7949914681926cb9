"""The report's part about few-shot tasks: measurements, claims and tables over them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.claims import make_claim, of_family
from instruct.analysis.clusters import numbered
from instruct.analysis.inference import mean_of_groups, paired_difference, paired_test_name
from instruct.analysis.results import Claim
from instruct.reporting.tables import (
    CLUSTERS,
    DIFFERENCE,
    PAIR,
    TESTED,
    Column,
    Table,
    Value,
    columns_table,
    text_columns,
)
from instruct.run.measurements import Details, Measurement, Metrics, clusters_of

# Columns of the answers to each row by part (`tasks/KEY`) and system, as `instruct evaluate` keeps them.
AnswerColumns = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]
# Families of claims, and the part and metric of what both sides of forgetting are.
DIFFERENCES, FORGETTING = "tasks", "forgetting"
ACCURACY, VOTE = "accuracy", "answers like the vote"

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
    "The candidate's accuracy minus the other's on the same rows, in points; p is that of McNemar's exact test, which "
    "the "
    "interval agrees with; of rows in clusters (with one passage, or the same question) that of the paired permutation "
    "test of clusters; p (Holm) is corrected for all tests of this table. Other "
    "trainings are not covered."
)
_GRADED = (
    "Of lm-eval's tasks the metric is the first that has a value for each row, times 100; where that is not right or "
    "wrong alone, p is that of the paired permutation test."
)
_HARNESS = "Tasks of lm-evaluation-harness, with its own prompts, metrics and standard errors."
_DRAWS = (
    "A value of several draws of demonstrations is their mean, also of each row, so that the standard error and the "
    "tests are of the test rows; beside it the lowest and the highest draw. One draw: fixed demonstrations or none."
)


def task_measurements(metrics: Metrics, answers: AnswerColumns) -> list[Measurement]:
    """Every number about tasks, task by task, and how often answers are those of the demonstrations' vote."""
    rows = [row for row in metrics.measurements if row.value is not None and row.kind in ("tasks", "lm_eval")]
    parts = list(dict.fromkeys(row.part for row in rows))
    rows.sort(key=lambda row: parts.index(row.part) if row.kind == "tasks" else len(parts))
    votes = []
    for row in rows:
        columns = answers.get(row.part, {}).get(row.system, {})
        if row.kind == "tasks" and row.metric == ACCURACY and row.details.floor is not None and "vote" in columns:
            votes.append(_beside_the_vote(row, columns))
    return [*rows, *votes]


def _beside_the_vote(row: Measurement, columns: Mapping[str, Sequence[Any]]) -> Measurement:
    """Whether a system answers as the demonstrations vote, and how often it is right with them and against them.

    `right_with` and `right_against` are its accuracy, in percent, on the `vote_right` and `vote_wrong` rows on which
    the vote is right or wrong; None without such rows.
    """
    like: list[bool] = []
    right: dict[bool, list[bool]] = {True: [], False: []}
    for answer, vote, label in zip(columns["answer"], columns["vote"], columns["label"], strict=True):
        like.append(answer == vote)
        right[vote == label].append(answer == label)
    shares = {voted: 100 * sum(rows) / len(rows) if rows else None for voted, rows in right.items()}
    about: dict[str, Any] = {
        "vote_right": len(right[True]),
        "right_with": shares[True],
        "vote_wrong": len(right[False]),
        "right_against": shares[False],
    }
    value = 100 * sum(like) / len(like)
    return Measurement(
        system=row.system, part=row.part, metric=VOTE, value=value, n=len(like), details=Details(**about)
    )


def task_claims(answers: AnswerColumns) -> list[Claim]:
    """Every two systems in every task; of several metrics of lm-eval's the task's first."""
    claims = []
    for part, systems in answers.items():
        metric, scored = scored_rows(part, systems)
        for first, second in itertools.combinations(scored, 2):
            clusters = clusters_of(systems[first]) or clusters_of(systems[second])
            claims.append(_claim(part.partition("/")[2], metric, (second, first), scored, clusters))
    return claims


def _claim(
    task: str,
    metric: str,
    names: tuple[str, str],
    scored: Mapping[str, Mapping[Any, float]],
    clusters: Mapping[Any, str],
) -> Claim:
    """In points: 100 times the metric. McNemar's exact test is the sign test over rows on which one alone is right."""
    candidate, baseline = names
    ours, theirs = scored[candidate], scored[baseline]
    shared = [row for row in ours if row in theirs]
    values, places = np.array([ours[row] - theirs[row] for row in shared]), numbered(shared, clusters)
    above, below = int((values > 0).sum()), int((values < 0).sum())
    difference = paired_difference(ours, theirs, clusters)
    n, units = difference.n, len(np.unique(places))
    return make_claim(
        difference.estimate,
        measure=metric,
        kind="points",
        task=task,
        candidate=candidate,
        baseline=baseline,
        family=DIFFERENCES,
        test=paired_test_name(values, places),
        n=n,
        value=difference.difference or 0.0,
        params={"candidate_above": above, "baseline_above": below, **({"clusters": units} if units < n else {})},
    )


def forgetting(metrics: Metrics, answers: AnswerColumns) -> tuple[list[Measurement], list[Claim]]:
    """The means of the untrained base and of the trained systems over the tasks that were put to all of them for this
    purpose, in percent, the base first; and the claims of each trained system against the base, in points.

    Only metrics from 0 to 1 count: others have no mean in common. Claims cover other rows of these tasks, not other
    trainings.
    """
    asked = {(row.part, row.system): row.details.forgetting for row in metrics.measurements if row.details.forgetting}
    base = next((system for (_, system), when in asked.items() if when == "before"), None)
    trained = list(dict.fromkeys(system for (_, system), when in asked.items() if when == "after"))
    if base is None or not trained:
        return [], []
    tasks: dict[str, NDArray[np.float64]] = {}  # (rows, systems), the base first
    clusters: list[NDArray[np.intp]] = []
    for part in dict.fromkeys(part for part, _ in asked):
        columns = answers.get(part, {})
        if not {base, *trained} <= columns.keys():
            continue
        scores = scored_rows(part, {name: columns[name] for name in (base, *trained)})[1]
        common = [row for row in scores[base] if all(row in each for each in scores.values())]
        values = np.array([[scores[name][row] for name in (base, *trained)] for row in common])
        if values.size and values.min() >= 0 and values.max() <= 1:
            tasks[part.partition("/")[2]] = values
            clusters.append(numbered(common, clusters_of(columns[base])))
    if not tasks:
        return [], []
    n = sum(map(len, tasks.values()))
    means = 100 * np.mean([values.mean(axis=0) for values in tasks.values()], axis=0)
    details = Details.model_validate({"tasks": list(tasks)})
    measurements = [
        Measurement(system=system, part=FORGETTING, metric="mean", value=float(mean), n=n, details=details)
        for system, mean in zip((base, *trained), means, strict=True)
    ]
    claims = []
    for place, system in enumerate(trained, start=1):
        change = mean_of_groups([values[:, place] - values[:, 0] for values in tasks.values()], clusters)
        claims.append(
            make_claim(
                change.scaled(100),
                measure="mean over tasks",
                kind="points",
                candidate=system,
                baseline=base,
                family=FORGETTING,
                test="permutation",
                n=n,
            )
        )
    return measurements, claims


def scored_rows(
    part: str, systems: Mapping[str, Mapping[str, Sequence[Any]]]
) -> tuple[str, dict[str, dict[Any, float]]]:
    """A task's metric, and what each row of each system has of it."""
    if part.startswith("tasks/"):
        return ACCURACY, {name: _row_scores(columns, ACCURACY) for name, columns in systems.items()}
    theirs = part.startswith("lm_eval/")
    values = {system: columns for system, columns in systems.items() if theirs and len(columns) > 1}
    names = [name for columns in values.values() for name in columns if name not in ("id", "cluster")]
    whole = (name for name in names if all(None not in columns.get(name, [None]) for columns in values.values()))
    metric = next(whole, names[0] if names else ACCURACY)
    return metric, {name: _row_scores(columns, metric) for name, columns in values.items()}


def _row_scores(columns: Mapping[str, Sequence[Any]], metric: str) -> dict[Any, float]:
    """What each row of a task counts: of labels, whether the answer is right."""
    if "answer" in columns:
        rows = zip(columns["id"], columns["answer"], columns["label"], strict=True)
        return {place: float(answer == label) for place, answer, label in rows}
    values = zip(columns["id"], columns.get(metric, ()), strict=False)
    return {place: value for place, value in values if value is not None}


def accuracies(measurements: Iterable[Measurement]) -> list[Measurement]:
    """The accuracies in tasks of cards."""
    return [row for row in measurements if row.kind == "tasks" and row.metric == ACCURACY]


def macro_f1(measurements: Iterable[Measurement]) -> dict[tuple[str, str], float | None]:
    """By part and system, of the tasks that ask for it."""
    return {(row.part, row.system): row.value for row in measurements if row.metric == "macro_f1"}


def task_tables(measurements: Sequence[Measurement], claims: Sequence[Claim]) -> list[Table]:
    """Accuracies by system, details, the vote, comparisons, lm-eval's tasks."""
    rows = accuracies(measurements)
    harness = [row for row in measurements if row.kind == "lm_eval"]
    differences = of_family(claims, DIFFERENCES)
    f1 = macro_f1(measurements)
    details = [
        *text_columns("task", "system"),
        Column("rule", "details.rule", text=True),
        Column("rows", lambda row: f"{row.n or 0} of {row.details.of}", text=True),
        Column("clusters", "details.clusters", when="known"),
        Column("shots", lambda row: row.details.shots or 0),
        Column("accuracy %", "value", error="interval"),
        Column("95 % CI", lambda row: row.interval or [0.0, 100.0]),
        Column("macro-F1 %", lambda row: f1.get((row.part, row.system))),
        Column("retrieval alone %", "details.floor"),
        Column("most frequent %", "details.most_frequent"),
        Column("in training", "details.in_training"),
        Column("shortened", "details.shortened"),
    ]
    votes = [
        *text_columns("task", "system"),
        Column("answers like the vote %", "value"),
        Column("rows: vote right", "details.vote_right"),
        Column("accuracy there %", "details.right_with"),
        Column("rows: vote wrong", "details.vote_wrong"),
        Column("accuracy there %", "details.right_against"),
    ]
    other_metrics = any(claim.measure != ACCURACY for claim in differences)
    comparisons = [
        *text_columns("task"),
        *PAIR,
        Column("metric", "measure", text=True, when=other_metrics, note=_GRADED),
        Column("rows", "n"),
        CLUSTERS,
        *DIFFERENCE,
        Column("only candidate right", "params.candidate_above"),
        Column("only other right", "params.baseline_above"),
        *TESTED,
    ]
    drawn = any(row.details.draws > 1 for row in harness)
    chats = any(row.details.chat for row in harness)
    of_harness = [
        *text_columns("task", "system", "metric"),
        Column("shots", "details.shots"),
        Column("rows", "n"),
        Column("clusters", "details.clusters", when="known"),
        Column("value", error="details.standard_error"),
        Column("std. error", "details.standard_error", error="details.standard_error"),
        Column("prompts", lambda row: "chat" if row.details.chat else "text", when=chats),
        Column("shortened", "details.shortened", when="known"),
        Column("draws", "details.draws", when=drawn, note=_DRAWS),
        *(Column(key, f"details.{key}") for key in ("lowest", "highest")),
    ]
    return [
        _overview(rows),
        columns_table("Tasks: details", rows, details, _DETAILS),
        columns_table(
            "Tasks: the demonstrations' vote", [row for row in measurements if row.metric == VOTE], votes, _VOTES
        ),
        columns_table("Tasks: differences", differences, comparisons, _DIFFERENCES),
        columns_table("lm-eval", harness, of_harness, _HARNESS),
    ]


def _overview(figures: Sequence[Measurement]) -> Table:
    """A row for each system, as in Table 3 of the paper; the mean is over the tasks that all systems have."""
    tasks = list(dict.fromkeys(row.task for row in figures))
    systems = list(dict.fromkeys(row.system for row in figures))
    accuracy = {(row.task, row.system): row.value or 0.0 for row in figures}
    common = [task for task in tasks if all((task, system) in accuracy for system in systems)]
    rows: list[list[Value]] = []
    for system in systems:
        values = [accuracy[task, system] for task in common]
        mean = sum(values) / len(values) if values else None
        rows.append([system, *(accuracy.get((task, system)) for task in tasks), mean])
    floors = {row.task: row.details.floor for row in figures}
    rows.append(["retrieval alone", *(floors[task] for task in tasks), None])
    return Table("Tasks", ["system", *tasks, "mean"], rows, left=1, note=_OVERVIEW)
