"""Token ids and masks: with the real SmolLM2 tokenizer, and with small ones that have each peculiarity."""

from __future__ import annotations

from typing import Any

import pytest
from encoded_rows import encode_row
from hypothesis import given, settings
from hypothesis import strategies as st
from row_sets import row_set
from small_tokenizers import CHATML, small_tokenizer, text_of

from instruct.base.errors import InputError
from instruct.data.formats import to_row
from instruct.data.sources import RawRow
from instruct.data.tokens import encode_rows, prompt_token_ids

USER = [{"role": "user", "content": "Say hello"}]
HELLO = {"prompt": USER, "completion": [{"role": "assistant", "content": "hello there"}]}
PLAIN = {"prompt": "Say hello", "completion": "hello there"}


def responses(tokenizer: Any, row: Any) -> str:
    """The text on which the loss falls."""
    encoded = encode_row(tokenizer, row, None)
    return text_of(tokenizer, [label for label in encoded.labels if label != -100])


# Any text, except characters that the tokenizer treats as special tokens.
TEXT = st.text(st.characters(codec="utf-8"), max_size=40).filter(lambda text: "<|" not in text)
ANSWER = TEXT.filter(lambda text: text.strip())


@settings(deadline=None)
@given(instruction=TEXT, input=TEXT, answer=ANSWER, template=st.sampled_from(["alpaca", "chat"]), data=st.data())
def test_the_mask_covers_only_the_answer_and_its_end_token(
    smollm2_tokenizer, instruction, input, answer, template, data
):
    tokenizer = smollm2_tokenizer
    fields = {"instruction": instruction, "input": input, "output": answer}
    row = to_row(RawRow("f", 1, fields), "alpaca", template)
    assert row is not None
    prompt = prompt_token_ids(tokenizer, row["prompt"])
    whole = encode_row(tokenizer, row, None)
    assert whole.status == "kept"
    assert whole.input_ids[: len(prompt)] == prompt
    assert whole.input_ids[len(prompt) :] == [
        *tokenizer(answer, add_special_tokens=False)["input_ids"],
        tokenizer.convert_tokens_to_ids("<|im_end|>"),
    ]
    assert whole.labels == [-100] * len(prompt) + whole.input_ids[len(prompt) :]

    limit = data.draw(st.integers(1, len(whole.input_ids) + 2))
    cut = encode_row(tokenizer, row, limit)
    assert cut.input_ids == whole.input_ids[:limit]
    assert cut.labels == whole.labels[:limit]
    assert (cut.length, cut.completion_length) == (whole.length, whole.completion_length)
    expected = "kept" if limit >= len(whole.input_ids) else "truncated" if limit > len(prompt) else "fully_masked"
    assert cut.status == expected
    assert any(label != -100 for label in cut.labels) == (cut.status != "fully_masked")


def test_a_plain_prompt_gets_the_start_token_but_no_end_token():
    begins = small_tokenizer(before="<s>")
    assert text_of(begins, prompt_token_ids(begins, "hi")) == "<s>hi"
    ends = small_tokenizer(before="<s>", after="</s>")
    assert text_of(ends, prompt_token_ids(ends, "hi")) == "<s>hi"
    assert responses(ends, PLAIN) == "hello there</s>"
    assert text_of(ends, encode_row(ends, PLAIN, None).input_ids) == "<s>Say hellohello there</s>"
    # One token serves as both, as in OPT: the start token stays, and so does the prompt's last token.
    same = small_tokenizer(before="</s>")
    assert text_of(same, prompt_token_ids(same, "hi")) == "</s>hi"
    assert text_of(same, prompt_token_ids(same, "")) == "</s>"
    # A chat template writes its own tokens: none are added around it.
    assert text_of(ends, prompt_token_ids(ends, USER)) == (
        "<|im_start|>user\nSay hello<|im_end|>\n<|im_start|>assistant\n"
    )


REFUSED = [
    (None, "the tokenizer has no chat template; set data.chat_template"),
    (
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}",
        "the tokenizer's chat template does not render the answer; set data.chat_template",
    ),
    (
        CHATML.replace("<|im_end|>", "END"),
        "the tokenizer's chat template ends an answer without a special token, so the model could not learn to stop",
    ),
    (
        "{{ raise_exception('No systems\n here') }}",
        "the tokenizer's chat template rejects this chat (No systems here); ",
    ),
]


@pytest.mark.parametrize(("template", "message"), REFUSED)
def test_an_unusable_template_is_refused_in_one_line(template, message):
    with pytest.raises(InputError) as error:
        encode_row(small_tokenizer(template), HELLO, None)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_a_tokenizer_without_an_end_token_is_refused():
    with pytest.raises(InputError, match="the tokenizer has no end token, so the model could not learn to stop"):
        encode_row(small_tokenizer(eos=None), PLAIN, None)
    # A chat template adds its own.
    assert responses(small_tokenizer(eos=None), HELLO) == "hello there<|im_end|>"


def test_every_row_is_counted():
    tokenizer = small_tokenizer()
    sizes = [(3, 5), (3, 6), (3, 7), (8, 1), (9, 1), (7, 1)]  # characters: each is a token
    plain = row_set(*({"prompt": "p" * p, "completion": "c" * c} for p, c in sizes), empty=1)
    encoded = encode_rows(tokenizer, plain, 8)
    assert encoded.counts == {"kept": 0, "truncated": 4, "empty": 1, "fully_masked": 2}
    assert encode_rows(tokenizer, plain, None).counts == {"kept": 6, "truncated": 0, "empty": 1, "fully_masked": 0}

    dataset = encoded.dataset()
    assert dataset.column_names == ["input_ids", "labels"]
    assert list(dataset["labels"]) == [*list(encoded.encoded["labels"])[:3], encoded.encoded[5]["labels"]]
