"""MAUVE, oracle perplexity, ROUGE and diversity of the continuations in a run."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.generation.continuations import Continuation
from instruct.measuring.mauve import mauve
from instruct.measuring.sampled import (
    TextReader,
    diversity_of,
    draws,
    mauve_of,
    oracle_perplexity_of,
    rouge_of,
    text_clusters,
)
from instruct.measuring.words import rouge
from instruct.run.measurements import Number, PartResult


def continuations(prefixes: int, seeds: int = 2, words: str = "abcdefgh") -> list[Continuation]:
    rng = random.Random(0)

    def text() -> str:
        return " " + " ".join(rng.choices(words, k=8))

    human = [text() for _ in range(prefixes)]
    return [
        Continuation(f"t:{n:03}", f"Prefix {n % 50}", text(), human[n], 0, seed, 8, "length")
        for seed in range(seeds)
        for n in range(prefixes)
    ]


def by_metric(measured: PartResult) -> dict[str, Number]:
    return {row.metric: row for row in measured.numbers}


@pytest.fixture(scope="module")
def reader(tiny_model_folder):
    found = TextReader(ModelOptions(name=str(tiny_model_folder), dtype="float32"), 12)
    yield found
    found.close()


def test_mauve_is_that_of_the_last_states_of_the_first_tokens_of_each_draw(reader):
    rows = continuations(200)
    (found,) = mauve_of(reader, rows).numbers
    by_draw = {}
    for seed in (0, 1):
        own = [row for row in rows if row.seed == seed]
        texts = ([row.prefix + row.reference for row in own], [row.prefix + row.continuation for row in own])
        by_draw[f"{seed}/0"] = mauve(
            *(reader.model.last_states([ids[:12] for ids in reader.model.encode(each)]) for each in texts)
        )
    about = found.details
    assert about.by_draw == pytest.approx({name: each.value for name, each in by_draw.items()})
    assert found.value == pytest.approx(np.mean(list(about.by_draw.values())))
    assert about.star == pytest.approx(np.mean([each.star for each in by_draw.values()]))
    assert found.interval[0] < found.value < found.interval[1]
    assert (found.n, about.clusters, about.max_length) == (200, 20, 12)


def test_continuations_have_a_perplexity_for_all_and_for_each_seed_and_empty_ones_are_counted(reader):
    texts = [("a few wor", "ds to learn", 1), ("a few", "", 1), ("words", " more", 2), ("words and", " other words", 1)]
    rows = [
        Continuation(f"t:{place}", prefix, text, " the", 0, seed, 8, "length")
        for place, (prefix, text, seed) in enumerate(texts)
    ]
    measured = oracle_perplexity_of(reader, rows)
    (found,), nats, tokens = measured.numbers, *(np.array(measured.values[name]) for name in ("nats", "tokens"))
    assert (found.n, found.details.empty, found.details.tokens, tokens[1]) == (4, 1, tokens.sum(), 0)
    assert found.value == pytest.approx(math.exp(nats.sum() / tokens.sum()))
    for seed, own in (("1", [0, 3]), ("2", [2])):
        assert found.details.by_seed[seed] == pytest.approx(math.exp(nats[own].sum() / tokens[own].sum()))
    human = [replace(row, continuation=" the", reference=None) for row in rows]
    (beside,) = oracle_perplexity_of(reader, human).numbers
    assert (found.details.human, beside.details.human) == (pytest.approx(beside.value), None)


def test_the_order_of_the_rows_does_not_matter_and_a_draw_lacks_no_prefix():
    rows = continuations(20)
    assert draws(rows) == draws(random.Random(1).sample(rows, len(rows)))
    with pytest.raises(InputError, match=r"draw 1/0 \(seed/sample\) lacks prefix 't:019'; generate them again"):
        draws(rows[:-1])


def test_rouge_is_computed_with_and_without_the_prefix():
    rows = [*continuations(3), replace(continuations(1)[0], id="x", continuation="日本", seed=0)]
    measured = rouge_of(rows)
    found, columns = by_metric(measured)["rouge1"], measured.values
    for place, row in enumerate(rows):
        assert columns["rougeL"][place] == rouge(row.reference, row.continuation)["rougeL"]
        whole = rouge(row.prefix + row.reference, row.prefix + row.continuation)
        assert columns["rouge1_whole"][place] == whole["rouge1"]
    assert found.value == pytest.approx(np.mean(columns["rouge1"]))
    assert (found.n, found.details.without_tokens) == (7, 1)


def test_diversity_is_the_mean_over_draws_with_the_human_texts_beside_it():
    rows = continuations(60, words="ab")
    measured = diversity_of(rows)
    found = by_metric(measured)
    alone = [by_metric(diversity_of([row for row in rows if row.seed == seed])) for seed in (0, 1)]
    assert found["distinct_2"].value == pytest.approx(np.mean([each["distinct_2"].value for each in alone]))
    assert len(measured.without["distinct_2"]) == 40
    assert found["distinct_1"].details.human == pytest.approx(2 / 480)
    assert found["repetition"].n == 60
    for metric in ("repetition", "words"):
        assert found[metric].value == pytest.approx(np.mean(measured.values[metric]))


def test_texts_after_the_same_prefix_are_left_out_together():
    rows = continuations(100, seeds=1)  # 50 prefixes, each of two texts
    clusters = text_clusters(rows)
    assert {id: int(id[2:]) % 50 for id in clusters} == {id: int(first[2:]) for id, first in clusters.items()}
    together, alone = diversity_of(rows), diversity_of([replace(row, prefix=row.id) for row in rows])
    values = [by_metric(measured)["distinct_2"] for measured in (together, alone)]
    assert values[0].value == values[1].value
    assert together.without["distinct_2"] != alone.without["distinct_2"]
