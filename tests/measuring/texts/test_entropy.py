"""Mean next-token entropy and the temperature that matches another system's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from instruct.measuring.texts.predictions import TOLERANCE, entropies, entropy, matching_temperatures, windows


def test_entropies_equal_those_of_torch_s_categorical_at_every_temperature(model, held_out, tiny_model):
    texts = held_out()
    temperatures = [0.0, 0.5, 1.0, 1.7]
    found = entropies(model, texts, windows(model, texts, 1024), temperatures)
    network = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    for place, text in enumerate(texts.texts):
        (ids,) = model.encode([text])
        with torch.no_grad():
            logits = network(torch.tensor([[*ids, model.end]])).logits[0, :-1]
        assert found.tokens[place] == len(ids)
        assert found.nats[0, place] == 0
        for i, temperature in enumerate(temperatures[1:], start=1):
            expected = torch.distributions.Categorical(logits=logits / temperature).entropy().sum()
            assert found.nats[i, place] == pytest.approx(float(expected), rel=1e-4)
    assert found.means == sorted(found.means)
    assert entropy(found, 2, 1.0)[0].value == pytest.approx(found.nats[2].sum() / found.tokens.sum())


@given(st.lists(st.floats(0.01, 12), min_size=3, max_size=40), st.floats(0.3, 3), st.floats(0.3, 3))
def test_the_matching_temperature_is_found_within_the_tolerance(logits, own, other):
    z = np.array(logits)

    def measure(temperatures):
        found = []
        for temperature in temperatures:
            p = np.exp((z - z.max()) / temperature)
            p /= p.sum()
            found.append(float(-(p * np.log(p, where=p > 0, out=np.zeros_like(p))).sum()))
        return found

    targets = dict(zip(("one", "two"), measure([own, other]), strict=True))
    for name, (temperature, reached) in matching_temperatures(measure, targets).items():
        assert abs(reached - targets[name]) <= TOLERANCE
        assert [reached] == measure([temperature])


def test_few_passes_match_a_real_model(model, held_out):
    texts, asked = held_out(), []
    found = windows(model, texts, 1024)

    def measure(temperatures):
        asked.append(temperatures)
        return entropies(model, texts, found, temperatures).means

    (target,) = measure([0.8712])
    (temperature, reached) = matching_temperatures(measure, {"emo": target})["emo"]
    assert temperature == pytest.approx(0.8712, abs=5e-3)
    assert abs(reached - target) <= TOLERANCE
    assert len(asked) <= 5


def test_an_entropy_that_no_temperature_has_is_left_out():
    found = matching_temperatures(lambda temperatures: [t / (1 + t) for t in temperatures], {"emo": 3.0, "dft": 0.5})
    assert list(found) == ["dft"]
    assert found["dft"][0] == pytest.approx(1, abs=0.05)
