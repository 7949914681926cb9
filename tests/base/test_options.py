"""What steps depend on, as the options' own fields say."""

from __future__ import annotations

import pytest

from instruct.base.options import Affects, affected_steps, recorded_inputs, same_inputs
from instruct.config import ExperimentConfig
from instruct.generation.options import AnswerOptions
from instruct.judging.options import JudgeOptions
from instruct.training.options import LoraOptions, SystemOptions, TrainArguments


def test_every_section_says_what_is_made_with_it():
    for name, field in ExperimentConfig.model_fields.items():
        assert any(isinstance(part, Affects) for part in field.metadata), name


@pytest.mark.parametrize(
    ("key", "steps"),
    [
        ("data.mixture.0.weight", ("train",)),
        ("data.eval_samples", ()),
        ("train.learning_rate", ("train",)),
        ("train.logging_steps", ()),
        ("lora.use_rslora", ("train",)),
        ("lora.runtime_config", ()),
        ("systems.emo.gamma", ("train",)),
        ("answers.generation.gpu_memory_utilization", ()),
        ("answers.generation.max_new_tokens", ("answers",)),
        ("judges.0.base_url", ("judge",)),
        ("judges.0.budget_usd", ()),
        ("evaluation.texts.mauve_model.name", ("evaluate/mauve",)),
        ("evaluation.tasks.shots", ()),
        ("cluster.workers", ()),
    ],
)
def test_a_key_affects_what_its_field_says_or_the_section_around_it(key, steps):
    assert affected_steps(ExperimentConfig, key) == steps


def test_inputs_are_the_options_that_affect_the_step():
    inputs = recorded_inputs("judge/x", {"answers": "hash", "judge": JudgeOptions(card="autoj", concurrency=3)})
    assert inputs["answers"] == "hash"
    assert inputs["judge"]["card"] == "autoj"
    assert not {"concurrency", "budget_usd", "replicas", "comparisons"} & {*inputs["judge"]}


@pytest.mark.parametrize(
    ("step", "options", "recorded", "same"),
    [
        ("train/emo", SystemOptions(objective="emo"), {"objective": "emo", "variant": "official"}, True),
        ("train/emo", SystemOptions(objective="emo", seed=3), {"objective": "emo"}, False),
        ("train/emo", SystemOptions(objective="emo", energy_weight=5), {"objective": "emo"}, True),
        ("train/emo", SystemOptions(objective="energy", energy_weight=5), {"objective": "energy"}, False),
        ("train/emo", TrainArguments(max_steps=1), {"max_steps": 1, "logging_steps": 4, "push_to_hub": True}, True),
        ("train/emo", TrainArguments(max_steps=1, report_to="none"), {"max_steps": 1}, True),
        ("train/emo", TrainArguments(max_steps=1), {"max_steps": 2}, False),
        ("train/emo", LoraOptions(), {"r": 16, "alpha": 32}, True),
        ("train/emo", LoraOptions(use_rslora=True), {"r": 16, "alpha": 32}, False),
        ("answers", AnswerOptions(), {"generation": {"gpu_memory_utilization": 0.5}}, True),
        ("answers", AnswerOptions(), {"generation": {"max_new_tokens": 5}}, False),
        ("judge/a", JudgeOptions(card="a"), {"card": "a", "comparisons": [["emo", "mle"]], "concurrency": 3}, True),
        ("judge/a", JudgeOptions(card="a"), {"card": "a", "trim": True}, False),
    ],
)
def test_inputs_of_an_earlier_version_are_the_same_if_only_defaults_are_missing(step, options, recorded, same):
    assert same_inputs(step, {"options": recorded}, {"options": options}) == same
    assert same_inputs(step, recorded_inputs(step, {"options": options}), {"options": options})
