"""Small models from scratch: whole words to the letter, vectors of another model, random weights of each seed."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file
from scratch import TABLE, make_word_model
from transformers import AutoTokenizer

from instruct.config import make_config
from instruct.run.directory import RunDirectory
from instruct.training.rows import load_training_rows
from instruct.training.train import train_system

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


def test_every_seed_starts_from_random_weights_of_its_own(tmp_path, word_model):
    (tmp_path / "train.txt").write_text(TEXT * 4)
    content = {
        "name": "scratch",
        "model": {"name": str(word_model), "dtype": "float32"},
        "data": {"files": [str(tmp_path / "train.txt")], "documents": "file"},
        "lora": None,
        "from_scratch": True,
        "train": {"max_steps": 1, "max_length": 16, "learning_rate": 1e-9, "use_cpu": True},
        "systems": {"emo": {"objective": "emo", "transport_cost": str(word_model / TABLE)}},
        "seeds": [1, 2],
    }
    config, run = make_config(content, [], "test"), RunDirectory(tmp_path / "run")
    run.start(config.model_dump(mode="json"))
    rows = load_training_rows(config.data, config.model, config.train)
    for name in config.systems:
        train_system(config, name, run, rows)
    folders = (run.adapters / "emo-seed1", run.adapters / "emo-seed2", word_model)
    one, two, start = (load_file(folder / "model.safetensors")["model.embed_tokens.weight"] for folder in folders)
    assert not torch.allclose(one, two, atol=1e-4)
    assert not torch.allclose(one, start, atol=1e-4)
