"""Training on plain text: like TRL in Python, packed without loss of tokens from the command, resumable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny import VOCABULARY, assert_like_trl, make_trainer, tiny_model, tiny_tokenizer
from train_configs import rows_of, tiny_config

from instruct.base.errors import InputError

PACKINGS: list[dict[str, Any]] = [
    {},
    {"packing": True, "packing_strategy": "bfd_split"},
]


def text_rows(lengths: list[int]) -> Dataset:
    generator = torch.Generator().manual_seed(3)
    words = [torch.randint(0, VOCABULARY - 3, (length,), generator=generator).tolist() for length in lengths]
    return Dataset.from_list([{"text": " ".join(f"w{word}" for word in row)} for row in words])


@pytest.mark.parametrize("packing", PACKINGS, ids=lambda packing: packing.get("packing_strategy", str(packing)))
def test_text_rows_train_as_with_trl(tmp_path, packing):
    assert_like_trl(tmp_path, rows=text_rows([5, 30, 3, 12, 8, 2]), max_length=16, **packing)


def token_by_token(model: Any, documents: list[list[int]]) -> float:
    """The cross-entropy of every token after a document's first, given the tokens before it, one forward each."""
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for ids in documents:
            for end in range(1, len(ids)):
                logits = model(input_ids=torch.tensor([ids[:end]])).logits[0, -1].double()
                total -= float(torch.log_softmax(logits, -1)[ids[end]])
                count += 1
    return total / count


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_packed_texts_do_not_see_each_other(tmp_path, attention):
    """Blocks with boundaries have the loss of each text alone, computed token by token."""
    rows = text_rows([5, 9, 3, 12, 8, 2, 4])
    model = tiny_model()
    model.set_attn_implementation(attention)
    trainer = make_trainer(tmp_path, model, rows=rows, packing=True, max_length=16, per_device_eval_batch_size=2)
    found = trainer.evaluate(rows)
    documents = [tiny_tokenizer()(row["text"] + "</s>")["input_ids"] for row in rows]
    assert found["eval_ce"] == pytest.approx(token_by_token(model, documents), rel=1e-5)


def write_texts(path: Path, count: int = 30) -> str:
    path.write_text("".join(f" = Line {index} = \n\n" + "word " * (index * 3 % 40) + "\n" for index in range(count)))
    return str(path)


def test_a_text_that_would_be_cut_is_refused(tmp_path, tiny_model_folder):
    file = write_texts(tmp_path / "texts.txt")
    config = tiny_config(tiny_model_folder, file, data={"files": [file]})
    config.train.update({"max_length": 64, "packing": True, "packing_strategy": "bfd"})
    with pytest.raises(
        InputError, match=r"texts.txt:\d+: this text has \d+ tokens, more than max_length 64; set packing to true"
    ):
        rows_of(config)
