"""Verdicts on a set: those made elsewhere are matched with its pairs, and all are written to verdicts.jsonl."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import EXCHANGED, Margins, outcome_of, results_by_policy
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.annotation_files import annotations_of
from instruct.judging.interchange.numbered import PANDALM, POSITIONS, TABLE, Order, finite, read_numbered
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.store import Judgment
from instruct.validation.human_sets import HumanPair

# In the first line of verdicts.jsonl, which says what made the verdicts.
MADE_BY = ("judge", "model", "card", "set_sha256")
_RATERS = {"first": "listed", "second": "swapped"}
_ORDERS = {position: order for order, position in POSITIONS.items()}


@dataclass(frozen=True)
class Verdicts:
    """A judge's verdicts on a set: one per pair and order, in which a pair's first answer is the candidate's.

    `judge` and `model` are those that made them, as far as a file says; `card` is the SHA-256 of the judge's card, None
    if the file does not state it; `set_sha256` that of the set. `source` says where the verdicts come from, `notes`
    what has to be said about them. `positions_known`: the verdicts tell which answer was shown first. `tie_margin`: a
    smaller mean of both orders' margins is a tie. `about`: how the verdicts came about, if not by asking the judge of
    the card, such as by cross-validation. `unreadable_are_ties`: the judge's authors count what they could not read as
    a tie.
    """

    verdicts: list[FileVerdict]
    judge: str
    source: str
    notes: list[str] = field(default_factory=list)
    positions_known: bool = True
    model: str | None = None
    card: str | None = None
    set_sha256: str | None = None
    tie_margin: float = 0.0
    about: str | None = None
    unreadable_are_ties: bool = False

    def raters(self) -> dict[str, list[str]]:
        """A verdict on each pair as shown in each order and under the policies for both, of the answers in the set's
        order: `averaged` if every readable verdict has a margin."""
        # The margin stands for the preference or the ratings that it is of.
        judgments = [replace(each.judgment, preference=None, ratings=None) for each in self.verdicts]
        shown = {
            (each.judgment.instruction, each.judgment.position): each.margin
            for each in self.verdicts
            if each.margin is not None
        }
        by_policy = results_by_policy(judgments, margins=Margins(shown, self.tie_margin))
        outcomes: dict[str, list[str]] = {}
        for judgment in judgments:
            outcomes.setdefault(_RATERS[judgment.position], []).append(outcome_of(judgment))
        for policy in ("strict", "averaged"):
            if policy in by_policy:
                outcomes[policy] = [result.outcome for result in by_policy[policy]]
        sides = {"win": "first", "loss": "second"}
        return {name: [sides.get(outcome, outcome) for outcome in found] for name, found in outcomes.items()}


def read_published(paths: Sequence[Path], pairs: Sequence[HumanPair], order: Order = "first") -> Verdicts:
    """The verdicts of a file, or of several files of annotations, on the pairs of a set.

    By number, as `read_numbered`; the first line of this project's table may have `judge`, `model`, `card`,
    `set_sha256` and, if the judge of the card was not simply asked, `verdicts`, which says how they came about. Or
    AlpacaEval's annotations, matched by their texts.

    The judge is the one that the file names; otherwise it is called by the file's name.

    Args:
        order: the order in which the answers were shown; this project's table states it itself.

    Raises:
        InputError: as `read_numbered`, or not exactly one verdict per pair.
    """
    path, rows = paths[0], [row for file in paths for row in read_file(file)]
    made = rows.pop(0).fields if rows[0].fields.keys() >= {*MADE_BY} and len(rows) > 1 else {}
    annotated = {"instruction", "preference"} <= rows[0].fields.keys()
    if len(paths) > 1 and not annotated:
        raise InputError(f"{path}: only AlpacaEval's annotations can be replayed from several files; give one file")
    if annotated:
        layout, found = "AlpacaEval's annotations", _matched(rows, pairs, order)
    else:
        layout, found = read_numbered(rows, len(pairs), order)
    found.sort(key=lambda each: (each.judgment.pair, each.judgment.position))
    for count in Counter(each.judgment.position for each in found).values():
        if count != len(pairs):
            raise InputError(
                f"{path}: has {counted(count, 'verdict')}, but the set has {len(pairs)}; give one for each"
            )
    stated = {key: value for key, value in made.items() if isinstance(value, str)}
    judge = stated.get("judge", "") if layout == TABLE else found[0].judgment.judge
    return Verdicts(
        found,
        one_line(judge, 80) if judge.strip() else path.stem,
        f"{path}{f' and {len(paths) - 1} more files' if len(paths) > 1 else ''} (read as {layout})",
        positions_known=not annotated,
        model=stated.get("model"),
        card=stated.get("card"),
        set_sha256=stated.get("set_sha256"),
        tie_margin=finite(made.get("tie_margin", 0.0), rows[0], "tie_margin"),
        about=stated.get("verdicts"),
        unreadable_are_ties=layout == PANDALM,
    )


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write this project's verdicts.jsonl; its first line says what made them, if that is known."""
    made = {name: getattr(verdicts, name) for name in (*MADE_BY, "tie_margin")}
    about = {"verdicts": verdicts.about} if verdicts.about else {}
    rows: list[dict[str, Any]] = [made | about] if verdicts.card else []
    for each in verdicts.verdicts:
        judged = each.judgment
        row: dict[str, Any] = {"pair": judged.pair, "order": _ORDERS[judged.position], "verdict": judged.verdict}
        row |= {"preference": judged.preference, "margin": each.margin}
        for reply in each.replies.values():
            if logprobs := reply.label_logprobs:
                row["label_logprobs"] = {label: round(value, 6) for label, value in logprobs.items()}
        rows.append({name: value for name, value in row.items() if value is not None})
    write_atomically(path, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def _matched(rows: Sequence[RawRow], pairs: Sequence[HumanPair], order: Order) -> list[FileVerdict]:
    """The verdicts of annotations, in the order shown; which answer that was, annotations do not say."""
    # A set may contain a pair several times, also with its answers swapped: its annotations are taken in turn.
    matches: dict[tuple[str, str | None, str | None], list[tuple[int, bool]]] = {}
    for turned in (False, True):
        for index, pair in enumerate(pairs):
            outputs = (pair.second, pair.first) if turned else (pair.first, pair.second)
            matches.setdefault((pair.prompt.request, *outputs), []).append((index, turned))
    judge = rows[0].fields.get("annotator")
    for row in rows:
        if row.fields.get("annotator") != judge:
            raise InputError(f"{row.place}: annotator: is not that of {rows[0].origin}; replay the files of one judge")
    # A set may also ask the same of several models.
    rows = [replace(row, fields=row.fields | {"id": number}) for number, row in enumerate(rows)]
    found: dict[int, FileVerdict] = {}
    for row, each in zip(rows, annotations_of(rows, ComparisonKey(str(judge or ""), "2", "1")), strict=True):
        if each.prompt is None or None in each.answers:
            raise InputError(f"{row.place}: needs instruction, output_1 and output_2 to be matched with the set")
        alike = matches.get((each.prompt.request, *each.answers[::-1]))
        if alike is None:
            raise InputError(
                f"{row.place}: its instruction ({one_line(each.prompt.request, 60)!r}) with these two outputs is not "
                "a pair of the set; give the annotations of this set"
            )
        left = [match for match in alike if match[0] not in found]
        if not left:
            raise InputError(f"{row.place}: its pair already has a verdict; remove one of the annotations")
        # Two models may have given the same answer to a prompt.
        index, turned = min(left, key=lambda match: pairs[match[0]].group != row.fields.get("generator_2"))
        outcome = outcome_of(each.judgment)
        better = {"win": "second", "loss": "first"}.get(outcome, outcome)  # in the set's order
        verdict = EXCHANGED.get(better, better) if turned != (order == "swapped") else better
        about = (each.judgment.judge, "first", "second", index, str(index), "", POSITIONS[order], "")
        found[index] = FileVerdict(Judgment(*about, verdict), row.place)
    return list(found.values())
