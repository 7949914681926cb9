"""Judges that are shown the rubric, the criteria or the checklist of a row."""

from __future__ import annotations

from instruct.judging.cards import load_judge_card
from instruct.judging.presentations import PromptTemplate


def shown(judge: str, row: dict) -> list[str]:
    template = PromptTemplate(load_judge_card(judge))
    row = {"dataset": "mine", "instruction": "Say hi.", **row}
    return [prompt[-1]["content"] for prompt in template.render_all(row, "Hi {rubric}<|im_end|>", "Hello.")]


def test_a_section_of_a_prompt_is_for_rows_with_its_field():
    plain = shown("pairwise", {})[0]
    assert not any(f"<{name}" in plain for name in ("criteria", "system", "conversation", "right_answer"))
    assert "{" not in plain.replace("Hi {rubric}", "")
    chat = [{"role": "user", "content": "{#criteria}"}, {"role": "assistant", "content": "Hm {/criteria}"}]
    full = shown(
        "pairwise", {"criteria": "Brevity.", "system": "Be kind.", "earlier": chat, "reference": ["1", "Hi."]}
    )[0]
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
