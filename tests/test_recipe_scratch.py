"""Small models from scratch: whole words to the letter, vectors of another model, random weights of each seed."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from scratch import TABLE, make_small_model, make_word_model
from transformers import AutoTokenizer

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.objectives import load_cost_table
from instruct.run.directory import RunDirectory
from instruct.training.rows import load_training_rows
from instruct.training.train import train_system, trainer_arguments

SHAPE = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
TEXT = " the cat sat on the mat \n the dog <unk> on the cat \n"


@pytest.fixture(scope="module")
def word_model(tmp_path_factory, tiny_model_folder):
    folder = tmp_path_factory.mktemp("scratch") / "start"
    make_word_model(folder, [TEXT], 8, str(tiny_model_folder), **SHAPE)
    return folder


def test_words_are_tokens_and_together_the_text_to_the_letter(word_model):
    tokenizer = AutoTokenizer.from_pretrained(word_model)
    assert len(tokenizer) == 8
    ids = tokenizer(" the cat \n on the zebra")["input_ids"]
    assert tokenizer.decode(ids) == " the cat \n on the <unk>"
    assert len(ids) == 6
    assert tokenizer.eos_token == "<|endoftext|>"


def test_the_table_has_the_mean_of_the_other_models_rows_for_each_word(word_model, tiny_model_folder):
    table, head = load_cost_table(word_model / TABLE), load_cost_table(tiny_model_folder)
    tokenizer, other = (AutoTokenizer.from_pretrained(folder) for folder in (word_model, tiny_model_folder))
    assert table.shape == (8, head.shape[1])
    word = tokenizer(" cat")["input_ids"]
    ids = other(" cat", add_special_tokens=False)["input_ids"]
    assert len(ids) == 4
    assert torch.allclose(table[word[0]], head[ids].float().mean(dim=0))


def test_another_models_tokenizer_can_be_used(tmp_path, tiny_model_folder):
    make_small_model(tmp_path / "small", str(tiny_model_folder), **SHAPE)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "small")
    assert tokenizer.get_vocab() == AutoTokenizer.from_pretrained(tiny_model_folder).get_vocab()
    assert len(load_cost_table(tmp_path / "small")) == len(tokenizer)


def config(tmp_path, word_model, **over):
    (tmp_path / "train.txt").write_text(TEXT * 4)
    return make_config(
        {
            "name": "scratch",
            "model": {"name": str(word_model), "dtype": "float32"},
            "data": {"files": [str(tmp_path / "train.txt")], "documents": "file"},
            "lora": None,
            "from_scratch": True,
            "train": {"max_steps": 1, "max_length": 16, "learning_rate": 1e-9, "use_cpu": True},
            "systems": {
                name: {"objective": "emo", "transport_cost": str(word_model / TABLE), "seed": seed, **rate}
                for name, seed, rate in (("one", 1, {}), ("two", 2, {"learning_rate": 1e-8}))
            },
            **over,
        },
        [],
        "test",
    )


def test_every_seed_starts_from_random_weights_of_its_own(tmp_path, word_model):
    given, run = config(tmp_path, word_model), RunDirectory(tmp_path / "run")
    run.start(given.model_dump(mode="json"))
    rows = load_training_rows(given.data, given.model, given.train)
    results = {name: train_system(given, name, run, rows) for name in given.systems}
    weights = {name: load_file(run.adapters / name / "model.safetensors") for name in given.systems}
    start = load_file(word_model / "model.safetensors")
    key = "model.embed_tokens.weight"
    for first, second in ((weights["one"], weights["two"]), (weights["one"], start)):
        assert not torch.allclose(first[key], second[key], atol=1e-4)
    card = (run.adapters / "one" / "README.md").read_text()
    assert "trained from random weights with the objective **emo**" in card
    assert results["one"]["steps"] == 1


def test_a_system_may_have_a_learning_rate_of_its_own(tmp_path, word_model):
    given = config(tmp_path, word_model)
    rates = {name: trainer_arguments(given, given.systems[name], tmp_path).learning_rate for name in given.systems}
    assert rates == {"one": 1e-9, "two": 1e-8}


def test_random_weights_are_refused_with_an_adapter(tmp_path, word_model):
    with pytest.raises(InputError, match="from_scratch: random weights have to be trained; set lora to null"):
        config(tmp_path, word_model, lora={"r": 2})
