"""recipes/few_shot.py: OpenICL's rule, the most similar demonstrations, and what they reach alone."""

from __future__ import annotations

import few_shot
import numpy as np
import pytest
import torch

from instruct.base.models import ModelOptions
from instruct.engines.forward import open_model

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance

from instruct.measuring.lm import in_transformers

PROMPTS = [
    ("Demo: one. It is a.\nText: two. It is", [" alpha.", " beta gamma.", " alphabet."]),
    ("Demo: one. It is a.\nText: three. It is", [" alpha.", " beta gamma.", " alphabet."]),
    ("Another beginning. It is", [" A", " B"]),
    ("x", ["y", "yz"]),
]


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


def test_the_rule_openicl_is_openicls_formula(tiny_model):
    model = open_model(ModelOptions(name=str(tiny_model), dtype="float32"))
    asked = [(context, text) for context, texts in PROMPTS for text in texts]
    requests = [Instance("loglikelihood", {}, one, 0, metadata=("mine", at, 1)) for at, one in enumerate(asked)]
    with (
        model.engine.adapted(None) as network,
        in_transformers(network, model.tokenizer, model.context, (), few_shot.openicl) as lm,
    ):
        values = [-value for value, _ in lm.loglikelihood(requests)]
        expected = openicl_scores(network, model.tokenizer, [context + text for context, text in asked])
    assert values == pytest.approx(expected, rel=1e-5)
    best = [(np.argmin(one[:3]), np.argmin(one[3:6])) for one in (values, expected)]
    assert best[0] == best[1]
