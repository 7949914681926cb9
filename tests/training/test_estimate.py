"""Estimates of time: the machine's speed, the tokens that a training computes, and the words for both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from instruct.training.estimate import evaluations, matrix_flops, time_words, trained_tokens

ARGUMENTS = {
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 1,
    "num_train_epochs": 1,
    "max_steps": -1,
    "world_size": 1,
    "train_sampling_strategy": "random",
    "eval_strategy": "no",
    "eval_steps": None,
    "eval_on_start": False,
}


def arguments(**changed) -> SimpleNamespace:
    return SimpleNamespace(**{**ARGUMENTS, **changed})


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (None, "time not estimated"), (0, "less than a minute"), (0.5, "less than a minute"), (1, "1–2 min"),
        (3, "2–5 min"), (50, "35–71 min"), (120, "1.4–2.8 h"), (3000, "35–71 h"), (120_000, "1,414–2,828 h"),
    ],
)  # fmt: skip
def test_a_time_is_a_range(minutes, words):
    assert time_words(None if minutes is None else minutes / 60) == words


def test_a_product_that_is_held_up_does_not_decide(monkeypatch):
    """Every other product takes a tenth of a second longer."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    undisturbed = matrix_flops.__wrapped__("float32")
    clock, looks = time.perf_counter, iter(range(10**9))
    late = [0.0]

    def disturbed() -> float:
        late[0] += 0.1 * (next(looks) % 4 == 1)
        return clock() + late[0]

    monkeypatch.setattr("time.perf_counter", disturbed)
    assert matrix_flops.__wrapped__("float32") > undisturbed / 4


@pytest.mark.slow
def test_speeds_are_measured_in_seconds_also_without_instructions_for_bfloat16():
    """As on a processor without AVX-512, by the limits that torch and oneDNN take from the environment."""
    program = (
        "import json, time; from instruct.training.estimate import *\n"
        "begun = time.perf_counter(); found = {dtype: matrix_flops(dtype) for dtype in ('float32', 'bfloat16')}\n"
        "found |= {'copy': copy_speed(), 'seconds': time.perf_counter() - begun}; print(json.dumps(found))"
    )
    limits = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **limits})
    found = json.loads(done.stdout)
    assert found["float32"] > 2 * found["bfloat16"] > 0
    assert found["copy"] > 1e8
    assert found["seconds"] < 30


def test_padding_is_counted():
    lengths = [1, 9] * 50
    whole = trained_tokens(lengths, arguments())
    assert sum(lengths) < whole <= 100 * 9
    assert trained_tokens(lengths, arguments(num_train_epochs=3)) == 3 * whole
    assert trained_tokens(lengths, arguments(world_size=2)) == whole / 2
    grouped = trained_tokens(lengths, arguments(train_sampling_strategy="group_by_length"))
    assert sum(lengths) <= grouped < sum(lengths) + 100
    assert trained_tokens([5] * 100, arguments(max_steps=7, gradient_accumulation_steps=3)) == 7 * 3 * 2 * 5
    assert trained_tokens([5] * 4, arguments(max_steps=7)) == 7 * 2 * 5  # more than an epoch


def test_rows_that_are_grouped_by_length_begin_with_the_longest():
    lengths = list(range(1, 101))
    few = arguments(train_sampling_strategy="group_by_length", max_steps=1)
    assert trained_tokens(lengths, few) == 200


def test_evaluations_are_counted():
    assert evaluations(100, arguments()) == 0
    every = {"eval_strategy": "steps", "eval_steps": 10}
    assert evaluations(100, arguments(**every)) == 5
    assert evaluations(100, arguments(**every, eval_on_start=True, max_steps=200)) == 21
    assert evaluations(100, arguments(eval_strategy="epoch", num_train_epochs=3)) == 3
