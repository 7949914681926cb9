"""The options that change results, as the options' own models say."""

from __future__ import annotations

import pytest

from instruct.config import make_config
from instruct.generation.options import AnswerOptions
from instruct.judging.options import JudgeOptions
from instruct.training.options import LoraOptions, SystemOptions


@pytest.mark.parametrize(
    ("options", "made_with"),
    [
        (SystemOptions(objective="emo", transport_cost="fixed"), {"objective": "emo"}),
        (SystemOptions(objective="emo", seed=3), {"objective": "emo", "seed": 3}),
        (LoraOptions(r=16), {}),
        (LoraOptions(use_rslora=True, runtime_config={}), {"use_rslora": True}),
        (AnswerOptions(generation={"gpu_memory_utilization": 0.5}), {}),
        (
            AnswerOptions(generation={"max_new_tokens": 5, "timeout": 3}),
            {"generation": {"max_new_tokens": 5}},
        ),
        (JudgeOptions(card="a", comparisons=[("emo", "mle")], concurrency=3, budget_usd=1), {"card": "a"}),
        (JudgeOptions(card="a", trim=True), {"card": "a", "trim": True}),
    ],
)
def test_a_step_is_made_with_the_options_that_change_its_result_and_are_not_defaults(options, made_with):
    assert options.made_with() == made_with


def test_an_option_that_is_null_and_not_by_default_is_one_that_a_step_is_made_with():
    content = {"name": "one", "lora": None, "train": {"max_steps": 1, "logging_steps": 4, "report_to": "none"}}
    made_with = make_config(content, [], "test").trained_with("emo")
    assert made_with == {"lora": None, "train": {"max_steps": 1}, "systems": {"emo": {"objective": "emo"}}}
