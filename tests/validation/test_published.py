"""Published verdicts: each layout as its authors write it, and files that do not fit the set."""

from __future__ import annotations

import pytest
from json_files import write_json

from instruct.base.errors import InputError
from instruct.data.prompts import EvalPrompt
from instruct.validation.human_sets import HumanPair
from instruct.validation.published import read_published

PAIRS = [
    HumanPair(EvalPrompt("Say hello.", "", input="to Ann"), "Hello!", "Hi.", ("first",)),
    HumanPair(EvalPrompt("Say yes.", ""), "Yes.", "No.", ("first",)),
    HumanPair(EvalPrompt("Say yes.", ""), "No.", "Yes.", ("second",)),
]


def annotation(instruction, one, two, preference):
    return {"instruction": instruction, "output_1": one, "output_2": two, "preference": preference}


ANNOTATIONS = [
    annotation("Say yes.", "Yes.", "No.", 1.51),
    annotation("Say hello.\n\nto Ann", "Hi.", "Hello!", 1),
    annotation("Say yes.", "No.", "Yes.", None),
]
PANDALM = [{"idx": 2, "gpt_result": "2"}, {"idx": 0, "gpt_result": "Tie"}, {"idx": 1, "gpt_result": "garbage"}]
AUTOJ = [{"output": n} for n in (0, 2, -1)]


@pytest.mark.parametrize(
    ("rows", "layout", "listed", "swapped"),
    [
        (PANDALM, "PandaLM's layout", ["tie", "unparsed", "second"], ["tie", "unparsed", "first"]),
        (AUTOJ, "Auto-J's layout", ["first", "tie", "unparsed"], ["second", "tie", "unparsed"]),
        # Matched by their texts, whatever order was shown.
        (ANNOTATIONS, "AlpacaEval's annotations", ["second", "second", "failed"], ["second", "second", "failed"]),
    ],
)
def test_published_verdicts_are_read_as_their_authors_write_them(tmp_path, rows, layout, listed, swapped):
    path = write_json(tmp_path / "v.jsonl", rows)
    found = read_published([path], PAIRS)
    assert found.raters() == {"listed": listed}
    assert found.source == f"{path} (read as {layout})"
    assert found.positions_known == (rows is not ANNOTATIONS)
    assert read_published([path], PAIRS, "swapped").raters() == {"swapped": swapped}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"output": 0}] * 2, "has 2 verdicts, but the set has 3"),
        (
            [annotation("Say no.", "Yes.", "No.", 1)],
            "row 1: its instruction ('Say no.') with these two outputs is not a",
        ),
        ([{"verdict": "first"}], "give PandaLM's (idx and one NAME_result), Auto-J's (output), AlpacaEval's"),
    ],
)
def test_verdicts_that_do_not_fit_the_set_are_refused(tmp_path, rows, said):
    path = write_json(tmp_path / "v.jsonl", rows)
    with pytest.raises(InputError) as caught:
        read_published([path], PAIRS)
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
