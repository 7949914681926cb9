"""Training on plain text: like TRL in Python, packed without loss of tokens from the command, resumable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from tiny import VOCABULARY, assert_like_trl, make_trainer, tiny_model, tiny_tokenizer
from train_configs import rows_of, tiny_config, train

from instruct.base.errors import InputError

PACKINGS: list[dict[str, Any]] = [
    {},
    {"packing": True},
    {"packing": True, "packing_strategy": "bfd_split"},
    {"packing": True, "packing_strategy": "wrapped"},
]


def text_rows(lengths: list[int]) -> Dataset:
    generator = torch.Generator().manual_seed(3)
    words = [torch.randint(0, VOCABULARY - 3, (length,), generator=generator).tolist() for length in lengths]
    return Dataset.from_list([{"text": " ".join(f"w{word}" for word in row)} for row in words])


@pytest.mark.parametrize("packing", PACKINGS, ids=lambda packing: packing.get("packing_strategy", str(packing)))
def test_text_rows_train_as_with_trl(tmp_path, packing):
    assert_like_trl(tmp_path, rows=text_rows([5, 30, 3, 12, 8, 2]), max_length=16, **packing)


def token_by_token(model: Any, documents: list[list[int]]) -> tuple[float, int]:
    """The cross-entropy of every token after a document's first, given the tokens before it, one forward each."""
    total, count = 0.0, 0
    model.eval()
    with torch.no_grad():
        for ids in documents:
            for end in range(1, len(ids)):
                logits = model(input_ids=torch.tensor([ids[:end]])).logits[0, -1].double()
                total -= float(torch.log_softmax(logits, -1)[ids[end]])
                count += 1
    return total / count, count


@pytest.mark.parametrize("objective", ["mle", "emo"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_packed_texts_do_not_see_each_other(tmp_path, objective, attention):
    """Blocks with boundaries have the loss of each text alone, computed token by token."""
    rows = text_rows([5, 9, 3, 12, 8, 2, 4])
    model = tiny_model()
    model.set_attn_implementation(attention)
    trainer = make_trainer(
        tmp_path, model, rows=rows, packing=True, max_length=16, objective=objective, per_device_eval_batch_size=2
    )
    found = trainer.evaluate(rows)
    documents = [tiny_tokenizer()(row["text"] + "</s>")["input_ids"] for row in rows]
    expected, _ = token_by_token(model, documents)
    assert found["eval_ce"] == pytest.approx(expected, rel=1e-5)
    apart = make_trainer(tmp_path / "apart", model, rows=rows, objective=objective).evaluate(rows)
    assert found["eval_loss"] == pytest.approx(apart["eval_loss"], rel=1e-5)


def test_wrapped_texts_see_each_other(tmp_path):
    """As TRL does it: each block is one sequence, whatever texts it has."""
    rows = text_rows([5, 9, 3, 12, 8, 2, 4])
    trainer = make_trainer(tmp_path, rows=rows, packing=True, packing_strategy="wrapped", max_length=16)
    found = trainer.evaluate(rows)
    blocks = list(trainer.train_dataset["input_ids"])
    stream = [token for row in rows for token in tiny_tokenizer()(row["text"] + "</s>")["input_ids"]]
    assert [token for block in blocks for token in block] == stream
    assert {len(block) for block in blocks[:-1]} == {16}
    assert found["eval_ce"] == pytest.approx(token_by_token(trainer.model, blocks)[0], rel=1e-5)


def write_texts(path: Path, count: int = 30) -> str:
    path.write_text("".join(f" = Line {index} = \n\n" + "word " * (index * 3 % 40) + "\n" for index in range(count)))
    return str(path)


@pytest.fixture
def file(tmp_path) -> str:
    return write_texts(tmp_path / "texts.txt")


def text_config(folder: Path, file: str, **train_arguments: Any):
    config = tiny_config(folder, file, data={"files": [file]})
    config.train.update({"max_length": 64, **train_arguments})
    return config


def test_no_token_of_a_packed_text_is_lost(tmp_path):
    rows = text_rows([5, 30, 3, 12, 8, 2])
    trainer = make_trainer(tmp_path, rows=rows, packing=True, packing_strategy="bfd_split", max_length=16)
    blocks = list(trainer.train_dataset["input_ids"])
    assert max(map(len, blocks)) <= 16
    texts = tiny_tokenizer()([row["text"] + "</s>" for row in rows])["input_ids"]
    assert sorted(token for block in blocks for token in block) == sorted(token for text in texts for token in text)


@pytest.mark.parametrize("arguments", [{"packing": False}, {"packing": True, "packing_strategy": "bfd"}])
def test_a_text_that_would_be_cut_is_refused(tiny_model_folder, file, arguments):
    with pytest.raises(
        InputError, match=r"texts.txt:\d+: this text has \d+ tokens, more than max_length 64; set packing to true"
    ):
        rows_of(text_config(tiny_model_folder, file, **arguments))


def test_an_end_token_is_chosen_with_trls_argument(tiny_model_folder, file):
    data = rows_of(text_config(tiny_model_folder, file, eos_token="<|user|>"))
    assert {data.tokenizer.decode(row["input_ids"][-1:]) for row in data.encoded.encoded} == {"<|user|>"}
    with pytest.raises(InputError, match=r"train.eos_token: '<none>' is not a token of .*; name one that is"):
        rows_of(text_config(tiny_model_folder, file, eos_token="<none>"))


def test_training_on_texts_writes_an_adapter_and_a_card(tmp_path, tiny_model_folder, file):
    config = text_config(tiny_model_folder, file)
    run = train(tmp_path / "run", config)
    card = (run.adapters / "emo" / "README.md").read_text()
    data = rows_of(config)
    tokens = sum(len(row["input_ids"]) for row in data.encoded.encoded)
    assert f"on every token of\n`texts.txt`: {data.rows.counts['kept']} texts, {tokens} tokens with" in card
    record = run.manifest()["steps"]["train/emo"]
    assert record["results"]["rows"]["empty"] == data.rows.counts["empty"] > 0
    assert record["config"]["train"]["packing_strategy"] == "bfd_split"
    log = json.loads((run.adapters / "emo" / "training_log.json").read_text())
    assert log[0]["num_tokens"] == pytest.approx(4 * 64, rel=0.2)  # four full blocks a step


def test_the_command_trains_and_previews_a_text_file(instruct, tmp_path, tiny_model_folder, file, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = ["--model", tiny_model_folder, "--data.files", "texts.txt", "--train.max_length", 64]
    code, shown, _ = instruct("preview", *flags, "--rows", 1)
    assert code == 0
    assert "90 rows read, plain text" in shown
    assert instruct("train", *flags, "--objective", "emo", "--train.max_steps", 1)[0] == 0
