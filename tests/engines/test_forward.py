"""Teacher-forced passes, compared with one pass of the transformers model per text."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from instruct.base.models import ModelOptions
from instruct.engines import forward, network
from instruct.engines.forward import ForwardModel, TextRow, open_model

TEXTS = ["A short text.", "", "Ten more words than the other one has, and ünïcödé.", "x", "The same length again" * 9]


@pytest.fixture
def options(tiny_model):
    return ModelOptions(name=str(tiny_model), dtype="float32")


@pytest.fixture
def small_batches(monkeypatch):
    """Several batches, and several portions of a row."""
    monkeypatch.setitem(network.BATCH_TOKENS, "cpu", 64)
    monkeypatch.setitem(forward._CHUNK, "cpu", 7 * 300)


def whole(network: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.inference_mode():
        return network(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)


def rows_of(model: ForwardModel) -> list[TextRow]:
    return [TextRow([*ids, model.end], start) for start in (1, 3) for ids in model.encode(TEXTS)]


def test_log_probabilities_equal_those_of_one_pass_per_text(options, tiny_adapters, tiny_model, small_batches):
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    model = open_model(options)
    for source in (None, tiny_adapters["emo"], tiny_adapters["mle"], None):
        model = open_model(options, source, like=model)
        network = base
        if source:
            fresh = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
            network = PeftModel.from_pretrained(fresh, source)
        rows = rows_of(model)
        found = model.log_probabilities(rows)
        for row, values in zip(rows, found, strict=True):
            expected = whole(network, list(row.ids))
            scored = [float(expected[t - 1, row.ids[t]]) for t in range(row.start, len(row.ids))]
            assert values.dtype == np.float32
            np.testing.assert_allclose(values, scored, atol=2e-5)


def test_the_last_state_is_the_one_that_the_head_reads(options, tiny_model, tiny_adapters, small_batches):
    model = open_model(options, tiny_adapters["emo"])
    fresh = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32)
    network = PeftModel.from_pretrained(fresh, tiny_adapters["emo"])
    rows = [ids for ids in model.encode(TEXTS) if ids]
    for ids, state in zip(rows, model.last_states(rows), strict=True):
        with torch.inference_mode():
            states = network(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0, -1]
        np.testing.assert_allclose(state, states.numpy(), atol=2e-5)


def test_last_states_go_on_where_a_killed_call_was(options, tiny_model, small_batches, monkeypatch, tmp_path):
    model = open_model(options)
    rows = [ids for ids in model.encode(TEXTS) if ids]
    whole = model.last_states(rows)
    computed = []
    compute = ForwardModel._states

    def killed(self, ids, ends):
        if len(computed) == 1:
            raise KeyboardInterrupt
        computed.append(len(ends))
        return compute(self, ids, ends)

    monkeypatch.setattr(ForwardModel, "_states", killed)
    with pytest.raises(KeyboardInterrupt):
        model.last_states(rows, tmp_path)
    again = []
    monkeypatch.setattr(ForwardModel, "_states", lambda *call: again.append(len(call[2])) or compute(*call))
    assert np.array_equal(model.last_states(rows, tmp_path), whole)
    assert sum(computed + again) == len(rows)


def test_a_continuation_begins_at_the_first_token_that_is_not_its_prefix_s(options, smollm2):
    model = open_model(options)
    model.engine.tokenizer = AutoTokenizer.from_pretrained(smollm2)  # of which a token is a word
    (apart,) = model.encode_after(["a few wor"], ["ds to"])
    assert model.tokenizer.decode(apart.ids) == "a few words to"
    kept = model.tokenizer.decode(apart.ids[: apart.start])
    assert "a few wor".startswith(kept)
    assert model.encode(["a few wor"])[0] != list(apart.ids[: apart.start])
    (empty,) = model.encode_after(["a few words"], [""])
    assert empty.start == len(empty.ids)
    (none,) = model.encode_after([""], ["a few"])
    assert none.start == 1
