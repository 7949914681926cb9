"""Distances of next-token distributions, compared with scipy and torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as kl
from transformers import AutoModelForCausalLM

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.engines.forward import open_model
from instruct.measuring.texts.predictions import DISTANCES, distances, mean_distances, position_distances, windows

ROW = st.lists(st.floats(-8, 8), min_size=5, max_size=5)


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
    for name, value in expected.items():
        assert found[name] == pytest.approx(float(value), abs=2e-4), name
    assert found["jensen_shannon"] + 1e-6 >= 0
    assert found["jensen_shannon"] <= np.log(2) + 1e-6


def test_distances_are_means_over_tokens_then_over_texts(model, held_out, tiny_model, make_model, tmp_path):
    other = make_model(tmp_path / "reference", seed=5)
    reference = open_model(ModelOptions(name=str(other), dtype="float32"))
    texts = held_out(["ds to learn", "", " more"], ["a few wor", "a few", "words"])
    found = windows(model, texts, 1024)
    (values,) = distances(reference, model, texts, found)
    networks = [AutoModelForCausalLM.from_pretrained(each, dtype=torch.float32) for each in (other, tiny_model)]
    for window in found:
        row = window.row
        with torch.no_grad():
            p, q = (network(torch.tensor([row.ids])).logits[0].log_softmax(-1) for network in networks)
        at = slice(row.start - 1, len(row.ids) - 1)
        for name, expected in zip(DISTANCES, position_distances(p[at], q[at]), strict=True):
            assert values[name][window.place] == pytest.approx(float(expected.mean()), rel=1e-4)
    assert np.isnan(values["total_variation"][1]), "an empty text has no distance"
    means = {row.metric: row.value for row in mean_distances([values], [1.0], "reference", 1.0)}
    assert means["jensen_shannon"] == pytest.approx(float(values["jensen_shannon"][[0, 2]].mean()))


def test_a_model_is_at_no_distance_from_itself(model, held_out):
    texts = held_out()
    (values,) = distances(model, model, texts, windows(model, texts, 1024))
    for name in ("total_variation", "forward_kl", "reverse_kl", "jensen_shannon"):
        assert np.allclose(values[name], 0, atol=1e-6)
    assert np.allclose(values["forward_cross_entropy"], values["reverse_cross_entropy"], atol=1e-5)


def test_a_reference_model_with_another_vocabulary_is_refused_in_one_line(model, held_out, tiny_model_folder):
    reference = open_model(ModelOptions(name=str(tiny_model_folder)))
    texts = held_out()
    with pytest.raises(InputError) as refused:
        distances(reference, model, texts, windows(model, texts, 1024))
    message = str(refused.value)
    assert f"evaluation.texts.reference_model: model {tiny_model_folder} has another vocabulary (261 tokens)" in message
    assert message.endswith("name a model with the same tokenizer, or leave distances out of evaluation.texts.metrics")
    assert "\n" not in message


def test_all_temperatures_are_measured_in_one_pass(model, held_out):
    texts = held_out()
    found = windows(model, texts, 1024)
    temperatures = [0.5, 1.0, 2.0]
    together = distances(model, model, texts, found, temperatures)
    for temperature, values in zip(temperatures, together, strict=True):
        (apart,) = distances(model, replace(model, temperature=temperature), texts, found)
        for name in DISTANCES:
            assert np.allclose(values[name], apart[name], rtol=1e-4)
    rows = {row.metric: row for row in mean_distances(together, temperatures, "reference", 0.5)}
    row = rows["reverse_cross_entropy"]
    precise, (_, own), (_, spread) = row.value, *row.details.curve
    assert [at for at, _ in row.details.curve] == temperatures[1:]
    assert precise < own < spread
