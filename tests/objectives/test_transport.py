"""The transport costs against dense ones, their edges, and tables from disk."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from dense_reference import dense_cosine_cost
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

from instruct.base.errors import InputError
from instruct.objectives import EMO, CosineCost, linear_objective_loss, load_cost_table

VOCABULARY, WIDTH = 83, 24


def table(rows: int = VOCABULARY, width: int = WIDTH, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(dtype)


def off_label(rows: Tensor, labels: Tensor) -> Tensor:
    """The entry at the label itself may be anything: 0, so that the rest can be compared."""
    return rows.double().scatter(1, labels[:, None], 0.0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    # A bfloat16 below 2 is right to 1/256: one rounding of the product, one of the norm, one of the cost.
    [(torch.float64, 1e-14), (torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 1.2e-2)],
    ids=str,
)
def test_rows_equal_the_dense_cosine_cost_in_the_tables_dtype(dtype, tolerance):
    embeddings = table(dtype=dtype)
    labels = torch.tensor([0, 7, 7, VOCABULARY - 1])
    rows = CosineCost(embeddings).rows(labels)
    assert rows.dtype == dtype
    expected = off_label(dense_cosine_cost(embeddings)[labels], labels)
    assert (off_label(rows, labels) - expected).abs().max() <= tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_rows_of_any_norm_are_finite_and_of_equal_embeddings_never_negative(dtype):
    """Reserved tokens share one embedding. A cost rounded below 0 would free EMO's ratio from its bound."""
    limits = torch.finfo(dtype)
    embeddings = table(rows=1, dtype=dtype) * torch.linspace(0.5, 2, VOCABULARY)[:, None].to(dtype)
    embeddings[3] = limits.smallest_normal
    embeddings[4] = limits.max / 2 if dtype == torch.float16 else 1e15
    rows = CosineCost(embeddings).rows(torch.arange(VOCABULARY))
    assert torch.isfinite(rows).all()
    assert rows.min() >= 0
    assert rows[5:, 5:].max() <= 2e-2


def test_a_shorter_table_is_padded_with_tokens_that_cost_one_and_a_longer_one_cut():
    short = table(rows=VOCABULARY - 3)
    cost = CosineCost(short, vocabulary=VOCABULARY)
    rows = cost.rows(torch.tensor([1, VOCABULARY - 1]))
    assert cost.vocabulary == VOCABULARY
    assert torch.allclose(rows[0, :-3], CosineCost(short).rows(torch.tensor([1]))[0], atol=1e-6)
    assert torch.equal(rows[0, -3:], torch.ones(3))
    assert torch.equal(rows[1], torch.ones(VOCABULARY))
    longer = table(rows=VOCABULARY + 9)
    assert torch.equal(CosineCost(longer, vocabulary=VOCABULARY).table, longer[:VOCABULARY])


def test_a_different_vocabulary_is_refused():
    head, hidden = table(), table(rows=2, seed=1)
    with pytest.raises(ValueError, match=f"cost table has 80 rows, the head {VOCABULARY}"):
        linear_objective_loss(hidden, head, torch.tensor([0, 1]), EMO(), CosineCost(table(rows=80)))
    with pytest.raises(ValueError, match=r"cost table has 10 rows, the head 1000: .* different tokenizers"):
        CosineCost(table(rows=10), vocabulary=1_000)


LLAMA = LlamaConfig(
    vocab_size=VOCABULARY, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=2,
)  # fmt: skip
TIED = GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=1, n_head=2, n_positions=32)


@pytest.mark.parametrize(("config", "size"), [(LLAMA, "5KB"), (TIED, "100GB")], ids=["sharded", "tied"])
def test_the_table_is_read_from_the_file_of_a_models_head_alone(tmp_path, config, size):
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    model.save_pretrained(tmp_path, max_shard_size=size)
    index = tmp_path / "model.safetensors.index.json"
    if config is LLAMA:
        files = json.loads(index.read_text())["weight_map"]
        for name in {*files.values()} - {files["lm_head.weight"]}:
            (tmp_path / name).unlink()
    found = load_cost_table(tmp_path)
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, model.lm_head.weight)


def test_the_table_is_read_from_a_file(tmp_path):
    embeddings = table()
    alone, among = tmp_path / "table.safetensors", tmp_path / "several.safetensors"
    save_file({"anything": embeddings, "length": torch.ones(3)}, alone)
    save_file({"a": embeddings, "b.weight": embeddings[:, :4].clone()}, among)
    assert torch.equal(load_cost_table(alone), embeddings)
    assert torch.equal(load_cost_table(f"{among}:b.weight"), embeddings[:, :4])


def folder_with(tmp_path: Path, tensors: dict[str, Tensor]) -> Path:
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none.safetensors", "none.safetensors: no such file"),
        (
            lambda folder: folder_with(folder, {"a": table(), "b": table()}) / "model.safetensors",
            "has 2 matrices; name the cost table as model.safetensors:NAME",
        ),
        (
            lambda folder: folder_with(folder, {"lm_head.weight": torch.tensor([[1.0, math.nan]])}),
            "NaN or infinite values",
        ),
    ],
)
def test_a_path_without_a_table_is_refused_in_one_line(tmp_path, make, message):
    with pytest.raises(InputError, match=message) as error:
        load_cost_table(make(tmp_path))
    assert "\n" not in str(error.value)
