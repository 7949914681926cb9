"""People's labels on some of a run's pairs: kept in the run, compared and combined with the judge's verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from instruct.analysis.agreement import kappa, kappa_interval
from instruct.analysis.inference import clustered_interval, share
from instruct.analysis.outcomes import outcome_of_score
from instruct.analysis.panel import READABLE
from instruct.analysis.prediction_powered import LEAST_ON_A_SIDE, prediction_powered
from instruct.analysis.results import PredictionPowered
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.judging.human_agreement import HumanAgreement, set_words
from instruct.judging.interchange.json_lines import LabelScores, read_labels
from instruct.judging.store import open_store
from instruct.reporting.model import JudgeReport
from instruct.reporting.read import Judged
from instruct.run.directory import RunDirectory

# The name of the set under `human_agreement`, next to those of the judge's card.
THIS_RUN = "this run's labels"


def keep_labels(run: RunDirectory, path: str | Path) -> None:
    """Copy a file of labels into the run, whose reports then use it; an earlier file is replaced.

    Raises:
        InputError: an invalid file, or no label is on a pair that was judged in this run.
    """
    path = Path(path).expanduser()
    labels = read_labels(path)
    with open_store(run) as store:
        judged = {key: {judgment.instruction for judgment in store.judgments(key)} for key in store.comparisons()}
    if not any(labels.of(key.candidate, key.baseline).keys() & pairs for key, pairs in judged.items()):
        names = dict.fromkeys(f"{one_line(key.candidate, 40)} against {one_line(key.baseline, 40)}" for key in judged)
        raise InputError(
            f"{path}: no label is on a judged pair of {run.folder} ({', '.join(names)}); draw the pairs to label with "
            f"`instruct sample {run.folder}`"
        )
    if path.resolve() != run.labels.resolve():
        write_atomically(run.labels, path.read_text(encoding="utf-8"))


def with_labels(judged: Judged, labels: LabelScores | None) -> tuple[PredictionPowered | None, list[str]]:
    """The win rate as people would see it, under the leading policy, and warnings about the labels.

    A pair whose reply could not be read counts as a tie of the judge's: any guess is valid, a good one is precise.
    """
    labels_by_pair = labels.of(judged.key.candidate, judged.key.baseline) if labels else {}
    if not labels_by_pair:
        return None, []
    if any(pair.conversation for pair in judged.pairs):
        return None, ["the labels are not combined with the verdicts, because pairs are turns of one conversation"]
    verdicts = {pair: 0.5 if score is None else score for pair, score in judged.scores().items()}
    labeled = [pair for pair in verdicts if pair in labels_by_pair]
    people, by_judge = (np.array([scores[pair] for pair in labeled]) for scores in (labels_by_pair, verdicts))
    rest = np.array([score for pair, score in verdicts.items() if pair not in labels_by_pair])
    warnings = []
    if unknown := len(labels_by_pair) - len(labeled):
        warnings.append(f"not counted: {counted(unknown, 'label')} on pairs without a verdict")
    if len(labeled) < 2 or not len(rest):
        why = "all pairs are labeled" if not len(rest) else "fewer than two labels are on judged pairs"
        return None, [*warnings, f"the labels cannot be combined with the verdicts: {why}"]
    points = people.sum()
    if (fewer := min(points, len(labeled) - points)) < LEAST_ON_A_SIDE:
        warnings.append(
            f"only {fewer:g} of {counted(len(labeled), 'label')} for the side that has fewer: the interval of the win "
            f"rate with labels may be too narrow; label until there are {LEAST_ON_A_SIDE}"
        )
    return prediction_powered(people, by_judge, rest, **judged.key._asdict(), policy=judged.leading), warnings


def add_label_agreement(judge: JudgeReport, comparisons: Iterable[Judged], labels: LabelScores | None) -> None:
    """Put the judge's agreement with the run's labels into its report; nothing without labels by people.

    Each pair counts under the leading policy. Several people's labels of a pair are a win if their mean is above 1/2.
    """
    if labels is None or labels.by != "people":
        return
    said = [
        (pair, outcome_of_score(score))
        for judged in comparisons
        for pair in judged.pairs
        if (score := labels.of(judged.key.candidate, judged.key.baseline).get(pair.instruction)) is not None
    ]
    if not said:
        return
    # As in `instruct validate`: a missing verdict is wrong, and a class of its own.
    classes = [*READABLE, "none"]
    tables = np.zeros((len(said), len(classes), len(classes)))
    for table, (pair, label) in zip(tables, said, strict=True):
        table[classes.index(label), classes.index(pair.outcome if pair.outcome in READABLE else "none")] = 1
    clusters = np.unique([pair.unit for pair, _ in said], return_inverse=True)[1]
    right = np.stack([np.trace(tables, axis1=1, axis2=2), np.ones(len(said))], axis=1)
    measured: HumanAgreement = {"pairs": len(said), "accuracy": round(100 * float(right[:, 0].mean()), 2)}
    if interval := clustered_interval(share, right, clusters):
        measured["accuracy_interval"] = (round(interval[0], 2), round(interval[1], 2))
    if math.isfinite(value := float(kappa(tables.sum(axis=0)))):
        measured["kappa"] = round(value, 4)
        if interval := kappa_interval(tables, clusters):
            measured["kappa_interval"] = (round(interval[0], 4), round(interval[1], 4))
    words = set_words(THIS_RUN, measured)
    judge.agreement = f"{judge.agreement}; {words}" if judge.human_agreement else words
    judge.human_agreement = {**(judge.human_agreement or {}), THIS_RUN: measured}
