"""Weights of rows, turns and prompts: read from every format and file, kept in the labels, refused if they are none."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from row_sets import row_set
from small_tokenizers import small_tokenizer, text_of

from instruct.base.errors import InputError
from instruct.data.rows import load_rows
from instruct.data.sources import RawRow
from instruct.data.token_weights import split_labels
from instruct.data.tokens import RowEncoder, encode_rows

USER, ANSWER = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yes"}
# Each row's answer is "yes".
ROWS: dict[str, dict[str, Any]] = {
    "alpaca": {"instruction": "Hi", "output": "yes"},
    "alpaca with history": {"instruction": "Hi", "output": "yes", "history": [["a", "b"]]},
    "sharegpt": {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "yes"}]},
    "sharegpt with roles": {"conversations": [USER, ANSWER]},
    "messages": {"messages": [USER, ANSWER]},
    "prompt_completion": {"prompt": "Hi", "completion": "yes"},
    "prompt_completion of messages": {"prompt": [USER], "completion": [ANSWER]},
    "text": {"text": "yes"},
}


def weighed(tokenizer: Any, row: dict[str, Any]) -> list[tuple[str, float]]:
    """The texts with a loss, each with its weight."""
    labels, weights = split_labels(torch.tensor(row["labels"], dtype=torch.int64))
    found = []
    for weight, places in itertools.groupby(range(len(labels)), key=lambda i: (weights[i].item(), labels[i] >= 0)):
        if weight[1]:
            found.append((text_of(tokenizer, labels[list(places)].tolist()), weight[0]))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_every_format_takes_a_weight(write, name):
    file = write("rows.jsonl", [{**ROWS[name], "weight": weight} for weight in (2, None, 0.5, 0, 1)])
    tokenizer = small_tokenizer()
    for template in ("chat", "alpaca") if name not in ("alpaca with history", "text") else (None,):
        rows = load_rows(None, files=[file], template=template)
        assert rows.counts == {"read": 5, "kept": 5, "empty": 0}
        assert rows.notes == []
        found = encode_rows(tokenizer, rows, None)
        end = "</s>" if template == "alpaca" or name == "text" else "<|im_end|>"
        expected = [[(f"yes{end}", weight)] for weight in (2.0, 1.0, 0.5)] + [[], [(f"yes{end}", 1.0)]]
        assert [weighed(tokenizer, row)[-1:] for row in found.encoded] == expected
        assert found.counts == {"kept": 4, "truncated": 0, "empty": 0, "fully_masked": 1}
        assert len(found.trainable) == 4
        held_out = encode_rows(tokenizer, rows, None, prompt_weight=None)
        counted = [[(f"yes{end}", 1.0)] * len(texts) for texts in expected]
        assert [weighed(tokenizer, row)[-1:] for row in held_out.encoded] == counted


@pytest.mark.parametrize("value", [-1, math.nan, 1e10, "2"])
def test_a_weight_that_is_none_is_refused(write, value):
    file = write("rows.jsonl", [ROWS["messages"], {**ROWS["messages"], "weight": value}])
    with pytest.raises(InputError) as caught:
        load_rows(None, files=[file])
    line = str(caught.value)
    assert line.startswith(f"{file}, row 2: weight: must be a number from 0 to 1,000,000,000 (given: ")


NUMBER = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.0])


@settings(deadline=None, max_examples=25)
@given(
    turns=st.lists(st.one_of(st.none(), NUMBER), min_size=1, max_size=4),
    row=NUMBER,
    prompt=NUMBER,
    train_on=st.sampled_from(["assistant_turns", "last_turn", "all_tokens"]),
    cut=st.integers(1, 200),
)
def test_labels_have_the_product_of_row_turn_and_prompt(turns, row, prompt, train_on, cut):
    """Each byte is a token here: the text with its weights is written down by hand."""
    tokenizer = small_tokenizer()
    messages, expected = [], []
    prompt = 0.0 if train_on == "all_tokens" else prompt
    share = 1.0 if train_on == "all_tokens" else prompt
    trained = [number for number, weight in enumerate(turns) if weight != 0]
    last = max(trained, default=len(turns) - 1)
    for number, weight in enumerate(turns):
        messages += [{"role": "user", "content": f"Q{number}"}]
        messages += [{"role": "assistant", "content": f"A{number}"} | ({} if weight is None else {"weight": weight})]
        if number <= last:
            own = 1.0 if weight is None else weight
            context = share * own
            counts = own if number == last or train_on == "assistant_turns" else context
            asked = f"<|im_start|>user\nQ{number}<|im_end|>\n<|im_start|>assistant\n"
            expected += [(token, share) for token in tokenizer(asked)["input_ids"]]
            expected += [(token, counts) for token in tokenizer(f"A{number}<|im_end|>")["input_ids"]]
            if number < last:
                expected += [(token, share) for token in tokenizer("\n")["input_ids"]]
    wanted = [(token, weight * row) if weight * row else (-100, 1.0) for token, weight in expected]
    raw = {"messages": messages, "weight": row}
    rows = load_rows(None, source=[RawRow("r", 1, raw)], train_on=train_on)
    encoder = RowEncoder(tokenizer, cut, train_on, prompt_weight=prompt)
    (found,) = next(encoder.chats(rows.dataset[:]))
    labels, weights = split_labels(torch.tensor(found["labels"], dtype=torch.int64))
    if not trained or row == 0:
        assert (found["status"], found["input_ids"], encoder.counts["fully_masked"]) == ("fully_masked", [], 1)
        return
    assert list(zip(labels.tolist(), weights.tolist(), strict=True)) == wanted[:cut]
    assert found["loss_tokens"] == sum(label != -100 for label in labels.tolist())
    if found["status"] != "fully_masked":
        assert encoder.weights == Counter(weight for label, weight in wanted[:cut] if label != -100)


def test_prompts_of_completions_are_weighed_and_their_own_answers_as_context():
    tokenizer = small_tokenizer()
    before = {"role": "assistant", "content": "no", "weight": 0}
    row = {"prompt": [USER, before, USER], "completion": [ANSWER, USER, {**ANSWER, "weight": 3.0}], "weight": 2.0}
    (found,) = encode_rows(tokenizer, row_set(row), None, prompt_weight=0.5).encoded
    texts = weighed(tokenizer, found)
    assert [weight for _, weight in texts] == [1.0, 1.0, 2.0, 1.0, 6.0]
    assert [text for text, _ in texts][2::2] == ["yes<|im_end|>", "yes<|im_end|>"]
    assert not any("no" in text for text, _ in texts)
