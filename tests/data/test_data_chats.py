"""The mask of a chat: derived from the template alone, with the templates of many models."""

from __future__ import annotations

from typing import Any

import pytest
from encoded_rows import encode_row
from row_sets import chat
from small_tokenizers import CHATML, small_tokenizer, text_of

from instruct.data.formats import to_row
from instruct.data.rows import load_rows
from instruct.data.sources import RawRow
from instruct.data.tokens import encode_rows, prompt_token_ids

SYSTEM = {"role": "system", "content": "Be brief."}


THREE = chat("One?", "It is 1.", "Two?", "It is 2.", "Three?", "It is 3.")


def encoded(tokenizer: Any, messages: list[dict[str, Any]], train_on: Any = "assistant_turns", **more: Any) -> Any:
    row = to_row(RawRow("r", 1, {"messages": messages}), "messages", "chat", train_on)
    assert row is not None
    return encode_row(tokenizer, {**row, **more}, None, train_on)


def answers(tokenizer: Any, messages: list[dict[str, Any]], **more: Any) -> list[str]:
    """The parts that are trained on."""
    row = encoded(tokenizer, messages, **more)
    return [text_of(tokenizer, row.input_ids[begin:end]) for begin, end in row.trained]


LLAMA_2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}"
    "{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
    "{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "begin", "end"), [(CHATML, "", "<|im_end|>"), (LLAMA_2, " ", " </s>")], ids=["ChatML", "Llama-2"]
)
def test_every_answer_with_its_end_token_is_trained_on_and_nothing_else(template, begin, end):
    tokenizer = small_tokenizer(template)
    assert answers(tokenizer, THREE) == [f"{begin}It is {n}.{end}" for n in (1, 2, 3)]
    row = encoded(tokenizer, THREE)
    # What stands before an answer is what generation is given.
    for index, (first, _) in zip((1, 3, 5), row.trained, strict=True):
        assert row.input_ids[:first] == prompt_token_ids(tokenizer, THREE[:index])
    assert encoded(tokenizer, THREE, "last_turn").trained == row.trained[-1:]
    assert encoded(tokenizer, THREE, "last_turn").input_ids == row.input_ids
    everything = encoded(tokenizer, THREE, "all_tokens")
    assert everything.labels == everything.input_ids == row.input_ids


def test_a_file_of_chats_reports_the_turns_that_are_not_trained_on(write):
    opening = {"role": "assistant", "content": "Hi."}
    second = [opening, SYSTEM, *chat("One?", " ", "Really?", "It is 1."), SYSTEM, *chat("Two?", "It is 2.", "Bye")]
    rows = [{"messages": THREE}, {"messages": second}]
    found = load_rows(None, files=[write("chats.jsonl", rows)])
    assert found.turns == {"answers": 5, "opening": 1, "empty": 1, "after": 1}
    assert found.notes == [
        "1 assistant turn at the start of a chat, without a prompt: context, not trained on",
        "1 assistant turn without text: context, not trained on",
        "1 turn after a chat's last answer: left out",
    ]
    whole, other = (encode_row(small_tokenizer(), row, None) for row in found.rows)
    assert (len(whole.trained), len(other.trained)) == (3, 2)
    for limit, status in ((whole.length - 1, "truncated"), (whole.trained[0][0], "fully_masked")):
        cut = encode_rows(small_tokenizer(), found, limit).encoded[0]
        assert (cut["status"], cut["labels"]) == (status, whole.labels[:limit])


def sentencepiece_like(template: str) -> Any:
    """A tokenizer that puts a space before every text it is given, as Llama-2's does."""
    from tokenizers import Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(set("▁abcdefghijklmnopqrstuvwxyzI[]/NST.?123\n"))
    vocabulary = {letter: index for index, letter in enumerate(["<unk>", *letters, "▁it", "it"])}
    core = Tokenizer(models.BPE(vocabulary, [("i", "t"), ("▁", "it")], unk_token="<unk>"))
    core.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse()])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    tokenizer.chat_template = template
    return tokenizer


def test_an_answer_has_the_tokens_of_the_whole_chat_where_a_tokenizer_begins_with_a_space():
    tokenizer = sentencepiece_like(LLAMA_2)
    row = encoded(tokenizer, chat("one?", "it is 1.", "two?", "it is 2."))
    whole = tokenizer.apply_chat_template(chat("one?", "it is 1.", "two?", "it is 2."), return_dict=False)
    assert row.input_ids == whole
    assert all(tokenizer.convert_ids_to_tokens(row.input_ids[begin]) == "▁it" for begin, _ in row.trained)
