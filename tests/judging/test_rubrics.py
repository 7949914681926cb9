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
        ("pairwise", "[[A]] at first; but B is right.\n\n[[B]]", "second"),
        ("pairwise", "Equal.\n**[[Tie]]**", "tie"),
        ("pairwise", "A is better.", "unparsed"),
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
    assert read_rating(load_judge_card("pairwise_single"), Completion("Good.\n\n[[ 8.5 ]]")) == 8.5


@pytest.mark.parametrize("judge", ["pairwise", "pairwise_single"])
def test_a_section_of_a_prompt_is_for_rows_with_its_field(judge):
    plain = shown(judge, {})[0]
    assert not any(f"<{name}" in plain for name in ("criteria", "system", "conversation", "right_answer"))
    assert "{" not in plain.replace("Hi {rubric}", "")
    chat = [{"role": "user", "content": "{#criteria}"}, {"role": "assistant", "content": "Hm {/criteria}"}]
    full = shown(judge, {"criteria": "Brevity.", "system": "Be kind.", "earlier": chat, "reference": ["1", "Hi."]})[0]
    for section in (
        "<criteria>\nBrevity.\n</criteria>",
        "<system_prompt>\nBe kind.\n</system_prompt>",
        "<conversation_so_far>\nUser: {#criteria}\n\nAssistant: Hm {/criteria}\n</conversation_so_far>",
        "<right_answer>\nHi.\n</right_answer>",
    ):
        assert section in full
    assert "Hi {rubric}<|im_end|>" in full


def test_a_conversation_that_each_system_had_is_shown_as_each_had_it():
    asked = {"role": "user", "content": "Hello?"}
    both = [[asked, {"role": "assistant", "content": text}] for text in ("Yes?", "Hm?")]
    (prompt,) = shown("pairwise", {"earlier": both[0], "conversations": both})
    assert "User: Hello?\n\nAssistant A: Yes?\n\nAssistant B: Hm?\n</conversation_so_far>" in prompt
