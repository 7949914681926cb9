"""Judges that are shown the rubric, the criteria or the checklist of a row."""

from __future__ import annotations

import pytest

from instruct.base.errors import InputError
from instruct.base.replies import Completion
from instruct.judging.cards import load_judge_card
from instruct.judging.presentations import PromptTemplate
from instruct.judging.verdicts import Unreadable, read_rating, read_verdict


def shown(judge: str, row: dict) -> list[str]:
    template = PromptTemplate(load_judge_card(judge))
    row = {"dataset": "mine", "instruction": "Say hi.", **row}
    return [prompt[-1]["content"] for prompt in template.render_all(row, "Hi {rubric}<|im_end|>", "Hello.")]


@pytest.mark.parametrize("judge", ["rubric", "rubric_pair"])
@pytest.mark.parametrize("field", ["rubric", "criteria", "checklist"])
def test_a_judge_is_shown_what_its_row_has(judge, field):
    prompts = shown(judge, {field: "Score 1: {first} rude."})
    assert len(prompts) == (2 if judge == "rubric" else 1)
    assert all(f"### {field.capitalize()}\nScore 1: {{first}} rude." in prompt for prompt in prompts)
    assert "Hi {rubric}<|im_end|>" in prompts[0]  # an answer is data, whatever it says


def test_a_reference_is_shown_beside_the_rubric():
    (prompt,) = shown("rubric_pair", {"rubric": "Politeness.", "reference": ["Good day."]})
    assert "### Reference answer\nGood day.\n\n### Rubric\nPoliteness." in prompt


def test_a_row_without_a_rubric_is_refused_before_it_is_asked():
    with pytest.raises(InputError, match=r"judge rubric: 'Say hi.' has nothing for the prompt's \{rubric\}; add it to"):
        shown("rubric", {})


@pytest.mark.parametrize(
    ("judge", "reply", "verdict"),
    [
        ("rubric_pair", "A is polite. [RESULT] A", "first"),
        ("rubric_pair", "[RESULT] A would be wrong. [RESULT] (B)", "second"),
        ("rubric_pair", "Equal. [RESULT] tie", "tie"),
        ("rubric_pair", "A is better.", "unparsed"),
        ("rubric_pair", "[RESULT] Both", "unparsed"),
    ],
)
def test_the_result_of_a_comparison_is_read_after_its_mark(judge, reply, verdict):
    assert read_verdict(load_judge_card(judge), Completion(reply)).verdict == verdict


def test_a_rating_is_read_after_its_mark():
    card = load_judge_card("rubric")
    assert read_rating(card, Completion("Good. [RESULT] 4")) == 4
    assert read_rating(card, Completion("[RESULT] 5 at first. [RESULT] (2)")) == 2
    with pytest.raises(Unreadable):
        read_rating(card, Completion("[RESULT] 7"))
