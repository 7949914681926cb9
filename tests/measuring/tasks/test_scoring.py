"""Scores with shared computation equal those of whole prompts, and OpenICL's own formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from instruct.base.models import ModelOptions
from instruct.engines.forward import ForwardModel, open_model
from instruct.engines.network import TextRow, shared_length
from instruct.engines.text_scores import PrefixScorer

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance

from instruct.measuring.tasks.lm import Replies
from tests.measuring.tasks.test_lm import local_lm

PROMPTS = [
    ("Demo: one. It is a.\nText: two. It is", [" alpha.", " beta gamma.", " alphabet."]),
    ("Demo: one. It is a.\nText: three. It is", [" alpha.", " beta gamma.", " alphabet."]),
    ("Demo: one. It is a.\nText: three. It is", [" alpha.", " beta gamma.", " alphabet."]),
    ("Another beginning. It is", [" A", " B"]),
    ("x", ["y", "yz"]),
]


@pytest.fixture(scope="module")
def model(tiny_model) -> ForwardModel:
    return open_model(ModelOptions(name=str(tiny_model), dtype="float32"))


def prompt_rows(model: ForwardModel, context: str, continuations: list[str]) -> list[TextRow]:
    before, *whole = model.encode([context, *(context + text for text in continuations)])
    return [TextRow(ids, max(1, shared_length(before, ids))) for ids in whole]


def prefix_scores(model: ForwardModel, prompts: list[list[TextRow]]) -> list[list[float]]:
    with model.engine.adapted(model.adapter) as network:
        scorer = PrefixScorer(network)
        return [[sum(value for value, _ in row) for row in scorer.scores(rows)] for rows in prompts]


@pytest.mark.parametrize("whole", [False, True])
def test_shared_computation_gives_the_scores_of_whole_prompts(model, whole):
    prompts = [prompt_rows(model, *prompt) for prompt in PROMPTS]
    if whole:
        prompts = [[TextRow(row.ids) for row in rows] for rows in prompts]
    for found, rows in zip(prefix_scores(model, prompts), prompts, strict=True):
        assert found == pytest.approx([float(values.sum()) for values in model.log_probabilities(rows)], rel=1e-5)


def test_an_adapter_changes_the_scores_and_still_equals_whole_prompts(tiny_model, tiny_adapters):
    options = ModelOptions(name=str(tiny_model), dtype="float32")
    base = open_model(options)
    adapted = open_model(options, tiny_adapters["emo"], like=base)
    rows = prompt_rows(base, *PROMPTS[0])
    (found,) = prefix_scores(adapted, [rows])
    assert found == pytest.approx([float(values.sum()) for values in adapted.log_probabilities(rows)], rel=1e-5)
    assert np.abs(np.subtract(found, prefix_scores(base, [rows])[0])).max() > 1e-3


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


@pytest.mark.parametrize("prefixes", [True, False])
def test_the_rule_openicl_is_openicls_formula(model, tmp_path, monkeypatch, prefixes):
    if not prefixes:  # as in a state space model
        monkeypatch.setattr("instruct.engines.text_scores.keeps_prefixes", lambda network: False)
    with model.engine.adapted(None) as network:
        replies = Replies(tmp_path / "replies.jsonl")
        lm = local_lm(model, network).keep(replies)
        for context, continuations in PROMPTS:
            asked = [Instance("loglikelihood", {}, (context, text), 0) for text in continuations]
            sums = [value for value, _ in lm.loglikelihood(asked)]
            lm.rule = "openicl"  # what is known under the other rule is not mixed up with it
            found = [-value for value, _ in lm.loglikelihood(asked)]
            assert found == [-value for value, _ in lm.loglikelihood(asked)]
            lm.rule = "sum"
            assert [value for value, _ in lm.loglikelihood(asked)] == sums
            texts = [context + text for text in continuations]
            expected = openicl_scores(network, model.tokenizer, texts)
            assert found == pytest.approx(expected, rel=1e-5)
            assert int(np.argmin(found)) == int(np.argmin(expected))


def test_the_rule_sum_looks_at_the_label_alone(model):
    context, continuations = PROMPTS[0]
    rows = prompt_rows(model, context, continuations)
    before = len(model.tokenizer(context)["input_ids"])
    assert [row.start for row in rows] == [before] * 3
    (found,) = prefix_scores(model, [rows])
    for value, row in zip(found, rows, strict=True):
        with torch.no_grad():
            logprobs = model.engine.network(torch.tensor([row.ids])).logits[0].log_softmax(-1)
        own = [float(logprobs[at - 1, row.ids[at]]) for at in range(before, len(row.ids))]
        assert value == pytest.approx(sum(own), rel=1e-5)


def test_what_prompts_share_is_computed_once(model):
    computed = []
    network = model.engine.network
    handle = network.register_forward_pre_hook(
        lambda _, __, given: computed.append(given["input_ids"].shape), with_kwargs=True
    )
    try:
        prompts = [prompt_rows(model, f"{'shared ' * 20}{word} is", [" A", " B"]) for word in ("one", "two")]
        prefix_scores(model, [[TextRow(row.ids) for row in rows] for rows in prompts])
    finally:
        handle.remove()
    assert len(computed) == 2  # a label of one token needs no pass of its own
    assert computed[1][1] < computed[0][1] / 4
