"""This project's own JSON lines: verdicts with the completions that they were read from, and people's labels."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from instruct.analysis.outcomes import leading_policy, results_by_policy
from instruct.base.cards import validated
from instruct.base.errors import InputError, one_line
from instruct.base.files import write_atomically
from instruct.base.replies import Completion
from instruct.data.formats import check_storable
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import ComparisonKey, file_name
from instruct.judging.store import VALUES, Judgment, JudgmentStore, verdict_problem

_MOST = 2**63 - 1  # of an integer in the store


@dataclass(frozen=True)
class Contents:
    """What a file of verdicts holds: the verdicts; by judge and key, the replies that they were read from; and answers.

    The `answers` are by system, if the file has them.
    """

    judgments: list[Judgment]
    replies: dict[str, dict[str, Completion]]
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def comparisons(self) -> list[ComparisonKey]:
        """The comparisons, in the order of the file."""
        return list(dict.fromkeys(judgment.comparison for judgment in self.judgments))

    def named(self, path: Path, how: str = "in the file") -> Contents:
        """With the systems' names as those of their files; `path` is the file that they come from.

        Args:
            how: a system can be given another name, for errors.

        Raises:
            InputError: a name that cannot be a file's, or one name for two systems.
        """
        names = dict.fromkeys(name for comparison in self.comparisons for name in comparison[1:])
        try:
            files = {name: file_name(name) for name in names}
        except InputError as error:
            raise InputError(f"{path}: {error} {how}") from None
        if len(set(files.values())) < len(files):
            one, *_ = (name for name, count in Counter(files.values()).items() if count > 1)
            raise InputError(f"{path}: two systems would be called {one_line(one, 60)!r}; rename one of them")
        judgments = [replace(j, candidate=files[j.candidate], baseline=files[j.baseline]) for j in self.judgments]
        answers = {
            files[name]: [row | {"generator": files[name]} for row in rows] for name, rows in self.answers.items()
        }
        return Contents(judgments, self.replies, answers)

    def check_same(self, path: Path, store: JudgmentStore) -> None:
        """Refuse to mix or overwrite verdicts on the same comparison; `path` is the file that these come from.

        Raises:
            InputError: the store has different verdicts on a comparison.
        """
        for comparison in self.comparisons:
            stored = set(store.judgments(comparison))
            if stored and stored != {judged for judged in self.judgments if judged.comparison == comparison}:
                judge, candidate, baseline = (one_line(name, 60) for name in comparison)
                raise InputError(
                    f"{path}: {store.path} has different verdicts of {judge} on {candidate} vs. {baseline}; "
                    "import into another run"
                )

    def store_in(self, store: JudgmentStore) -> None:
        """Add the replies and the verdicts to a store."""
        for judge, replies in self.replies.items():
            store.add_replies(judge, [(key, reply, 0.0) for key, reply in replies.items()])
        store.add_judgments(self.judgments)


class Line(BaseModel):
    """A judgment, and the completions that it was read from, by key; `id` identifies its pair.

    The `id` is needed if a comparison has several pairs with one instruction.
    """

    model_config = ConfigDict(extra="forbid")

    id: str | int | None = None
    judgment: Judgment
    completions: dict[str, Completion]


def export_jsonl(store: JudgmentStore, path: str | Path, judge: str | None = None) -> int:
    """Write all judgments, or one judge's, one per line; returns their number.

    Raises:
        InputError: there are none.
    """
    lines = []
    for comparison in store.comparisons():
        if judge in (None, comparison.judge):
            judgments = store.judgments(comparison)
            completions = store.completions(key for judgment in judgments for key in judgment.key.split())
            for judgment in judgments:
                replies = {key: completions[key].record() for key in judgment.key.split() if key in completions}
                lines.append(json.dumps({"judgment": vars(judgment), "completions": replies}) + "\n")
    if not lines:
        raise InputError(f"{store.path}: has no verdicts{f' of {one_line(judge, 60)}' if judge else ''}; judge first")
    write_atomically(Path(path), "".join(lines))
    return len(lines)


def read_lines(path: Path) -> Contents:
    """The verdicts of a file. Where the instruction of several pairs is the same, the `id` stands in its place.

    Raises:
        InputError: an invalid line (file, row and field), or two lines on the same pair and order.
    """
    rows = list(read_file(path))
    lines = [_line(row) for row in rows]
    shown = Counter((*line.judgment.comparison, line.judgment.instruction, line.judgment.position) for line in lines)
    repeated = {place[:-1] for place, count in shown.items() if count > 1}
    taken: dict[tuple[str, ...], RawRow] = {}
    contents = Contents([], {})
    for row, line in zip(rows, lines, strict=True):
        judgment, where = line.judgment, "judgment.instruction"
        if line.id is not None and (*judgment.comparison, judgment.instruction) in repeated:
            judgment, where = replace(judgment, instruction=str(line.id)), "id"
        earlier = taken.setdefault((*judgment.comparison, judgment.instruction, judgment.position), row)
        if earlier is not row:
            raise InputError(
                f"{row.place}: {where}: {one_line(judgment.instruction, 60)!r} in the order {judgment.position} is "
                f"already in row {earlier.row}; give each of these pairs an `id` of its own, or remove one of the lines"
            )
        contents.judgments.append(judgment)
        contents.replies.setdefault(judgment.judge, {}).update(line.completions)
    return contents


def _line(row: RawRow) -> Line:
    check_storable(row, "line", row.fields)
    line = validated(Line, row.fields, row.place)
    if problem := _problem_of(line):
        raise InputError(f"{row.place}: {problem}")
    return line


def _problem_of(line: Line) -> str | None:
    """What is wrong with a line whose fields have the right types."""
    judgment = line.judgment
    for name, known in VALUES.items():
        if getattr(judgment, name) not in known:
            return f"judgment.{name}: must be one of {', '.join(known)}"
    for name in ("judge", "candidate", "baseline", "instruction"):
        if not getattr(judgment, name).strip():
            return f"judgment.{name}: is empty; write it"
    if not 0 <= judgment.pair <= _MOST:
        return "judgment.pair: must be the pair's number, from 0"
    if problem := verdict_problem(judgment):
        return f"judgment.{problem}"
    if judgment.candidate == judgment.baseline and judgment.verdict in ("first", "second"):
        return (
            f"judgment: candidate and baseline are both {one_line(judgment.candidate, 60)!r}, and one of them is "
            "preferred; give the systems different names"
        )
    for key, reply in line.completions.items():
        for name in ("prompt_tokens", "completion_tokens"):
            count = getattr(reply, name)
            if count is not None and not 0 <= count <= _MOST:
                return f"completions.{one_line(key, 40)}.{name}: must be a number of tokens"
    return None


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

    `by`: who made them, people or a judge, by its name.
    """

    scores: dict[tuple[str, str], dict[str, float]]
    by: str = "people"

    def of(self, candidate: str, baseline: str) -> dict[str, float]:
        """The candidate's scores, whichever side the labels call the candidate."""
        swapped = {pair: 1 - score for pair, score in self.scores.get((baseline, candidate), {}).items()}
        return swapped | self.scores.get((candidate, baseline), {})


def read_labels(path: Path) -> LabelScores:
    """The labels in a JSON lines file, from the labeling form or from a stronger judge.

    Rows are labels (see `Label`), or verdicts from `instruct export --format jsonl`; the latter count under the strict
    policy if pairs were shown in both orders.

    Raises:
        InputError: an invalid row (file, row and field), or a pair that the same annotator labeled twice.
    """
    rows = list(read_file(path))
    if "judgment" in rows[0].fields:
        return _labels_of_a_judge(path, read_lines(path).judgments)
    scores: dict[tuple[str, str], dict[str, list[float]]] = {}
    seen: dict[tuple[str, str, str, str], RawRow] = {}
    for row in rows:
        label = validated(Label, row.fields, row.place)
        earlier = seen.setdefault((label.candidate, label.baseline, label.instruction, label.annotator), row)
        if earlier is not row:
            raise InputError(
                f"{row.place}: {one_line(label.instruction, 60)!r} is already labeled in row {earlier.row}; remove one "
                "of them, or give each its annotator"
            )
        pairs = scores.setdefault((file_name(label.candidate), file_name(label.baseline)), {})
        pairs.setdefault(label.instruction, []).append(_SCORES[label.label])
    return LabelScores(
        {names: {pair: sum(all_) / len(all_) for pair, all_ in pairs.items()} for names, pairs in scores.items()}
    )


def _labels_of_a_judge(path: Path, judgments: Sequence[Judgment]) -> LabelScores:
    judges = sorted({judgment.judge for judgment in judgments})
    if len(judges) > 1:
        names_of = ", ".join(one_line(judge, 40) for judge in judges)
        raise InputError(f"{path}: has verdicts of several judges ({names_of}); export only one, with `judge`")
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for comparison in dict.fromkeys(judgment.comparison for judgment in judgments):
        by_policy = results_by_policy([judged for judged in judgments if judged.comparison == comparison])
        results = by_policy[leading_policy(by_policy, "strict")]
        scores[comparison[1:]] = {result.instruction: result.score for result in results if result.score is not None}
    return LabelScores(scores, judges[0])
