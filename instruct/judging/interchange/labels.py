"""People's labels on a run's pairs: JSON lines from the labeling form, or the exported verdicts of a stronger judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from instruct.analysis.outcomes import leading_policy, results_by_policy
from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.data.sources import RawRow, read_file
from instruct.judging.interchange.json_lines import read_lines
from instruct.judging.store import Judgment

_SCORES = {"candidate": 1.0, "tie": 0.5, "baseline": 0.0}


class Label(BaseModel):
    """One person's label of one pair.

    `instruction` identifies the pair (its `id`, if the answers have ids); `label` says which answer is better.
    """

    model_config = ConfigDict(extra="forbid")

    candidate: str
    baseline: str
    instruction: str
    label: Literal["candidate", "tie", "baseline"]
    annotator: str = ""


@dataclass(frozen=True)
class Labels:
    """Labels by the comparison (candidate, baseline) and by pair: the mean score of those who labeled it, 0 to 1.

    `by`: who made them, people or a judge, by its name.
    """

    scores: dict[tuple[str, str], dict[str, float]]
    by: str = "people"

    def of(self, candidate: str, baseline: str) -> dict[str, float]:
        """The candidate's scores, whichever side the labels call the candidate."""
        swapped = {pair: 1 - score for pair, score in self.scores.get((baseline, candidate), {}).items()}
        return swapped | self.scores.get((candidate, baseline), {})


def read_labels(path: Path) -> Labels:
    """The labels in a JSON lines file.

    Rows are labels (see `Label`), or verdicts from `instruct export --format jsonl`; the latter count under the strict
    policy if pairs were shown in both orders.

    Raises:
        InputError: an invalid row (file, row and field), or a pair that the same annotator labeled twice.
    """
    rows = list(read_file(path))
    if "judgment" in rows[0].fields:
        return _verdicts(path, [line.judgment for line in read_lines(path)])
    given: dict[tuple[str, str], dict[str, list[float]]] = {}
    seen: dict[tuple[str, str, str, str], RawRow] = {}
    for row in rows:
        label = validated(Label, row.fields, row.place)
        earlier = seen.setdefault((label.candidate, label.baseline, label.instruction, label.annotator), row)
        if earlier is not row:
            raise InputError(
                f"{row.place}: {one_line(label.instruction, 60)!r} is already labeled in row {earlier.row}; remove one "
                "of them, or give each its annotator"
            )
        pairs = given.setdefault((label.candidate, label.baseline), {})
        pairs.setdefault(label.instruction, []).append(_SCORES[label.label])
    return Labels(
        {names: {pair: sum(all_) / len(all_) for pair, all_ in pairs.items()} for names, pairs in given.items()}
    )


def _verdicts(path: Path, judgments: Sequence[Judgment]) -> Labels:
    found: dict[tuple[str, str], dict[str, float]] = {}
    judges = sorted({judgment.judge for judgment in judgments})
    if len(judges) > 1:
        names_of = ", ".join(one_line(judge, 40) for judge in judges)
        raise InputError(f"{path}: has verdicts of several judges ({names_of}); export only one, with --judge")
    for names in dict.fromkeys((judgment.candidate, judgment.baseline) for judgment in judgments):
        by_policy = results_by_policy([each for each in judgments if (each.candidate, each.baseline) == names])
        results = by_policy[leading_policy(by_policy, "strict")]
        found[names] = {each.instruction: each.score for each in results if each.score is not None}
    return Labels(found, judges[0])
