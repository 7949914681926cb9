"""The mask of a chat: derived from the template alone, with the templates of many models."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from encoded_rows import encode_row
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizers import CHATML, small_tokenizer, text_of

from instruct.data.chats import chat_row
from instruct.data.rows import load_rows
from instruct.data.tokens import chat_token_ids, encode_rows, prompt_token_ids

SYSTEM = {"role": "system", "content": "Be brief."}


def chat(*contents: str) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(contents)]


THREE = chat("One?", "It is 1.", "Two?", "It is 2.", "Three?", "It is 3.")


def encoded(tokenizer: Any, messages: list[dict[str, Any]], train_on: Any = "assistant_turns", **more: Any) -> Any:
    row = chat_row(messages, None, train_on, Counter())
    assert row is not None
    return encode_row(tokenizer, {**row, **more}, None, train_on)


def answers(tokenizer: Any, messages: list[dict[str, Any]], **more: Any) -> list[str]:
    """The parts that are trained on."""
    row = encoded(tokenizer, messages, **more)
    return [text_of(tokenizer, row.input_ids[begin:end]) for begin, end in row.trained]


def with_special(template: str, *tokens: str, eos: str = "</s>") -> Any:
    tokenizer = small_tokenizer(template, eos=eos)
    tokenizer.add_tokens(list(tokens), special_tokens=True)
    return tokenizer


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
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token}}{% endif %}{% endfor %}"
)
ZEPHYR = (
    "{% for message in messages %}\n"
    "{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + eos_token }}"
    "\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}"
    "\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}"
    "\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"
)
QWEN_2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "begin", "end"),
    [
        (CHATML, "", "<|im_end|>"),
        (QWEN_2, "", "<|im_end|>"),
        (LLAMA_2, " ", " </s>"),
        (MISTRAL, " ", "</s>"),
        (ZEPHYR, "", "</s>"),
    ],
    ids=["ChatML", "Qwen2", "Llama-2", "Mistral", "Zephyr"],
)
def test_every_answer_with_its_end_token_is_trained_on_and_nothing_else(template, begin, end):
    tokenizer = with_special(template)
    assert answers(tokenizer, THREE) == [f"{begin}It is {n}.{end}" for n in (1, 2, 3)]
    row = encoded(tokenizer, THREE)
    # What stands before an answer is what generation is given.
    for index, (first, _) in zip((1, 3, 5), row.trained, strict=True):
        assert row.input_ids[:first] == prompt_token_ids(tokenizer, THREE[:index])
    assert encoded(tokenizer, THREE, "last_turn").trained == row.trained[-1:]
    assert encoded(tokenizer, THREE, "last_turn").input_ids == row.input_ids
    everything = encoded(tokenizer, THREE, "all_tokens")
    assert everything.labels == everything.input_ids == row.input_ids


# Trained on with markers that TRL's authors put into the templates of these models.
MARKED = [
    "cohere", "cohere2", "diffusion_gemma", "gemma", "gemma3", "lfm2", "llama3", "phi3_5", "qwen2_5", "qwen3_vl",
    "qwen3_instruct_2507",
]  # fmt: skip


@pytest.mark.parametrize("name", MARKED)
def test_the_mask_equals_that_of_generation_markers(name):
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    if not (folder / f"{name}_training.jinja").is_file():
        pytest.skip(f"this TRL has no training template for {name}")
    marked, plain = ((folder / f"{name}{kind}.jinja").read_text() for kind in ("_training", ""))
    special = re.findall(r"<\|?[A-Za-z_]+\|?>", marked)
    messages = THREE if name == "gemma" else [SYSTEM, *THREE]  # Gemma has no system turn
    ours = encoded(with_special(plain, *special), messages)
    tokenizer = with_special(marked, *special)
    theirs = tokenizer.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    assert theirs["input_ids"][: ours.length] == ours.input_ids
    parts = [
        text_of(tokenizer, [token for token, _ in group])
        for on, group in itertools.groupby(
            zip(theirs["input_ids"], theirs["assistant_masks"], strict=True), key=lambda pair: pair[1]
        )
        if on
    ]
    closing = "</s>" if name == "phi3_5" else ""  # ends the chat, not an answer
    assert [part.removesuffix(closing).strip() for part in parts] == [
        text_of(tokenizer, ours.input_ids[begin:end]) for begin, end in ours.trained
    ]


TURN = st.text(st.characters(codec="utf-8"), max_size=30).filter(lambda text: "<|" not in text)
WORDS = st.from_regex(r"[a-z0-9][a-z0-9 ,.\n]{0,20}", fullmatch=True)
MARKED_CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "<|im_end|>{% endgeneration %}{% else %}{{ m.content }}<|im_end|>{% endif %}{{ '\n' }}"
    "{% endfor %}"
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(WORDS, min_size=2, max_size=9))
def test_random_chats_have_the_mask_of_generation_markers(smollm2_tokenizer, contents):
    messages = chat(*contents)
    own = smollm2_tokenizer.chat_template
    row = encoded(smollm2_tokenizer, messages)
    first_system = (
        "{% if messages[0].role != 'system' %}{{ '" + own.split("{{ '")[1].split("' }}")[0] + "' }}{% endif %}"
    )
    theirs = smollm2_tokenizer.apply_chat_template(
        messages[: len(messages) // 2 * 2],
        chat_template=first_system + MARKED_CHATML,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    assert theirs["input_ids"] == [*row.input_ids, *smollm2_tokenizer("\n")["input_ids"]]
    assert theirs["assistant_masks"] == [*(label != -100 for label in row.labels), 0]


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(TURN.filter(str.strip), min_size=2, max_size=7))
def test_any_answer_follows_the_prompt_of_generation(smollm2_tokenizer, contents):
    messages = chat(*contents)
    row = encoded(smollm2_tokenizer, messages)
    assert row.input_ids[: row.trained[0][0]] == prompt_token_ids(smollm2_tokenizer, messages[:1])
    end = smollm2_tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert [row.input_ids[begin:last] for begin, last in row.trained] == [
        [*smollm2_tokenizer(text, add_special_tokens=False)["input_ids"], end] for text in contents[1::2]
    ]


def test_turns_that_are_not_answers_are_counted():
    tokenizer = small_tokenizer()
    messages = [
        {"role": "assistant", "content": "Welcome."}, SYSTEM, *chat("One?", " ", "Really?", "It is 1."), SYSTEM,
        *chat("Two?", "It is 2.", "Thanks."),
    ]  # fmt: skip
    turns: Counter[str] = Counter()
    row = chat_row(messages, None, "assistant_turns", turns)
    assert turns == {"answers": 2, "opening": 1, "empty": 1, "after": 1}
    assert row == {"messages": messages[:-1]}
    assert answers(tokenizer, messages) == ["It is 1.<|im_end|>", "It is 2.<|im_end|>"]
    assert chat_row(messages[:2], None, "assistant_turns", turns) is None
    ends_empty = [*chat("One?", "It is 1.", "Two?", "")]
    assert answers(tokenizer, ends_empty) == ["It is 1.<|im_end|>"]


def test_a_file_of_chats_reports_the_turns_that_are_not_trained_on(write):
    rows = [{"messages": THREE}, {"messages": [{"role": "assistant", "content": "Hi."}, *THREE, *chat("Bye")]}]
    found = load_rows(None, files=[write("chats.jsonl", rows)])
    assert found.turns == {"answers": 6, "opening": 1, "empty": 0, "after": 1}
    assert found.notes == [
        "1 assistant turn at the start of a chat, without a prompt: context, not trained on",
        "1 turn after a chat's last answer: left out",
    ]
    kept = [encode_row(small_tokenizer(), row, None) for row in found.rows]
    assert [len(row.trained) for row in kept] == [3, 3]
    # Cut after the second answer's end token, inside the third answer, and before any answer.
    whole = kept[0]
    for limit, status, trained in [
        (whole.trained[1][1], "truncated", 2),
        (whole.length - 1, "truncated", 3),
        (whole.trained[0][0], "fully_masked", 0),
    ]:  # fmt: skip
        cut = encode_rows(small_tokenizer(), found, limit).encoded[0]
        assert cut["status"] == status
        assert cut["labels"] == whole.labels[:limit]
        assert sum(1 for on, _ in itertools.groupby(label != -100 for label in cut["labels"]) if on) == trained


TOOLS = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}<call>{{ call.function | tojson }}</call>{% endfor %}"
    "{{ '<|eom|>' if m.tool_calls else '<|im_end|>' }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_tool_calls_are_trained_on_and_what_tools_return_is_not(write):
    tokenizer = with_special(TOOLS, "<|eom|>")
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
    messages = [
        {"role": "user", "content": "1+1?"}, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "add", "content": "2"}, {"role": "assistant", "content": "It is 2."},
    ]  # fmt: skip
    tools = [{"type": "function", "function": {"name": "add"}}]
    rows = load_rows(None, files=[write("calls.jsonl", [{"messages": messages, "tools": tools}])])
    row = encode_row(tokenizer, rows.rows[0], None)
    assert encode_rows(tokenizer, rows, None).encoded[0]["labels"] == row.labels
    assert [text_of(tokenizer, row.input_ids[begin:end]) for begin, end in row.trained] == [
        '<call>{"name": "add", "arguments": {"a": 1}}</call><|eom|>',
        "It is 2.<|im_end|>",
    ]
    assert '{"name": "add"}' in text_of(tokenizer, row.input_ids[: row.trained[0][0]])
    # A chat may end with the call.
    assert answers(tokenizer, [messages[0], {**messages[1], "content": ""}]) == [
        '<call>{"name": "add", "arguments": {"a": 1}}</call><|eom|>'
    ]


FORGETS = CHATML.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1] }}")
MOVES = CHATML.replace(
    "{{ m.content }}", "{{ 'Brief! ' if loop.last or loop.nextitem.role == 'assistant' }}{{ m.content }}"
)
MOVES = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ 'Be brief. ' if loop.index0 >= messages | length - 2 and m.role == 'user' }}{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize(
    ("template", "contents"),
    [(FORGETS, ("One?", "<think>hm</think>1", "Two?", "2")), (MOVES, ("One?", "1", "Two?", "2"))],
    ids=["drops-thinking", "moves-the-system-prompt"],
)
def test_a_template_that_rewrites_the_past_gets_a_row_for_each_answer(template, contents, write):
    tokenizer = small_tokenizer(template)
    rows = load_rows(None, files=[write("chats.jsonl", [{"messages": chat(*contents)}] * 2)])
    found = encode_rows(tokenizer, rows, None)
    assert found.counts == {"kept": 2, "truncated": 0, "empty": 0, "fully_masked": 0}
    assert (found.facts["chats"], found.facts["rows"]) == (2, 4)
    assert list(found.encoded["chat"]) == [0, 0, 1, 1]
    for row, index in zip(found.encoded, [1, 3] * 2, strict=True):
        prompt = prompt_token_ids(tokenizer, chat(*contents)[:index])
        assert row["input_ids"][: len(prompt)] == prompt
        trained = [label for label in row["labels"] if label != -100]
        assert row["input_ids"] == prompt + trained
        assert text_of(tokenizer, trained) == contents[index] + "<|im_end|>"


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


def test_pieces_that_merge_are_tokenized_separately():
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE({"a": 0, "\n": 1, "\n\n": 2, ".": 3}, [("\n", "\n")]))
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core)
    assert chat_token_ids(tokenizer, [["a\n", "a."], ["a\n", "\na."], []]) == [
        [[0, 1], [0, 3]],
        [[0, 1], [1, 0, 3]],
        [],
    ]


@pytest.mark.parametrize(
    ("name", "content", "template", "count"),
    [
        ("rows.txt", "<s>one\ntwo\n<s>three", None, 2),
        ("rows.jsonl", [{"prompt": "<s>one", "completion": "two"}, {"prompt": "a", "completion": "b"}], "alpaca", 0),
        ("rows.jsonl", [{"prompt": "one", "completion": "two"}] * 3, "chat", 3),
    ],
)
def test_rows_that_begin_with_two_beginnings_are_counted(name, content, template, count, write):
    tokenizer = small_tokenizer("<s><s>" + CHATML, before="<s>")
    notes = encode_rows(tokenizer, load_rows(None, files=[write(name, content)], template=template), None).notes
    assert [note.partition(" with the token that begins a text twice")[0] for note in notes] == [
        f"warning: {count} rows"
    ] * bool(count)
