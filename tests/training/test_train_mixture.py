"""Training on several data sets: which rows are held out, and how files of evaluation rows are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from train_configs import rows_of, tiny_config, write_rows

from instruct.base.errors import InputError


def chats(path) -> str:
    turns = [{"role": ("user", "assistant")[i % 2], "content": f"Turn {i}."} for i in range(5)]
    path.write_text((json.dumps({"messages": turns}) + "\n") * 8)
    return str(path)


@pytest.fixture
def data(tmp_path) -> dict:
    rows, others = write_rows(tmp_path / "rows.jsonl"), chats(tmp_path / "chats.jsonl")
    sources = [{"files": [rows], "weight": 0.75, "template": "alpaca"}, {"files": [others], "weight": 0.25}]
    return {"mixture": sources, "stopping_strategy": "all_exhausted"}


def test_every_data_set_of_a_mixture_holds_out_its_share(tiny_model_folder, data):
    """No row that is held out is drawn, however often rows repeat."""
    held_out = rows_of(tiny_config(tiny_model_folder, "", data={**data, "eval_fraction": 0.25}))
    sources = [Path(source).name.partition(":")[0] for source in held_out.eval_encoded.rows.sources]
    assert sources == ["rows.jsonl"] * 6 + ["chats.jsonl"] * 2  # each once, whatever the weights
    assert held_out.rows.counts == {"read": 32, "kept": 24, "empty": 0, "held_out": 8}
    assert not set(held_out.rows.sources) & set(held_out.eval_encoded.rows.sources)
    rest = {tuple(ids) for ids in held_out.eval_encoded.encoded["input_ids"][:6]}  # the chats are all alike
    assert not rest & {tuple(row["input_ids"]) for row in held_out.encoded.trainable}


def test_evaluation_files_are_read_like_the_first_data_set_of_a_mixture(tmp_path, tiny_model_folder, data):
    evaluated_on = write_rows(tmp_path / "eval.jsonl")
    found = rows_of(tiny_config(tiny_model_folder, "", data={**data, "eval_files": [evaluated_on]}))
    assert len(found.eval_encoded.rows.rows) == 24
    assert found.eval_encoded.rows.rows[:] == found.rows.rows[:24]  # Alpaca's template, as the first data set sets it
    others = chats(tmp_path / "others.jsonl")
    with pytest.raises(
        InputError, match=r"others.jsonl, row 1: has the columns messages, but the training rows are of"
    ):
        rows_of(tiny_config(tiny_model_folder, "", data={**data, "eval_files": [others]}))
