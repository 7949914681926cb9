"""Several data sets as one: the order of rows, their counts, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from datasets import Dataset, interleave_datasets
from small_tokenizers import small_tokenizer

from instruct.base.errors import InputError
from instruct.config import make_config
from instruct.data.mixture import mix
from instruct.data.options import DataOptions
from instruct.data.rows import load_rows
from instruct.data.tokens import encode_rows


@pytest.fixture
def files(write):
    """Two files of 30 and 10 rows, whose completions say where they come from; two rows of the second have none."""
    rows = {name: [{"prompt": "p", "completion": f"{name}{i}"} for i in range(n)] for name, n in [("a", 30), ("b", 10)]}
    rows["b"][3]["completion"] = rows["b"][7]["completion"] = ""
    return [write(f"{name}.jsonl", found) for name, found in rows.items()]


def mixed(files: list[str], weights: list[float | None], **more: Any) -> Any:
    sources = [{"files": [file], "weight": weight} for file, weight in zip(files, weights, strict=True)]
    options = DataOptions.model_validate({"mixture": sources, **more})
    sets = [load_rows(None, files=source.files, template="alpaca") for source in options.parts]
    together = mix(options, [encode_rows(small_tokenizer(), rows, 500) for rows in sets])
    return together.rows, together


def completions(encoded: Any) -> list[str]:
    tokenizer = small_tokenizer()
    return [
        tokenizer.decode(row["input_ids"][-row["completion_length"] :]).removesuffix("</s>").strip()
        for row in encoded.trainable
    ]


@pytest.mark.parametrize("strategy", [None, "all_exhausted"])
def test_rows_follow_each_other_as_in_interleave_datasets(files, strategy):
    texts = [[f"a{i}" for i in range(30)], [f"b{i}" for i in range(10) if i not in (3, 7)]]
    theirs = interleave_datasets(
        [Dataset.from_dict({"text": part}) for part in texts],
        probabilities=[0.75, 0.25],
        seed=5,
        stopping_strategy=strategy or "first_exhausted",
    )
    assert completions(mixed(files, [0.75, 0.25], stopping_strategy=strategy, seed=5)[1]) == list(theirs["text"])
    assert completions(mixed(files, [None, None])[1]) == [*texts[0], *texts[1]]


def test_the_hash_covers_rows_weights_seed_and_strategy(files, write):
    hashes = {
        mixed(files, [0.5, 0.5])[0].sha256,
        mixed(files, [0.6, 0.4])[0].sha256,
        mixed(files, [0.5, 0.5], seed=1)[0].sha256,
        mixed([files[0], write("c.jsonl", [{"prompt": "p", "completion": "c"}])], [0.5, 0.5])[0].sha256,
    }
    assert len(hashes) == 4
    assert mixed(files, [0.5, 0.5])[0].sha256 in hashes


def test_a_wrong_mixture_is_refused_in_one_line():
    mixture = [{"card": "starter", "weight": 0.5}, {"files": ["b.jsonl"], "weight": 0.6}]
    with pytest.raises(InputError) as error:
        make_config({"name": "x", "data": {"mixture": mixture}}, [], "c.yaml")
    assert str(error.value) == "c.yaml: data: mixture: the weights must sum to 1 (0.5 + 0.6 = 1.1); change them"
