"""Which GPU, how long, how much for Table 9 of the paper, asked on a laptop without a network."""

from __future__ import annotations

import json
import re

import pytest

TABLE_9 = "paper/*_alpaca"  # LLaMA and Llama-2, 7B and 13B


@pytest.fixture
def plans(instruct, no_wrong_words, monkeypatch):
    """`plans(config, machine)`: what a person reads, and what a script does."""

    def asked(*_, **__):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", asked)

    def call(config: str, on: str) -> tuple[str, dict]:
        code, text, _ = instruct("plan", config, "--on", on)
        assert code == 0
        no_wrong_words(text)
        code, printed, _ = instruct("plan", config, "--on", on, "--json")
        assert code == 0
        return text, json.loads(printed)

    return call


def test_the_table_of_the_paper_is_planned_for_machines_that_are_not_here(instruct, plans, says):
    # A name that is nearly right is answered with those that are.
    code, _, error = instruct("plan", TABLE_9, "--on", "g100")
    assert code == 2
    says(error, "--on g100: unknown machine (nearest: ", "add it to ./data/plans/machines.yaml")

    # No sum where nothing fits, but which config does.
    small, planned = plans(TABLE_9, "4090")
    says(small, "paper/llama2_7b_alpaca does not fit: train needs 116 GiB")
    says(small, "fits h200-141gb, 8xh100; this machine fits, on the same data: alpaca_emo_24gb")
    assert "total" not in small
    assert planned["hours"] is planned["usd"] is None
    assert len(planned["plans"]) == 4

    # The larger half does not fit: the sum is of what does.
    half, planned = plans(TABLE_9, "h200")
    says(half, "; 2 of 4 configs, which fit")
    assert [plan["fits"] for plan in planned["plans"].values()] == [False, True, False, True]

    text, planned = plans(TABLE_9, "8xh100")
    says(text, "8xh100: 8 GPUs of 79 GiB", "$23.00 an hour", "none was measured")
    says(text, "without alpaca_eval_gpt4")  # Table 9's judge was shut down, and has no price
    assert "not fit" not in text
    total = re.search(r"^total +([\d.]+)–([\d.]+) h, \$(\d+)–(\d+); without alpaca_eval_gpt4$", text, re.MULTILINE)
    assert total, text
    ends = [float(end) for end in total.groups()]
    assert ends[:2] == pytest.approx([planned["hours"] / 2**0.5, planned["hours"] * 2**0.5], abs=0.06)
    assert ends[2:] == pytest.approx([planned["usd"] / 2**0.5, planned["usd"] * 2**0.5], abs=1)
    alone = sum(plan["hours"] for plan in planned["plans"].values())
    assert 0.8 * alone < planned["hours"] < alone  # the judges are downloaded once

    one, _ = plans("paper/llama2_7b_alpaca", "8xh100")
    says(one, "GAIR/autoj-13b, WeOpenML/PandaLM-7B-v1: ", "6 checkpoints of 81 GB", "assumed", "GiB for checkpoints")
    says(one, "gpt-4 is reported to have been shut down")
