"""People's labels of pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import file_name

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
class LabelScores:
    """Labels by the comparison (candidate, baseline) and by pair: the mean score of those who labeled it, 0 to 1.

    Two systems have one comparison, that of the first row, whichever side later rows call the candidate.
    """

    scores: dict[tuple[str, str], dict[str, float]]

    def of(self, candidate: str, baseline: str) -> dict[str, float]:
        """The candidate's scores, whichever side the labels call the candidate."""
        swapped = {pair: 1 - score for pair, score in self.scores.get((baseline, candidate), {}).items()}
        return swapped | self.scores.get((candidate, baseline), {})


def read_labels(path: Path) -> LabelScores:
    """The labels in a file; raises as `labels_of`."""
    return labels_of(read_file(path))


def labels_of(rows: Iterable[RawRow]) -> LabelScores:
    """The labels in rows, see `Label`.

    Raises:
        InputError: an invalid row (file, row and field), or a pair that the same annotator labeled twice.
    """
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    seen: dict[tuple[str, str, str, str], RawRow] = {}
    for row in rows:
        label = validated(Label, row.fields, row.place)
        try:
            names = file_name(label.candidate), file_name(label.baseline)
        except InputError as error:
            raise InputError(f"{row.place}: {error}") from None
        score = _SCORES[label.label]
        if names not in scores and names[::-1] in scores:
            names, score = names[::-1], 1 - score
        earlier = seen.setdefault((*names, label.instruction, label.annotator), row)
        if earlier is not row:
            raise InputError(
                f"{row.place}: {one_line(label.instruction, 60)!r} is already labeled in row {earlier.row}; remove one "
                "of them, or give each its annotator"
            )
        scores.setdefault(names, {}).setdefault(label.instruction, []).append(score)
    return LabelScores(
        {names: {pair: sum(all_) / len(all_) for pair, all_ in pairs.items()} for names, pairs in scores.items()}
    )
