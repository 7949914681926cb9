"""Label scores with shared computation equal those of whole prompts, and OpenICL's own formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from instruct.base.errors import InputError
from instruct.base.models import ModelOptions
from instruct.engines.forward import ForwardModel, TextRow, open_model
from instruct.measuring.tasks.prompts import Prompt
from instruct.measuring.tasks.scoring import full_prompt_scores, label_rows, label_scores

PROMPTS = [
    Prompt("Demo: one. It is a.\nText: two. It is", [" alpha.", " beta gamma.", " alphabet."]),
    Prompt("Demo: one. It is a.\nText: three. It is", [" alpha.", " beta gamma.", " alphabet."]),
    Prompt("Demo: one. It is a.\nText: three. It is", [" alpha.", " beta gamma.", " alphabet."]),
    Prompt("Another beginning. It is", [" A", " B"]),
    Prompt("x", ["y", "yz"]),
]


@pytest.fixture(scope="module")
def model(tiny_model) -> ForwardModel:
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


@pytest.mark.parametrize("rule", ["openicl", "sum"])
def test_shared_computation_gives_the_scores_of_whole_prompts(model, rule):
    rows_of = [label_rows(model, prompt) for prompt in PROMPTS]
    for found, rows in zip(label_scores(model, rows_of, rule), rows_of, strict=True):
        expected = full_prompt_scores(model, rows, rule)
        assert found.values == pytest.approx(expected.values, rel=1e-5)
        assert found.best == expected.best


def test_an_adapter_changes_the_scores_and_still_equals_whole_prompts(tiny_model, tiny_adapters):
    options = ModelOptions(name=str(tiny_model), dtype="float32")
    base = open_model(options)
    adapted = open_model(options, tiny_adapters["emo"], like=base)
    rows = label_rows(base, PROMPTS[0])
    found = label_scores(adapted, [rows], "openicl")[0]
    assert found.values == pytest.approx(full_prompt_scores(adapted, rows, "openicl").values, rel=1e-5)
    assert np.abs(np.subtract(found.values, label_scores(base, [rows], "openicl")[0].values)).max() > 1e-3


def openicl_scores(network, tokenizer, texts: list[str]) -> list[float]:
    """OpenICL's PPLInferencer: all prompts as one padded batch, the loss over tokens that are not padding."""
    tokenizer.padding_side = "right"
    inputs = tokenizer(texts, padding=True, return_tensors="pt", truncation=True)
    with torch.no_grad():
        logits = network(**{name: inputs[name] for name in ("input_ids", "attention_mask")}).logits
    shift_logits, shift_labels = logits[..., :-1, :], inputs["input_ids"][..., 1:]
    loss = torch.nn.CrossEntropyLoss(reduction="none", ignore_index=tokenizer.pad_token_id)(
        shift_logits.reshape(-1, shift_logits.size(-1)), shift_labels.reshape(-1)
    ).view(shift_labels.size())
    lengths = (inputs["input_ids"] != tokenizer.pad_token_id).sum(-1)
    return (loss.sum(-1) / lengths).tolist()


def test_the_rule_openicl_is_openicls_formula(model):
    scored = label_scores(model, [label_rows(model, prompt) for prompt in PROMPTS], "openicl")
    for found, prompt in zip(scored, PROMPTS, strict=True):
        texts = [prompt.context + label for label in prompt.continuations]
        expected = openicl_scores(model.engine.network, model.tokenizer, texts)
        assert found.values == pytest.approx(expected, rel=1e-5)
        assert found.best == int(np.argmin(expected))


def test_the_rule_sum_looks_at_the_label_alone(model):
    prompt = PROMPTS[0]
    rows = label_rows(model, prompt)
    before = len(model.tokenizer(prompt.context)["input_ids"])
    assert [row.start for row in rows] == [before] * 3
    found = label_scores(model, [rows], "sum")[0]
    for value, row in zip(found.values, rows, strict=True):
        with torch.no_grad():
            logprobs = model.engine.network(torch.tensor([row.ids])).logits[0].log_softmax(-1)
        own = [float(logprobs[at - 1, row.ids[at]]) for at in range(before, len(row.ids))]
        assert value == pytest.approx(sum(own), rel=1e-5)
    assert found.best == int(np.argmax(found.values))


def test_equal_scores_go_to_the_first_label(model):
    rows = label_rows(model, Prompt("Text. It is", [" same", " same"]))
    for rule in ("openicl", "sum"):
        assert label_scores(model, [rows], rule)[0].best == 0


def test_what_prompts_share_is_computed_once(model):
    computed = []
    network = model.engine.network
    handle = network.register_forward_pre_hook(
        lambda _, __, given: computed.append(given["input_ids"].shape), with_kwargs=True
    )
    try:
        rows = [label_rows(model, Prompt(f"{'shared ' * 20}{word} is", [" A", " B"])) for word in ("one", "two")]
        label_scores(model, rows, "openicl")
    finally:
        handle.remove()
    assert len(computed) == 2  # a label of one token needs no pass of its own
    assert computed[1][1] < computed[0][1] / 4


def test_a_prompt_longer_than_the_context_is_refused(model):
    row = TextRow([5] * (model.context + 1))
    with pytest.raises(InputError, match=r"a prompt of 513 tokens exceeds its context of 512; lower shots"):
        label_scores(model, [[row, row]], "sum")
