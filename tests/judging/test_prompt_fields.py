"""Each field of a row, in every form that rows come in, reaches each judge or is named as what it is not shown."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from imported import import_into_run

from instruct.base.cards import list_cards
from instruct.base.errors import InputError
from instruct.data.evaluation import answers_of, load_eval_set
from instruct.data.prompts import identity
from instruct.data.sources import RawRow
from instruct.judging.answer_files import run_of_answers
from instruct.judging.asking import Judge
from instruct.judging.cards import JudgeCard
from instruct.judging.judge import read_answers
from instruct.judging.options import JudgeOptions
from instruct.judging.presentations import Answers, Plan, joined, plan_comparison
from instruct.validation.judge_labels import load_labels
from instruct.validation.validate import _answers as answers_of_set

CARDS = sorted(card.name for card in list_cards("judges"))
MARKERS = {name: f"marked {name}" for name in ("input", "system", "earlier", "reference", "rubric", "criteria")}
MARKERS["checklist"] = "marked checklist"
TURNS = [{"role": "user", "content": "marked earlier"}, {"role": "assistant", "content": "So."}]
KEPT = {"dataset": "part", "category": "kind", "cluster": "text 1"}
OUTPUTS = {"ours": "One answer.", "theirs": "Another answer."}


Rows = list[dict[str, Any]]
Sides = tuple[Answers, Answers]


def fields(*names: str) -> dict[str, Any]:
    """A row's fields, each with its marker; a second turn has a reference for each."""
    row: dict[str, Any] = {name: MARKERS[name] for name in names}
    if "earlier" in names:
        row |= {"earlier": TURNS} | ({"reference": [MARKERS["reference"]] * 2} if "reference" in names else {})
    return row | ({"checklist": [MARKERS["checklist"]]} if "checklist" in names else {})


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list({name: None for row in rows for name in row}))
        writer.writeheader()
        writer.writerows(rows)


WRITE: dict[str, Callable[[Path, Rows], Any]] = {
    ".json": lambda path, rows: path.write_text(json.dumps(rows)),
    ".jsonl": lambda path, rows: path.write_text("".join(json.dumps(row) + "\n" for row in rows)),
    ".csv": write_csv,
}


def system(name: str, rows: Rows) -> Rows:
    return [row | {"output": OUTPUTS[name], "generator": name} for row in rows]


def compared(folder: Path, ours: Any, theirs: Any) -> Sides:
    run, _ = run_of_answers(folder / "run", [ours], theirs)
    return read_answers(run, "ours"), read_answers(run, "theirs")


def files(suffix: str) -> Callable[[Path, Rows], Sides]:
    def read(folder: Path, rows: Rows) -> Sides:
        paths = [folder / f"{name}{suffix}" for name in OUTPUTS]
        for path in paths:
            WRITE[suffix](path, system(path.stem, rows))
        return compared(folder, *paths)

    return read


def python_rows(folder: Path, rows: Rows) -> Sides:
    return compared(folder, system("ours", rows), system("theirs", rows))


def rows_of_one_side(folder: Path, rows: Rows) -> Sides:
    """The candidate's rows alone have what judges are shown beside the request."""
    asked = [
        {name: row[name] for name in ("instruction", "input", "id", "earlier", *KEPT) if name in row} for row in rows
    ]
    return compared(folder, system("ours", rows), system("theirs", asked))


def evaluation_set(folder: Path, rows: Rows) -> Sides:
    WRITE[".jsonl"](folder / "prompts.jsonl", system("theirs", rows))
    found = load_eval_set("starter_eval", files=[str(folder / "prompts.jsonl")])
    answered = [row for prompt in found.prompts for row in prompt.answered([OUTPUTS["ours"]], "ours")]
    assert found.baseline
    return compared(folder, answered, found.baseline)


def labels(*files: Path) -> Sides:
    human = load_labels([*map(str, files)])
    return answers_of_set(human, "first"), answers_of_set(human, "second")


def labeled_pairs(folder: Path, rows: Rows) -> Sides:
    pair = {"first": OUTPUTS["ours"], "second": OUTPUTS["theirs"], "label": "tie"}
    WRITE[".jsonl"](folder / "pairs.jsonl", [row | pair for row in rows])
    return labels(folder / "pairs.jsonl")


def labeled_run(folder: Path, rows: Rows) -> Sides:
    ours, _ = python_rows(folder, rows)
    label = {"candidate": "ours", "baseline": "theirs", "label": "candidate"}
    WRITE[".jsonl"](folder / "run" / "labels.jsonl", [label | {"instruction": identity(row)} for row in ours.rows])
    return labels(folder / "run")


def write_annotations(folder: Path, rows: Rows) -> Path:
    about = {"generator_1": "theirs", "generator_2": "ours", "annotator": "a_judge", "preference": 2}
    about |= {"output_1": OUTPUTS["theirs"], "output_2": OUTPUTS["ours"]}
    WRITE[".json"](folder / "made.json", [row | about for row in rows])
    return folder / "made.json"


def imported_annotations(folder: Path, rows: Rows) -> Sides:
    run = import_into_run(write_annotations(folder, rows), folder / "run")
    return read_answers(run, "ours"), read_answers(run, "theirs")


READERS: dict[str, Callable[[Path, Rows], Sides]] = {
    **{suffix: files(suffix) for suffix in WRITE},
    "rows": python_rows,
    "one side": rows_of_one_side,
    "evaluation set": evaluation_set,
    "labeled pairs": labeled_pairs,
    "labeled run": labeled_run,
    "annotations": lambda folder, rows: labels(write_annotations(folder, rows)),
    "imported annotations": imported_annotations,
}


@cache
def judge_of(name: str) -> Judge:
    return Judge(JudgeOptions(card=name))


ENGINE: Any = SimpleNamespace(identity={"model": "of the tests"})


def text_of(plan: Plan) -> str:
    return json.dumps([request.prompt for shown in plan.presentations for request in shown.requests])


def declared(card: JudgeCard, row: dict[str, Any]) -> set[str]:
    """The fields of a row that a card shows, by the placeholders of the prompt that it names for such rows."""
    if card.protocol == "reward":
        return {"input", "system", "earlier"}
    named = (each.file for each in card.prompts if not each.datasets and set(each.fields) <= row.keys())
    if file := next(named, None):
        text = (card.prompt_file().parent / file).read_text()
    else:
        text = card.prompt_text()
    at = {"question_1": "earlier", "ref_answer_1": "reference"}
    return {"input", *(at.get(name, name) for name in re.findall(r"\{(\w+)\}", text))}


@pytest.mark.parametrize("reader", READERS)
def test_each_field_is_shown_to_each_judge_or_named(reader, tmp_path):
    """One field at a time, also beside a rubric, which some judges need; all of them, and none."""
    tables = [[], *([name] for name in MARKERS), *(["rubric", name] for name in MARKERS), [*MARKERS]]
    rows = [
        {"instruction": f"marked instruction {number}", **KEPT, "id": str(number)}
        | fields(*(name for name in names if (reader, name) != (".csv", "earlier")))
        for number, names in enumerate(tables)
    ]
    sides = READERS[reader](tmp_path, rows)
    for row, *pair in zip(rows, *(side.rows for side in sides), strict=True):
        one = [Answers(side.name, [its]) for side, its in zip(sides, pair, strict=True)]
        for name in CARDS:
            judge = judge_of(name)
            if name.startswith("rubric") and not row.keys() & {"rubric", "criteria", "checklist"}:
                with pytest.raises(InputError, match=r"has nothing for the prompt's \{rubric\}"):
                    plan_comparison(judge, *one, ENGINE)
                continue
            plan = plan_comparison(judge, *one, ENGINE)
            text, notes = text_of(plan), " ".join(plan.notes)
            assert row["instruction"] in text
            has, wanted = MARKERS.keys() & row.keys(), declared(judge.card, row)
            assert {field for field in has if MARKERS[field] in text} == has & wanted, (name, row)
            assert {field for field in has if f"{field} (1 of 1 pair)" in notes} == has - wanted, (name, row)
            assert bool(notes) == bool(has - wanted)


def test_rows_are_identified_by_all_that_they_ask():
    rows = [
        {"instruction": "Translate.", "input": "Hello."},
        {"instruction": "Translate.", "input": "Thanks."},
        {"instruction": "Translate.", "input": "Thanks.", "system": "Be formal."},
        {"instruction": "Go on.", "earlier": TURNS},
        {"instruction": "Go on.", "earlier": [{"role": "user", "content": "Sing."}, TURNS[1]]},
    ]
    read = answers_of([RawRow("mine", n, row) for n, row in enumerate(system("ours", rows), start=1)], "ours")
    assert [*map(identity, read)] == [
        "Translate.\n\nHello.",
        "Translate.\n\nThanks.",
        "Be formal.\n\nTranslate.\n\nThanks.",
        "marked earlier\n\nGo on.",
        "Sing.\n\nGo on.",
    ]
    with pytest.raises(InputError, match=r"row 2: instruction: 'Translate. Hello.' is already in row 1; give each"):
        answers_of([RawRow("mine", n, row) for n, row in enumerate(system("ours", [rows[0]] * 2), start=1)], "ours")


@pytest.mark.parametrize(
    ("ours", "theirs", "problem"),
    [
        ({"id": "1"}, {"id": "1", "instruction": "Why not?"}, "the instruction of '1' is not the same in both"),
        ({"reference": ["A"]}, {"reference": ["B"]}, "the reference of 'Why?' is not the same in both"),
        ({"earlier": TURNS}, {"earlier": [TURNS[1] | {"role": "user"}]}, "the earlier of 'Why?' is not the same"),
        ({"input": "A"}, {}, "answers theirs: 1 prompt of the other side missing, first 'Why? A'"),
    ],
)
def test_two_rows_of_one_pair_ask_the_same(ours, theirs, problem):
    asked = {"instruction": "Why?", "dataset": "d"}
    with pytest.raises(InputError, match=re.escape(problem)):
        joined(Answers("ours", [asked | ours]), Answers("theirs", [asked | theirs]))
    joined(Answers("ours", [asked | ours]), Answers("theirs", [asked | ours]))


def test_a_turn_that_a_prompt_does_not_show_is_refused():
    row = {"instruction": "Why?", "dataset": "d", "output": "So.", "earlier": TURNS * 2}
    with pytest.raises(InputError, match=r"judge mt_bench: 'Why\?' is turn 3 of a conversation, and its prompt shows"):
        plan_comparison(judge_of("mt_bench"), Answers("ours", [row]), Answers("theirs", [row]), ENGINE)
