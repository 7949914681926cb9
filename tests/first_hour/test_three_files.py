"""Three files of answers from three tools, compared by an own judge on an own server."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.slow

PROMPTS = [f"Question {n}?" for n in range(12)]


def test_three_files_are_compared_by_an_own_judge_and_told_to_colleagues(user, strict_editor, says, fake_server):
    url, requests = fake_server()
    user.writes("a.json", [{"instruction": prompt, "output": f"a on {prompt}"} for prompt in PROMPTS])
    user.writes("b.csv", "\n".join(["instruction;output", *(f"{prompt};b on {prompt}" for prompt in PROMPTS)]))
    user.writes("c.jsonl", [{"instruction": prompt, "output": f"c on {prompt}"} for prompt in PROMPTS[:11]])
    judge = ["judge", "--judge", strict_editor, "--base-url", url, "--files", "a.json", "b.csv", "c.jsonl"]

    refused = user.types(*judge, "--output", "runs/three", code=2)
    says(refused, "answers c: 1 prompt of the other side missing, first 'Question 11?'", "--common-prompts")
    assert not requests()
    printed = user.types(*judge, "--output", "runs/three", "--common-prompts")
    for pair in ("a with b", "between a and c", "b with c"):
        says(printed, pair)
    says(printed, "corrected for 3 claims", "a.json: 1 of 12 prompts left out", "agreement with people: not measured")
    assert len(requests()) == 3 * 2 * 11  # each pair in both orders

    ranked = user.types("compare", "runs/three")
    says(ranked, "strict_editor")
    says(user.reads("runs/three/report/report.md"), "- **strict_editor: ", "95 % CI", "WARNING: ")
    told = json.loads(user.reads("runs/three/report/report.json"))["judges"][0]["comparisons"]
    assert sorted((each["candidate"], each["baseline"]) for each in told) == [("a", "b"), ("a", "c"), ("b", "c")]
    user.reads("runs/three/report/report.html")
