"""Which GPU, how long, how much for Table 9 of the paper, asked on a laptop without a network."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def plans(instruct, no_wrong_words, monkeypatch):
    """`plans(config, machine)`: what a person reads, and what a script does."""

    def asked(*_, **__):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", asked)

    def call(config: str, on: str) -> tuple[str, list[dict]]:
        code, text, _ = instruct("run", config, "--dry-run", "--on", on)
        assert code == 0
        no_wrong_words(text)
        code, printed, _ = instruct("run", config, "--dry-run", "--on", on, "--json")
        assert code == 0
        return text, json.loads(printed)

    return call


def test_the_table_of_the_paper_is_planned_for_machines_that_are_not_here(instruct, plans, says):
    # A name that is nearly right is answered with those that are.
    code, _, error = instruct("run", "paper/llama2_7b_alpaca", "--dry-run", "--on", "g100")
    assert code == 2
    says(error, "--on g100: unknown machine (nearest: ", "add it to ./data/plans/machines.yaml")

    small, phases = plans("paper/llama2_7b_alpaca", "rtx4090-24gb")
    says(small, "GiB", "DOES NOT FIT", "train and judge do not fit this machine")
    assert [phase["name"] for phase in phases if not phase["fits"]] == ["train", "judge"]

    text, phases = plans("paper/llama2_7b_alpaca", "8xh100")
    says(text, "8xh100: 8 GPUs of 79 GiB", "$23.00 an hour", "none was measured", "assumed")
    says(text, "gpt-4 is reported to have been shut down")  # Table 9's judge
    assert "DOES NOT FIT" not in text
    assert {phase["name"] for phase in phases} == {"train", "answer", "judge"}
    total = re.search(r"^total +(\d+)–(\d+) min, \$([\d.]+)$", text, re.MULTILINE)
    assert total, text
    minutes = 60 * sum(phase["hours"] for phase in phases)
    assert [int(total[1]), int(total[2])] == pytest.approx([minutes / 2**0.5, minutes * 2**0.5], abs=1)
    assert float(total[3]) == pytest.approx(sum(phase["usd"] for phase in phases), abs=0.01)
    assert all(phase["usd"] > 0 and phase["formula"] for phase in phases)
