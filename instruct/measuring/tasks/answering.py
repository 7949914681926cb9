"""A system's answers to a task: its rows, their prompts, the best labels, and how good they are."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from instruct.analysis.inference import wilson_interval
from instruct.base.errors import InputError
from instruct.engines.forward import ForwardModel, TextRow
from instruct.measuring.tasks.cards import TaskCard, load_task_card
from instruct.measuring.tasks.demonstrations import choose, in_training, vote
from instruct.measuring.tasks.options import TaskOptions
from instruct.measuring.tasks.prompts import PromptWriter
from instruct.measuring.tasks.rows import TaskRow, load_rows
from instruct.measuring.tasks.scoring import Scores, label_rows, label_scores
from instruct.run.measurements import PartResult, numbers

_SEED = 0


@dataclass(frozen=True)
class Task:
    """A task as it is asked: `places` are the numbers of the test rows in their split, from 0.

    `identity` names all that decides the prompts and the scores.
    """

    card: TaskCard
    variant: str | None
    rule: Any
    shots: int
    retriever: str | None
    rows: list[TaskRow]
    places: list[int]
    of: int
    demonstrations: list[list[TaskRow]]
    in_training: int
    identity: str

    @property
    def key(self) -> str:
        """The task's name in results, with what differs from the card: `trec`, `trec-code-sum-4shots`."""
        parts = [self.card.name, self.variant or "", "" if self.rule == "openicl" else self.rule]
        parts += [f"{self.shots}shots"] if self.shots != self.card.shots else []
        return "-".join(filter(None, parts))

    @property
    def writer(self) -> PromptWriter:
        """Writes the task's prompts."""
        return PromptWriter(self.card, self.card.worded(self.variant))


@dataclass(frozen=True)
class TaskScores:
    """Scores and the demonstrations that fitted, for each row; seconds for all."""

    scores: list[Scores]
    shots: list[int]
    seconds: float


def load_task(name: str, options: TaskOptions) -> Task:
    """A task with its rows and demonstrations.

    Raises:
        InputError: an unknown card, rows that cannot be read, too few rows for the demonstrations.
    """
    card = load_task_card(name)
    variant = options.variant if options.variant in card.variants else None
    shots = card.shots if options.shots is None else options.shots
    rows = load_rows(card, Path(options.folder).expanduser() if options.folder else None)
    places = list(range(len(rows.test)))
    if options.limit and options.limit < len(places):
        drawn = np.random.default_rng(_SEED).permutation(len(places))[: options.limit]
        places = sorted(int(place) for place in drawn)
    test = [rows.test[place] for place in places]
    wording = card.worded(variant).model_dump_json()
    retriever = options.retriever if card.demonstrations == "retrieved" else None
    settings = [rows.sha256, wording, card.labels, places, options.rule, shots, retriever, card.share, card.group]
    return Task(
        card=card,
        variant=variant,
        rule=options.rule,
        shots=shots,
        retriever=retriever,
        rows=test,
        places=places,
        of=len(rows.test),
        demonstrations=choose(card, rows.train, test, shots, options.retriever),
        in_training=in_training(card, rows.train, test),
        identity=hashlib.sha256(repr(settings).encode()).hexdigest(),
    )


def prompt_rows(model: ForwardModel, task: Task, row: TaskRow, found: Sequence[TaskRow]) -> tuple[list[TextRow], int]:
    """The prompt of a test row with each label, and its number of demonstrations.

    Demonstrations that do not fit the context are left out from the last on, the least similar one, as in OpenICL.

    Raises:
        InputError: the prompt does not fit without any.
    """
    writer = task.writer
    for shots in range(len(found), -1, -1):
        rows = label_rows(model, writer.prompt(row, found[:shots]))
        longest = max(len(each.ids) for each in rows)
        if longest <= model.context:
            return rows, shots
    raise InputError(
        f"{row.place}: is {longest} tokens in the prompt of task {task.card.name}, without demonstrations; the context "
        f"of {model.engine.subject} is {model.context}; shorten the row, or choose a model with a longer context"
    )


def answer_task(model: ForwardModel, task: Task) -> TaskScores:
    """Answer every row of a task.

    Raises:
        InputError: a row that does not fit the model's context.
    """
    begun = time.monotonic()
    prompts = [prompt_rows(model, task, row, found) for row, found in zip(task.rows, task.demonstrations, strict=True)]
    # What begins in the same way follows each other: the scorer computes only what differs.
    order = sorted(range(len(prompts)), key=lambda place: list(prompts[place][0][0].ids))
    scored = label_scores(model, [prompts[place][0] for place in order], task.rule)
    by_place = dict(zip(order, scored, strict=True))
    return TaskScores(
        [by_place[place] for place in range(len(prompts))],
        [shots for _, shots in prompts],
        time.monotonic() - begun,
    )


def task_measured(task: Task, scored: TaskScores) -> PartResult:
    """How good the answers are, and the answers by row: place in the split, label, answer, scores, shots, and the vote
    of the demonstrations' labels. Rates are percentages.

    The details of the row: `right` of the test rows, of which `of` exist; `floor`: the accuracy of the vote, None for
    fixed demonstrations; `most_frequent`: of always answering the test rows' most frequent label; `in_training`: test
    rows that are among the demonstrations' split, word for word; `shortened`: rows whose prompt did not fit the context
    with all demonstrations, `dropped` demonstrations in all; `answers`: how often each label was the answer; `seconds`
    that the model took.
    """
    labels = task.card.labels
    gold = [row.label for row in task.rows]
    answers = [labels[scores.best] for scores in scored.scores]
    right = sum(map(str.__eq__, answers, gold))
    left_out = [len(shown) - shots for shown, shots in zip(task.demonstrations, scored.shots, strict=True)]
    votes = [vote(shown) for shown in task.demonstrations]
    accuracy, *others = numbers(
        {"accuracy": 100 * right / len(gold)}
        | ({"macro_f1": _macro_f1(gold, answers, labels)} if task.card.metric == "macro_f1" else {}),
        len(gold),
        task=task.card.name,
        variant=task.variant,
        rule=task.rule,
        shots=task.shots,
        retriever=task.retriever,
        of=task.of,
        right=right,
        floor=_share(votes, gold) if task.retriever and task.shots else None,
        most_frequent=100 * Counter(gold).most_common(1)[0][1] / len(gold),
        in_training=task.in_training,
        shortened=sum(count > 0 for count in left_out),
        dropped=sum(left_out),
        answers={label: answers.count(label) for label in labels},
        seconds=round(scored.seconds, 2),
    )
    accuracy.interval = wilson_interval(right, len(gold))
    columns: dict[str, Sequence[Any]] = {
        "id": task.places,
        "label": gold,
        "answer": answers,
        "scores": [[round(value, 6) for value in scores.values] for scores in scored.scores],
        "shots": scored.shots,
        "vote": votes,
    }
    return PartResult([accuracy, *others], columns)


def _macro_f1(gold: Sequence[str], answers: Sequence[str], labels: Sequence[str]) -> float:
    """The unweighted mean over labels of 2 TP / (2 TP + FP + FN), in percent; 0 for a label that neither side has."""
    from sklearn.metrics import f1_score

    return 100 * float(f1_score(gold, answers, labels=labels, average="macro", zero_division=0))


def _share(given: Sequence[str | None], gold: Sequence[str]) -> float:
    return 100 * sum(one == other for one, other in zip(given, gold, strict=True)) / len(gold)
