"""How good a system's answers to a few-shot task are, and the answers by row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from instruct.analysis.inference import wilson_interval
from instruct.run.measurements import PartResult, numbers

if TYPE_CHECKING:
    from instruct.measuring.tasks.few_shot import FewShot


def label_result(task: FewShot, samples: Sequence[Mapping[str, Any]]) -> PartResult:
    """The accuracy; by row its place in the split, label, answer, scores, shots, and the vote of the demonstrations'
    labels. Rates are percentages.

    The details: `right` of the test rows, of which `of` exist; `floor`: the accuracy of the vote, None for fixed
    demonstrations; `most_frequent`: of always answering the test rows' most frequent label; `in_training`: test rows
    that are among the demonstrations' split, word for word; `shortened`: rows whose prompt did not fit the context with
    all demonstrations, `dropped` demonstrations in all; `answers`: how often each label was the answer.

    Args:
        samples: lm-eval's, in order.
    """
    names = [str(choice).strip(" .") for choice in task.config.doc_to_choice]
    gold = [int(sample["target"]) for sample in samples]
    scores = [[float(score) for score, _ in sample["filtered_resps"]] for sample in samples]
    answers = [values.index(max(values)) for values in scores]
    shots = [task.shots[sample["arguments"][0][0]] for sample in samples]
    wanted = task.config.num_fewshot
    votes = [task.vote(sample["doc"], wanted) for sample in samples]
    right, count = sum(map(int.__eq__, answers, gold)), len(gold)
    figures = {"accuracy": 100 * right / count}
    if task.about.macro_f1:
        from sklearn.metrics import f1_score

        labels = list(range(len(names)))
        figures["macro_f1"] = 100 * float(f1_score(gold, answers, labels=labels, average="macro", zero_division=0))
    accuracy, *others = numbers(
        figures,
        count,
        task=task.config.task,
        variant=task.about.variant if task.about.variant in task.about.variants else None,
        rule=task.about.rule,
        shots=wanted,
        retriever=task.about.retriever if task.about.nearest_by else None,
        of=len(task.eval_docs),
        right=right,
        floor=100 * sum(vote == label for vote, label in zip(votes, gold, strict=True)) / count
        if None not in votes
        else None,
        most_frequent=100 * Counter(gold).most_common(1)[0][1] / count,
        in_training=task.in_training([sample["doc"] for sample in samples]),
        shortened=sum(number < wanted for number in shots),
        dropped=sum(wanted - number for number in shots),
        answers={name: answers.count(place) for place, name in enumerate(names)},
    )
    accuracy.interval = wilson_interval(right, count)
    columns: dict[str, Sequence[Any]] = {
        "id": [sample["doc_id"] for sample in samples],
        "label": [names[label] for label in gold],
        "answer": [names[label] for label in answers],
        "scores": [[round(value, 6) for value in values] for values in scores],
        "shots": shots,
        "vote": [None if label is None else names[label] for label in votes],
    }
    return PartResult([accuracy, *others], columns)
