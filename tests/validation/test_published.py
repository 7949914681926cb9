"""Published verdicts: each layout as its authors write it, and files that do not fit the set."""

from __future__ import annotations

import json

import pytest

from instruct.base.errors import InputError
from instruct.data.prompts import EvalPrompt
from instruct.validation.human_sets import HumanPair
from instruct.validation.published import read_published

PAIRS = [
    HumanPair(0, EvalPrompt("Say hello.", "", input="to Ann"), "Hello!", "Hi.", ("first",)),
    HumanPair(1, EvalPrompt("Say yes.", ""), "Yes.", "No.", ("first",)),
    HumanPair(2, EvalPrompt("Say yes.", ""), "No.", "Yes.", ("second",)),
]


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text(json.dumps(rows))
    return path


def test_pandalm_verdicts_are_matched_by_idx(tmp_path):
    rows = [{"idx": 2, "gpt_result": "2"}, {"idx": 0, "gpt_result": "Tie"}, {"idx": 1, "gpt_result": "garbage"}]
    found = read_published(write(tmp_path / "p.json", rows), PAIRS)
    assert found.by_order == {"first": ["tie", "unparsed", "second"]}
    assert found.source == f"{tmp_path / 'p.json'} (read as PandaLM's layout)"


def test_autoj_verdicts_are_matched_by_line(tmp_path):
    found = read_published(write(tmp_path / "a.jsonl", [{"output": n} for n in (0, 2, -1)]), PAIRS, "swapped")
    assert found.by_order == {"swapped": ["first", "tie", "unparsed"]}
    assert found.source == f"{tmp_path / 'a.jsonl'} (read as Auto-J's layout)"


def test_alpaca_eval_annotations_are_matched_by_their_texts(tmp_path):
    def row(instruction, one, two, preference):
        return {"instruction": instruction, "output_1": one, "output_2": two, "preference": preference}

    rows = [
        row("Say yes.", "Yes.", "No.", 1.2),
        row("Say hello.\n\nto Ann", "Hi.", "Hello!", 1),
        row("Say yes.", "No.", "Yes.", None),
    ]
    path = write(tmp_path / "annotations.json", rows)
    found = read_published(path, PAIRS)
    assert found.by_order == {"first": ["second", "first", "failed"]}
    assert not found.positions_known
    assert read_published(path, PAIRS, "swapped").by_order == {"swapped": ["first", "second", "failed"]}
    for preference, verdict in ((0, "tie"), (1.5, "tie"), (2, "second"), (1.51, "second"), (float("nan"), "failed")):
        path = write(tmp_path / "one.json", [row("Say yes.", "Yes.", "No.", preference)])
        assert read_published(path, [HumanPair(0, EvalPrompt("Say yes.", ""), "Yes.", "No.", ("tie",))]).by_order == {
            "first": [verdict]
        }


def test_own_verdicts_are_matched_by_pair_and_order(tmp_path):
    rows = [{"pair": n, "order": order, "verdict": "tie"} for order in ("swapped", "first") for n in (2, 1, 0)]
    rows[0]["verdict"] = "failed"
    rows[-1]["preference"] = rows[0]["preference"] = 1.5
    found = read_published(write(tmp_path / "v.jsonl", rows), PAIRS)
    assert found.by_order == {"swapped": ["tie", "tie", "failed"], "first": ["tie"] * 3}
    assert found.positions_known
    assert (found.judge, found.card) == ("v", None)
    made = {"judge": "mine", "model": "m", "card": "c", "set_sha256": "s"}
    found = read_published(write(tmp_path / "v.jsonl", [made, *rows]), PAIRS)
    assert found.by_order["first"] == ["tie"] * 3
    assert (found.judge, found.model, found.card, found.made_for) == ("mine", "m", "c", "s")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"output": 0}] * 2, "has 2 verdicts, but the set has 3"),
        ([{"output": 3}] * 3, "row 1: output: 3 is not a verdict; write one of 0, 1, 2, -1"),
        ([{"output": True}] * 3, "row 1: output: True is not a verdict"),
        ([{"idx": n, "x_result": 1} for n in (0, 1, 3)], "row 3: idx: '3' is not a pair of the set (0 to 2)"),
        ([{"idx": n, "x_result": 1} for n in (0, 1, 1)], "row 3: idx: pair 1 already has a verdict"),
        ([{"idx": n, "x_result": 1} for n in (0, 1)], "has 2 verdicts, but the set has 3"),
        (
            [{"idx": 0, "x_result": "1", "y_result": "1"}],
            "row 1: unknown layout (columns: idx, x_result, y_result)",
        ),
        ([{"pair": 0, "order": "second", "verdict": "tie"}], "row 1: order: 'second' must be first or swapped"),
        ([{"pair": 0, "order": "first", "verdict": "Tie!"}], "row 1: verdict: 'Tie!' is not a verdict"),
        ([{"preference": 1, "instruction": "Say yes.", "output_2": "No."}], "row 1: needs instruction, output_1 and"),
        (
            [{"preference": 1, "instruction": "Say no.", "output_1": "Yes.", "output_2": "No."}],
            "row 1: its instruction ('Say no.') with these two outputs is not a pair of the set",
        ),
        (
            [{"preference": 3, "instruction": "Say yes.", "output_1": "Yes.", "output_2": "No."}],
            "row 1: preference: 3 is not a preference; give 1 (the baseline), 2",
        ),
        (
            [{"preference": 1, "instruction": "Say yes.", "output_1": "Yes.", "output_2": "No."}] * 3,
            "row 3: its pair already has a verdict",
        ),
        ([{"verdict": "first"}], "give PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's"),
    ],
)
def test_verdicts_that_do_not_fit_the_set_are_refused(tmp_path, rows, said):
    path = write(tmp_path / "v.jsonl", rows)
    with pytest.raises(InputError) as caught:
        read_published(path, PAIRS)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
