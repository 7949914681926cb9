"""Judges that are shown the rubric, the criteria or the checklist of a row."""

from __future__ import annotations

from instruct.judging.cards import load_judge_card
from instruct.judging.presentations import PromptTemplate


def shown(row: dict) -> list[str]:
    template = PromptTemplate(load_judge_card("pairwise"))
    row = {"dataset": "mine", "instruction": "Say hi.", **row}
    return [prompt[-1]["content"] for prompt in template.render_all(row, "Hi {rubric}<|im_end|>", "Hello.")]


def test_a_section_of_a_prompt_is_for_rows_with_its_field():
    (plain,) = shown({})
    assert not any(f"<{name}" in plain for name in ("criteria", "system", "conversation", "right_answer"))
    assert "{" not in plain.replace("Hi {rubric}", "")
    (full,) = shown({"criteria": "Be {/criteria}.", "reference": ["Hi."]})
    for section in ("<criteria>\nBe {/criteria}.\n</criteria>", "<right_answer>\nHi.\n</right_answer>"):
        assert section in full


def test_a_conversation_that_each_system_had_is_shown_as_each_had_it():
    asked = {"role": "user", "content": "Hello?"}
    both = [[asked, {"role": "assistant", "content": text}] for text in ("Yes?", "Hm?")]
    (prompt,) = shown({"earlier": both[0], "conversations": both})
    assert "User: Hello?\n\nAssistant A: Yes?\n\nAssistant B: Hm?\n</conversation_so_far>" in prompt
