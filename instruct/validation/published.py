"""Verdicts on a set, and those made elsewhere: the layouts of PandaLM, Auto-J, AlpacaEval and this project."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from instruct.analysis.outcomes import EXCHANGED, averaged, outcome_of_margin, strict
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import write_atomically
from instruct.data.sources import RawRow, read_file
from instruct.judging.interchange.annotation_files import read_preference
from instruct.judging.store import Verdict
from instruct.validation.human_sets import HumanPair

Order = Literal["first", "swapped"]

# The authors count what they could not read ("garbage") as a tie; here it is unparsed.
_PANDALM = {"0": "tie", "1": "first", "2": "second", "tie": "tie", "garbage": "unparsed"}
_AUTOJ = {"0": "first", "1": "second", "2": "tie", "-1": "unparsed"}
# In the first line of verdicts.jsonl, which says what made the verdicts.
MADE_BY = {"judge", "model", "card", "set_sha256"}
_STATED = {"model": "model", "card": "card", "made_for": "set_sha256", "about": "verdicts"}
_OWN, _ALPACA_EVAL, _PANDALM_LAYOUT = "verdicts by pair index", "AlpacaEval's annotations", "PandaLM's layout"
# The rows of verdicts.jsonl by pair and order.
_Rows = dict[tuple[int, Order], dict[str, Any]]
# A margin beyond any that a judge's log-probabilities give: certainty.
MOST_MARGIN = 1e9


@dataclass(frozen=True)
class Verdicts:
    """A judge's verdicts on a set: `rows` as in verdicts.jsonl, one per pair and order, in the order shown.

    `judge` and `model` are those that made them, as far as a file says; `card` is the SHA-256 of the judge's card, None
    if the file does not state it; `made_for` that of the set. `source` says where the verdicts come from, `notes` what
    has to be said about them. `positions_known`: the verdicts tell which answer was shown first. A row may have a
    `margin`, by which the judge prefers the answer shown first; `tie_margin`: a smaller mean of both orders is a tie.
    `about`: how the verdicts came about, if not by asking the judge of the card, such as by cross-validation.
    `unreadable_are_ties`: the judge's authors count what they could not read as a tie.
    """

    rows: list[dict[str, Any]]
    judge: str
    source: str
    notes: list[str] = field(default_factory=list)
    positions_known: bool = True
    model: str | None = None
    card: str | None = None
    made_for: str | None = None
    tie_margin: float = 0.0
    about: str | None = None
    unreadable_are_ties: bool = False

    @property
    def by_order(self) -> dict[Order, list[str]]:
        """One verdict per pair, for each order; `swapped` means the second answer was shown first."""
        verdicts: dict[Order, list[str]] = {}
        for row in self.rows:
            verdicts.setdefault(row["order"], []).append(row["verdict"])
        return verdicts

    def averaged(self) -> list[str] | None:
        """One verdict per pair under the policy `averaged`, of the answers in the set's order.

        None unless both orders are there and every readable verdict has a margin.
        """
        pairs: dict[int, dict[str, dict[str, Any]]] = {}
        for row in self.rows:
            pairs.setdefault(row["pair"], {})[row["order"]] = row
        verdicts = []
        for _, rows in sorted(pairs.items()):
            if rows.keys() != {"first", "swapped"}:
                return None
            missing = strict(rows["first"]["verdict"], rows["swapped"]["verdict"])
            if missing in ("unparsed", "failed"):
                verdicts.append(missing)
                continue
            one, other = (rows[order].get("margin") for order in ("first", "swapped"))
            if one is None or other is None:
                return None
            outcome = outcome_of_margin(averaged(one, other), self.tie_margin)
            verdicts.append({"win": "first", "loss": "second", "tie": "tie"}[outcome])
        return verdicts


def read_published(files: Path | Sequence[Path], pairs: Sequence[HumanPair], order: Order = "first") -> Verdicts:
    """The verdicts of a file, or of several files of annotations, on the pairs of a set.

    PandaLM: `[{"idx", "NAME_result": 0 | 1 | 2 | "Tie"}]`. Auto-J: a line `{"output": 0 | 1 | 2}` for each pair, in the
    set's order. AlpacaEval: annotations with `instruction`, `output_1`, `output_2` and `preference`, matched by their
    texts, any input after a blank line. This project's verdicts.jsonl: `{"pair", "order": "first" | "swapped",
    "verdict"}` and optionally `margin`, after an optional first line with `judge`, `model`, `card`, `set_sha256` and,
    if the judge of the card was not simply asked, `verdicts`, which says how they came about.

    The judge is NAME, the annotator, or the first line's; otherwise it is called by the file's name.

    Args:
        order: the order in which the answers were shown; this project's layout states it itself.

    Raises:
        InputError: unknown layout, not exactly one verdict per pair, or a verdict on an unknown pair.
    """
    paths = [files] if isinstance(files, Path) else files
    path, rows = paths[0], [row for file in paths for row in read_file(file)]
    made = rows.pop(0).fields if rows[0].fields.keys() >= MADE_BY and len(rows) > 1 else {}
    if len(paths) > 1 and "preference" not in rows[0].fields:
        raise InputError(f"{path}: only AlpacaEval's annotations can be replayed from several files; give one file")
    layout, judge, verdicts = _read(rows, pairs, order)
    for count in (orders := Counter(shown for _, shown in verdicts)).values():
        if count != len(pairs):
            raise InputError(
                f"{path}: has {counted(count, 'verdict')}, but the set has {len(pairs)}; give one for each"
            )
    judge = made.get("judge") if layout == _OWN else judge
    return Verdicts(
        [verdicts[index, shown] for index in range(len(pairs)) for shown in orders],
        one_line(judge, 80) if isinstance(judge, str) and judge.strip() else path.stem,
        f"{path}{f' and {len(paths) - 1} more files' if len(paths) > 1 else ''} (read as {layout})",
        positions_known=layout != _ALPACA_EVAL,
        **{field: made[key] for field, key in _STATED.items() if isinstance(made.get(key), str)},
        tie_margin=_number(made.get("tie_margin", 0.0), rows[0], "tie_margin"),
        unreadable_are_ties=layout.startswith(_PANDALM_LAYOUT),
    )


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write this project's verdicts.jsonl; its first line says what made them, if that is known."""
    made = {
        "judge": verdicts.judge,
        "model": verdicts.model,
        "card": verdicts.card,
        "set_sha256": verdicts.made_for,
        "tie_margin": verdicts.tie_margin,
        "verdicts": verdicts.about,
    }
    known = {key: value for key, value in made.items() if key != "verdicts" or value}
    rows = [known, *verdicts.rows] if verdicts.card else verdicts.rows
    write_atomically(path, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def _read(rows: list[RawRow], pairs: Sequence[HumanPair], order: Order) -> tuple[str, Any, _Rows]:
    """The layout, the judge that it names, and the verdicts."""
    fields = rows[0].fields
    results = [name for name in fields if name.endswith("_result")]
    if {"pair", "order", "verdict"} <= fields.keys():
        known = {verdict: verdict for verdict in get_args(Verdict)}
        return _OWN, None, _indexed(rows, len(pairs), ("pair", "verdict"), known)
    if "preference" in fields:
        return _ALPACA_EVAL, fields.get("annotator"), _shown(_alpaca_eval(rows, pairs, order), order)
    if len(results) == 1:
        verdicts = _indexed(rows, len(pairs), ("idx", results[0]), _PANDALM, order)
        return f"{_PANDALM_LAYOUT} ({one_line(results[0], 40)})", results[0].removesuffix("_result"), verdicts
    if "output" in fields and "instruction" not in fields:
        return "Auto-J's layout", None, _shown(dict(enumerate(_word(row, "output", _AUTOJ) for row in rows)), order)
    raise InputError(
        f"{rows[0].place}: unknown layout (columns: {', '.join(one_line(name, 40) for name in fields)}); give "
        "PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's (instruction, output_1, output_2, "
        "preference) or pair, order, verdict"
    )


def _shown(verdicts: dict[int, str], order: Order) -> _Rows:
    return {(pair, order): {"pair": pair, "order": order, "verdict": word} for pair, word in verdicts.items()}


def _indexed(
    rows: list[RawRow], pairs: int, names: tuple[str, str], known: dict[str, str], order: Order | None = None
) -> _Rows:
    """The verdicts of rows that name their pair; in this project's, which also name their order, with their margins.

    Args:
        names: the fields with the pair and with the verdict.
        order: None: the rows name it.
    """
    verdicts: _Rows = {}
    field, said = names
    for row in rows:
        shown: Any = order or row.fields.get("order")
        if shown not in ("first", "swapped"):
            raise InputError(f"{row.place}: order: {one_line(repr(shown), 60)} must be first or swapped")
        value = str(row.fields.get(field))
        index = int(value) if value.isdecimal() else -1
        if not 0 <= index < pairs:
            raise InputError(
                f"{row.place}: {field}: {one_line(value, 40)!r} is not a pair of the set (0 to {pairs - 1}); "
                "give the verdicts on this set"
            )
        if (index, shown) in verdicts:
            raise InputError(f"{row.place}: {field}: pair {index} already has a verdict; remove one of them")
        verdicts[index, shown] = {"pair": index, "order": shown, "verdict": _word(row, said, known)}
        if order is None and row.fields.get("margin") is not None:
            verdicts[index, shown]["margin"] = _number(row.fields["margin"], row, "margin")
    return verdicts


def _number(value: Any, row: RawRow, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{row.place}: {field}: {one_line(repr(value), 60)} must be a finite number")
    return float(value)


def _word(row: RawRow, field: str, known: dict[str, str]) -> str:
    value = row.fields.get(field)
    word = "" if isinstance(value, bool) else str(value).strip().lower()
    if word not in known:
        cell = one_line(repr(value), 60)
        raise InputError(f"{row.place}: {field}: {cell} is not a verdict; write one of {', '.join(known)}")
    return known[word]


def _alpaca_eval(rows: list[RawRow], pairs: Sequence[HumanPair], order: Order) -> dict[int, str]:
    """`preference` is about output_1 and output_2, whichever of them the judge was shown first."""
    # A set may contain a pair several times, also with its answers swapped: its annotations are taken in turn.
    matches: dict[tuple[str, str, str], list[tuple[int, bool]]] = {}
    for turned in (False, True):
        for pair in pairs:
            outputs = (pair.second, pair.first) if turned else (pair.first, pair.second)
            matches.setdefault((pair.prompt.request, *outputs), []).append((pair.index, turned))
    verdicts: dict[int, str] = {}
    for row in rows:
        if row.fields.get("annotator") != rows[0].fields.get("annotator"):
            raise InputError(f"{row.place}: annotator: is not that of {rows[0].origin}; replay the files of one judge")
        texts = [row.fields.get(field) for field in ("instruction", "output_1", "output_2")]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"{row.place}: needs instruction, output_1 and output_2 to be matched with the set")
        question, one, two = map(str, texts)
        preference = read_preference(row)
        if preference is None:
            verdict = "unparsed"
        else:
            verdict = "tie" if preference == 1.5 else "first" if preference < 1.5 else "second"
        # Two models may have given the same answer to a prompt.
        alike = matches.get((question, one, two), [])
        alike = sorted(alike, key=lambda match: pairs[match[0]].group != row.fields.get("generator_2"))
        if not alike:
            raise InputError(
                f"{row.place}: its instruction ({one_line(question, 60)!r}) with these two outputs is not a pair of "
                "the set; give the annotations of this set"
            )
        index, turned = next(((index, turned) for index, turned in alike if index not in verdicts), (None, False))
        if index is None:
            raise InputError(f"{row.place}: its pair already has a verdict; remove one of the annotations")
        verdicts[index] = EXCHANGED.get(verdict, verdict) if turned != (order == "swapped") else verdict
    return verdicts
