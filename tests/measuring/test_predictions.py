"""Perplexity, entropy and distances, compared with a token-by-token reference, scipy and torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as kl
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.errors import InputError, InstructError
from instruct.base.models import ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.measuring.options import HeldOutOptions
from instruct.measuring.predictions import (
    DISTANCES,
    TOLERANCE,
    HeldOut,
    Reading,
    check_vocabularies,
    distances,
    entropy,
    likelihoods,
    matching_temperatures,
    mean_entropies,
    perplexity,
    position_distances,
    read_held_out,
)

TEXTS = ["Ünïcödé, first of all.", "x", " = Heading = ", "A longer text with words to learn, " * 4, "Dæta"]
ROW = st.lists(st.floats(-8, 8), min_size=5, max_size=5)


@pytest.fixture
def model(tiny_model) -> ForwardModel:
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


@pytest.fixture
def read(model) -> Callable[..., Reading]:
    """`read(texts, prefixes)`: whole texts, or texts that go on with a prefix."""

    def make(texts: list[str] = TEXTS, prefixes: list[str] | None = None, length: int = 1024, by=model) -> Reading:
        ids = [str(place) for place in range(len(texts))]
        return Reading(by, HeldOut(ids, prefixes or [""] * len(texts), texts, prefixes is None), length)

    return make


def network_of(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.mark.parametrize("max_length", [1024, 24])
def test_perplexity_equals_a_token_by_token_reference(read, tiny_model, max_length):
    network, tokenizer = network_of(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    nats, end_nats, tokens, words, sizes = 0.0, 0.0, 0, 0, 0
    for text in TEXTS:
        ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        for place in range(1, len(ids)):
            # Windows of max_length tokens begin anew at every half of one.
            half = max_length // 2
            begin = max(0 if place < max_length else (place - max_length) // half * half + half, 0)
            with torch.no_grad():
                logits = network(torch.tensor([ids[begin:place]])).logits[0, -1]
            value = -float(logits.log_softmax(-1)[ids[place]])
            nats, tokens = nats + value, tokens + 1
            end_nats += value if place == len(ids) - 1 else 0
        first = tokenizer.decode(ids[:1])
        scored = text[1:] if "\ufffd" in first else text.removeprefix(first)
        words, sizes = words + len(scored.split()), sizes + len(scored.encode())
    measured = perplexity(read(length=max_length))
    of = measured.numbers[0].details
    assert (measured.numbers[0].n, of.tokens, of.words, of.bytes) == (len(TEXTS), tokens, words, sizes)
    assert {row.metric: row.value for row in measured.numbers} == {
        "perplexity": pytest.approx(math.exp(nats / tokens), rel=1e-5),
        "word_perplexity": pytest.approx(math.exp((nats - end_nats) / words), rel=1e-5),
        "byte_perplexity": pytest.approx(math.exp((nats - end_nats) / sizes), rel=1e-5),
    }
    assert (sum(measured.values["nats"]), sum(measured.values["tokens"])) == (pytest.approx(nats, rel=1e-5), tokens)


def test_only_what_follows_a_prefix_is_scored_and_no_end_token(read, model):
    reading = read(["ds to learn", " more"], ["a few wor", "words"])
    values = likelihoods(reading)
    assert values.end_nats.tolist() == [0, 0]
    assert values.words.tolist() == [3, 1]
    assert model.tokenizer.decode(reading.windows[1][1].ids[reading.windows[1][1].start :]) == " more"


def test_what_cannot_be_read_or_has_no_likelihood_is_refused(read, make_model, tmp_path):
    with pytest.raises(InputError, match=r"prefix '0' has 600 tokens, and 512 are read at a time; shorten the prefi"):
        likelihoods(read(["more"], ["x" * 600]))
    folder = make_model(tmp_path / "nan")
    network = AutoModelForCausalLM.from_pretrained(folder)
    network.lm_head.weight.data.fill_(float("nan"))
    network.save_pretrained(folder)
    diverged = open_model(ModelOptions(name=str(folder)))
    with pytest.raises(InstructError, match=rf"model {folder}: gives NaN for a text; its training has diverged"):
        likelihoods(read(by=diverged, length=100))


def test_held_out_text_is_read_to_the_letter_and_blank_lines_are_counted(tmp_path):
    path = tmp_path / "held_out.txt"
    path.write_text(" first \n\n \nsecond\n")
    found = read_held_out(HeldOutOptions(files=[str(path)]))
    assert (found.texts, found.ids) == ([" first ", "second"], [f"{path}:1", f"{path}:4"])
    whole = read_held_out(HeldOutOptions(files=[str(path)], documents="file"))
    assert whole.texts == [path.read_text()]
    assert whole.sha256 != found.sha256


def test_entropies_equal_those_of_torch_s_categorical_at_every_temperature(read, model, tiny_model):
    temperatures, network = [0.0, 0.5, 1.0, 1.7], network_of(tiny_model)
    parts = [entropy(read(), temperature) for temperature in temperatures]
    for place, text in enumerate(TEXTS):
        (ids,) = model.encode([text])
        with torch.no_grad():
            logits = network(torch.tensor([[*ids, model.end]])).logits[0, :-1]
        assert parts[0].values["nats"][place] == 0
        for part, temperature in zip(parts[1:], temperatures[1:], strict=True):
            expected = torch.distributions.Categorical(logits=logits / temperature).entropy().sum()
            assert part.values["nats"][place] == pytest.approx(float(expected), rel=1e-4)
            assert part.values["tokens"][place] == len(ids)
    means = [part.numbers[0].value for part in parts]
    assert means == sorted(means) == mean_entropies(read(), temperatures)
    assert means[2] == pytest.approx(sum(parts[2].values["nats"]) / sum(parts[2].values["tokens"]))


@given(st.lists(st.floats(0.01, 12), min_size=3, max_size=40), st.floats(0.3, 3), st.floats(0.3, 3))
def test_the_matching_temperature_is_found_within_the_tolerance(logits, own, other):
    def measure(temperatures):
        return [
            float(torch.distributions.Categorical(logits=torch.tensor(logits, dtype=torch.float64) / at).entropy())
            for at in temperatures
        ]

    targets = dict(zip(("one", "two"), measure([own, other]), strict=True))
    for name, (temperature, reached) in matching_temperatures(measure, targets).items():
        assert abs(reached - targets[name]) <= TOLERANCE
        assert [reached] == measure([temperature])


@given(ROW, ROW)
def test_position_distances_equal_scipy_s(first, second):
    p, q = (torch.tensor([row]).log_softmax(-1) for row in (first, second))
    found = dict(zip(DISTANCES, (float(value) for value in position_distances(p, q)), strict=True))
    a, b = p[0].exp().double().numpy(), q[0].exp().double().numpy()
    expected = {
        "forward_cross_entropy": kl(a) + kl(a, b),
        "reverse_cross_entropy": kl(b) + kl(b, a),
        "total_variation": np.abs(a - b).sum() / 2,
        "forward_kl": kl(a, b),
        "reverse_kl": kl(b, a),
        "jensen_shannon": jensenshannon(a, b) ** 2,
    }
    assert found == pytest.approx(expected, abs=2e-4)


def test_distances_are_means_over_tokens_then_over_texts(read, tiny_model, make_model, tmp_path):
    other = make_model(tmp_path / "reference", seed=5)
    reading = read(["ds to learn", "", " more"], ["a few wor", "a few", "words"])
    measured = distances(reading, open_model(ModelOptions(name=str(other), dtype="float32")), "reference")
    networks = [network_of(each) for each in (other, tiny_model)]
    for place, row in reading.windows:
        with torch.no_grad():
            p, q = (network(torch.tensor([row.ids])).logits[0].log_softmax(-1) for network in networks)
        at = slice(row.start - 1, len(row.ids) - 1)
        for name, expected in zip(DISTANCES, position_distances(p[at], q[at]), strict=True):
            assert measured.values[name][place] == pytest.approx(float(expected.mean()), rel=1e-4)
    for row in measured.numbers:
        first, empty, last = measured.values[row.metric]
        assert (empty, row.n) == (None, 2), "an empty text has no distance"
        assert row.value == pytest.approx((first + last) / 2)


def test_a_reference_model_with_another_vocabulary_is_refused_in_one_line(model, tiny_model_folder):
    refusal = rf"^evaluation.texts.reference_model: model {tiny_model_folder} has another vocabulary \(261 tokens\).*"
    with pytest.raises(InputError, match=refusal + "; name a model with the same tokenizer, .*$"):
        check_vocabularies(open_model(ModelOptions(name=str(tiny_model_folder))), model)
