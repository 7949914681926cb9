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
from instruct.data.formats import MOST_WEIGHT
from instruct.data.rows import load_rows
from instruct.data.sources import RawRow
from instruct.data.token_weights import float32, split_labels, weighted_labels, weights_line, weights_record
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
FLAT = ("alpaca", "prompt_completion", "text")
PLACES = [*itertools.product(ROWS, ["jsonl"]), *itertools.product(FLAT, ["csv"])]


def as_file(write, suffix: str, rows: list[dict[str, Any]]) -> str:
    if suffix == "jsonl":
        return write("rows.jsonl", rows)
    lines = [list(rows[0]), *(["" if value is None else str(value) for value in row.values()] for row in rows)]
    return write("rows.csv", "".join(",".join(line) + "\n" for line in lines))


def weighed(tokenizer: Any, row: dict[str, Any]) -> list[tuple[str, float]]:
    """The texts with a loss, each with its weight."""
    labels, weights = split_labels(torch.tensor(row["labels"], dtype=torch.int64))
    found = []
    for weight, places in itertools.groupby(range(len(labels)), key=lambda i: (weights[i].item(), labels[i] >= 0)):
        if weight[1]:
            found.append((text_of(tokenizer, labels[list(places)].tolist()), weight[0]))
    return found


@pytest.mark.parametrize(("name", "suffix"), PLACES)
def test_every_format_takes_a_weight(write, name, suffix):
    weights = [2, None, 0.5, 0, 1]
    file = as_file(write, suffix, [{**ROWS[name], "weight": weight} for weight in weights])
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


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("value", [-1, math.nan, 1e10, "2", True, {}])
def test_a_weight_that_is_none_is_refused(write, name, value):
    file = write("rows.jsonl", [ROWS[name], {**ROWS[name], "weight": value}])
    with pytest.raises(InputError) as caught:
        load_rows(None, files=[file])
    line = str(caught.value)
    assert line.startswith(f"{file}, row 2: weight: must be a number from 0 to 1,000,000,000 (given: ")
    assert len(load_rows(None, files=[file], on_bad_row="skip").rows) == 1


@pytest.mark.parametrize(
    ("name", "content", "field"),
    [
        ("rows.jsonl", [{"messages": [USER, {**ANSWER, "weight": "0.5", "train": False}]}], "messages[1].weight"),
        ("rows.jsonl", [{"prompt": "Hi", "completion": [{**ANSWER, "weight": -1}]}], "completion[0].weight"),
        ("rows.jsonl", [{"conversations": [USER, {**ANSWER, "weight": math.nan}]}], "conversations[1].weight"),
        ("rows.csv", "text,weight\na,nan\nb,1\n", "weight"),
    ],
)
def test_a_turn_or_a_cell_of_such_a_weight_is_refused(write, name, content, field):
    file = write(name, content)
    with pytest.raises(InputError) as caught:
        load_rows(None, files=[file])
    assert str(caught.value).startswith(f"{file}, row 1: {field}: must be a number")


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
        counted = Counter(weight for label, weight in wanted[:cut] if label != -100)
        assert encoder.weights == counted
        record = weights_record(counted)
        assert bool(record) == (set(counted) != {1.0})
        if record:
            mean = sum(weight * count for weight, count in counted.items()) / counted.total()
            assert record["mean"] == pytest.approx(mean, rel=1e-5)
            assert weights_line(record)


@settings(deadline=None)
@given(weight=st.floats(1e-9, MOST_WEIGHT), token=st.integers(0, 2**31 - 1))
def test_a_label_keeps_its_token_and_a_float32(weight, token):
    labels, weights = split_labels(torch.tensor(weighted_labels([token, token, 7], [(1, 2, weight)])))
    assert labels.tolist() == [-100, token, -100]
    assert weights.tolist() == [1.0, float32(weight), 1.0]
    assert float32(weight) == pytest.approx(weight, rel=1e-6)
    assert weighted_labels([token], [(0, 1, 1.0)]) == [token]


def test_prompts_of_completions_are_weighed_and_their_own_answers_as_context():
    tokenizer = small_tokenizer()
    before = {"role": "assistant", "content": "no", "weight": 0}
    row = {"prompt": [USER, before, USER], "completion": [ANSWER, USER, {**ANSWER, "weight": 3.0}], "weight": 2.0}
    (found,) = encode_rows(tokenizer, row_set(row), None, prompt_weight=0.5).encoded
    texts = weighed(tokenizer, found)
    assert [weight for _, weight in texts] == [1.0, 1.0, 2.0, 1.0, 6.0]
    assert [text for text, _ in texts][2::2] == ["yes<|im_end|>", "yes<|im_end|>"]
    assert not any("no" in text for text, _ in texts)
