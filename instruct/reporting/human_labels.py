"""People's labels on some of a run's pairs: kept in the run, compared and combined with the judge's verdicts."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from instruct.analysis.agreement import READABLE, accuracy, defined, kappa, kappa_interval, tables
from instruct.analysis.clusters import numbered
from instruct.analysis.inference import mean_score
from instruct.analysis.outcomes import outcome_of_score, weighted_scores
from instruct.analysis.results import PredictionPowered
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.data.formats import text_field
from instruct.data.prompts import identity, request_of
from instruct.data.sources import RawRow, read_file
from instruct.judging.human_agreement import rounded_figures, set_words
from instruct.judging.interchange.exchange import answers_in
from instruct.judging.interchange.labels import LabelScores, labels_of
from instruct.judging.judge import read_answers
from instruct.judging.presentations import joined
from instruct.judging.store import JudgmentStore
from instruct.reporting.exports import harmless
from instruct.reporting.model import JudgeReport
from instruct.reporting.read import Judged
from instruct.run.directory import RunDirectory
from instruct.scores.prediction_powered import LEAST_ON_A_SIDE, prediction_powered

# The name of the set under `human_agreement`, next to those of the judge's card.
THIS_RUN = "this run's labels"


def write_sample(run: RunDirectory, candidate: str, baseline: str, count: int, path: Path) -> int:
    """Write a CSV of `count` pairs drawn at random for people to label; returns how many pairs of the run were drawn.

    The column `label` is to be filled with 1, 2 or tie. The answers' systems are not named, and each pair's order is
    random. A larger count draws the same pairs and more. Pairs with identical answers are labeled as ties.

    Raises:
        InputError: missing answers, different prompts, or a count below 1.
    """
    if count < 1:
        raise InputError(f"`sample` {count}: must be at least 1")
    ours, theirs = read_answers(run, candidate), read_answers(run, baseline)
    pairs = {
        identity(row): (row, other)
        for row, other in joined(ours, theirs)
        if not (row.get("failed") or other.get("failed"))
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_SAMPLE)
    drawn = random_order(pairs)[:count]
    for pair in drawn:
        row, other = pairs[pair]
        answers = [other["output"], row["output"]] if _baseline_is_first(pair) else [row["output"], other["output"]]
        label = "tie" if answers[0] == answers[1] else ""
        shown = map(harmless, (request_of(row), *answers))
        writer.writerow([_code(pair), harmless(ours.name), harmless(theirs.name), *shown, label])
    write_atomically(path, text.getvalue())
    return len(drawn)


# The columns of a sample; the pair's code does not change in a spreadsheet, as its text may.
_SAMPLE = ("pair", "candidate", "baseline", "prompt", "answer_1", "answer_2", "label")


def random_order(pairs: Iterable[str]) -> list[str]:
    """The pairs by a hash: the same order, whatever order they came in."""
    return sorted(pairs, key=lambda pair: hashlib.sha256(f"0 {pair}".encode()).digest())


def _code(pair: str) -> str:
    return "p" + hashlib.sha256(pair.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _baseline_is_first(pair: str) -> bool:
    return random.Random(f"side {pair}").random() < 0.5


def keep_labels(run: RunDirectory, path: str | Path) -> None:
    """Keep the labels of a file, a sample or rows of `Label`, in the run, whose reports then use them in place of
    earlier ones.

    Raises:
        InputError: an invalid file, or no label is on a pair that was judged in this run.
    """
    path = Path(path).expanduser()
    rows = list(read_file(path))
    if "answer_1" in rows[0].fields:
        rows = _labels_of_sample(run, rows)
    labels = labels_of(rows)
    with JudgmentStore(run.store) as store:
        judged = {key: {judgment.instruction for judgment in store.judgments(key)} for key in store.comparisons()}
    if not any(labels.of(key.candidate, key.baseline).keys() & pairs for key, pairs in judged.items()):
        names = dict.fromkeys(f"{one_line(key.candidate, 40)} against {one_line(key.baseline, 40)}" for key in judged)
        raise InputError(
            f"{path}: no label is on a judged pair of {run.folder} ({', '.join(names)}); draw the pairs to label with "
            "`instruct validate` (`against`, `sample`)"
        )
    write_atomically(run.labels, "".join(json.dumps(row.fields) + "\n" for row in rows))


def _labels_of_sample(run: RunDirectory, rows: Iterable[RawRow]) -> list[RawRow]:
    """The labels of a sample as rows of `Label`; rows without one are left out.

    Raises:
        InputError: a label that is not 1, 2 or tie, or a pair that the run does not have.
    """
    pairs: dict[str, dict[str, str]] = {}
    labels = []
    for row in rows:
        names = {side: text_field(row, side).removeprefix("'") for side in ("candidate", "baseline")}
        label = str(row.fields.get("label") or "").strip().lower()
        if not label:
            continue
        if label not in ("1", "2", "tie"):
            raise InputError(f"{row.place}: label: is {one_line(label, 40)!r}; write 1, 2 or tie, or leave it empty")
        if names["candidate"] not in pairs:
            answers = answers_in(run, names["candidate"])
            pairs[names["candidate"]] = {_code(name): name for name in map(identity, answers)}
        pair = pairs[names["candidate"]].get(text_field(row, "pair"))
        if pair is None:
            raise InputError(f"{row.place}: pair: is none of {run.folder}; draw the pairs again")
        first, second = ("baseline", "candidate") if _baseline_is_first(pair) else ("candidate", "baseline")
        preferred = {"1": first, "2": second, "tie": "tie"}[label]
        by = {"annotator": str(row.fields["annotator"])} if row.fields.get("annotator") else {}
        labels.append(replace(row, fields={**names, "instruction": pair, "label": preferred, **by}))
    return labels


def with_labels(judged: Judged, labels: LabelScores | None) -> tuple[PredictionPowered | None, list[str]]:
    """The win rate as people would see it, by labels on some pairs or on all, under the leading policy, and warnings
    about the labels.

    A pair whose reply could not be read counts as a tie of the judge's: any guess is valid, a good one is precise.
    """
    labels_by_pair = labels.of(judged.key.candidate, judged.key.baseline) if labels else {}
    if not labels_by_pair:
        return None, []
    if any(pair.conversation for pair in judged.pairs):
        return None, ["the labels are not combined with the verdicts, because pairs are turns of one conversation"]
    scores = np.nan_to_num(weighted_scores(judged.pairs), nan=0.5).tolist()
    verdicts = dict(zip((pair.instruction for pair in judged.pairs), scores, strict=True))
    labeled = [pair for pair in verdicts if pair in labels_by_pair]
    people, by_judge = (np.array([scores[pair] for pair in labeled]) for scores in (labels_by_pair, verdicts))
    rest = np.array([score for pair, score in verdicts.items() if pair not in labels_by_pair])
    warnings = []
    if unknown := len(labels_by_pair) - len(labeled):
        warnings.append(f"not counted: {counted(unknown, 'label')} on pairs without a verdict")
    if len(labeled) < 2:
        return None, [*warnings, "the labels cannot be combined with the verdicts: fewer than two are on judged pairs"]
    fewer = min(int((people > 0.5).sum()), int((people < 0.5).sum()))
    if len(rest) and fewer < LEAST_ON_A_SIDE:
        warnings.append(
            f"only {fewer} of {counted(len(labeled), 'label')} for the side that has fewer: too few for a finding; "
            f"label until there are {LEAST_ON_A_SIDE}"
        )
    return prediction_powered(people, by_judge, rest, **judged.key._asdict(), policy=judged.leading), warnings


def add_label_agreement(judge: JudgeReport, comparisons: Iterable[Judged], labels: LabelScores | None) -> None:
    """Put the judge's agreement with the run's labels into its report; nothing without labels.

    Each pair counts under the leading policy. Several people's labels of a pair are a win if their mean is above 1/2.
    """
    if labels is None:
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
    verdicts = [pair.outcome if pair.outcome in READABLE else "none" for pair, _ in said]
    of_pairs = tables([label for _, label in said], verdicts, (*READABLE, "none"))
    clusters = numbered(pair.unit for pair, _ in said)
    alike = np.trace(of_pairs, axis1=1, axis2=2).astype(float)
    measured = rounded_figures(
        {
            "pairs": len(said),
            "accuracy": 100 * float(accuracy(of_pairs.sum(axis=0))),
            "accuracy_interval": mean_score(alike[None], clusters).interval,
            "kappa": defined(kappa(of_pairs.sum(axis=0))),
            "kappa_interval": kappa_interval(of_pairs, clusters),
        }
    )
    words = set_words(THIS_RUN, measured)
    judge.agreement = f"{judge.agreement}; {words}" if judge.human_agreement else words
    judge.human_agreement = {**(judge.human_agreement or {}), THIS_RUN: measured}
