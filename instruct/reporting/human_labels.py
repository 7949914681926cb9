"""People's labels on some of a run's pairs: kept in the run, and combined with the judge's verdicts on all pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from instruct.analysis.prediction_powered import LEAST_ON_A_SIDE, prediction_powered
from instruct.analysis.results import PredictionPowered
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.judging.interchange.labels import Labels, read_labels
from instruct.judging.store import open_store
from instruct.reporting.comparison import Outcomes
from instruct.run.directory import RunDirectory


def keep_labels(run: RunDirectory, path: str | Path) -> None:
    """Copy a file of labels into the run, whose reports then use it; an earlier file is replaced.

    Raises:
        InputError: an invalid file, or no label is on a pair that was judged in this run.
    """
    path = Path(path).expanduser()
    labels = read_labels(path)
    with open_store(run, migrate=False) as store:
        judged = {each: {judgment.instruction for judgment in store.judgments(each)} for each in store.comparisons()}
    if not any(labels.of(each.candidate, each.baseline).keys() & pairs for each, pairs in judged.items()):
        names = dict.fromkeys(
            f"{one_line(each.candidate, 40)} against {one_line(each.baseline, 40)}" for each in judged
        )
        raise InputError(
            f"{path}: no label is on a judged pair of {run.folder} ({', '.join(names)}); draw the pairs to label with "
            f"`instruct sample {run.folder}`"
        )
    if path.resolve() != run.labels.resolve():
        write_atomically(run.labels, path.read_text(encoding="utf-8"))


def with_labels(outcomes: Outcomes, labels: Labels) -> tuple[PredictionPowered | None, list[str]]:
    """The win rate as people would see it, under the leading policy, and warnings about the labels.

    A pair whose reply could not be read counts as a tie of the judge's: any guess is valid, a good one is precise.
    """
    _, candidate, baseline = outcomes.judged.key
    given = labels.of(candidate, baseline)
    if not given:
        return None, []
    if any(pair.conversation for pair in outcomes.pairs):
        return None, ["the labels are not combined with the verdicts, because pairs are turns of one conversation"]
    verdicts = {pair: 0.5 if score is None else score for pair, score in outcomes.scores(outcomes.leading).items()}
    labeled = [pair for pair in verdicts if pair in given]
    rest = np.array([score for pair, score in verdicts.items() if pair not in given])
    warnings = []
    if unknown := len(given) - len(labeled):
        warnings.append(f"not counted: {counted(unknown, 'label')} on pairs without a verdict")
    if len(labeled) < 2 or not len(rest):
        why = "all pairs are labeled" if not len(rest) else "fewer than two labels are on judged pairs"
        return None, [*warnings, f"the labels cannot be combined with the verdicts: {why}"]
    points = sum(given[pair] for pair in labeled)
    if (fewer := min(points, len(labeled) - points)) < LEAST_ON_A_SIDE:
        warnings.append(
            f"only {fewer:g} of {counted(len(labeled), 'label')} for the side that has fewer: the interval of the win "
            f"rate with labels may be too narrow; label until there are {LEAST_ON_A_SIDE}"
        )
    found = prediction_powered(
        np.array([given[pair] for pair in labeled]), np.array([verdicts[pair] for pair in labeled]), rest
    )
    return found, warnings
