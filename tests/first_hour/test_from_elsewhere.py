"""Verdicts made elsewhere: AlpacaEval's annotations as a report."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

QUESTIONS = ["Name a primary color.", "How do I boil an egg?", "Why is the sky blue?", "What is two plus two?"]
OURS = [
    "Red is one of the three primary colors, next to yellow and blue.",
    "Put it into boiling water for eight minutes, then cool it in cold water and peel it.",
    "Air scatters blue light more than red light, so that it reaches your eyes from everywhere.",
    "Two plus two is four.",
]


def outputs(name: str, texts: list[str]) -> list[dict[str, str]]:
    rows = zip(QUESTIONS, texts, strict=True)
    return [{"dataset": "ours", "instruction": q, "output": text, "generator": name} for q, text in rows]


def annotations(*left_out: str) -> list[dict[str, object]]:
    rows = [
        {
            "instruction": question, "output_1": "No idea.", "generator_1": "their_model", "output_2": text,
            "generator_2": "our_model", "annotator": "alpaca_eval_gpt4", "preference": 2.0 if n else 1.0,
        }
        for n, (question, text) in enumerate(zip(QUESTIONS, OURS, strict=True))
    ]  # fmt: skip
    return [{key: value for key, value in row.items() if key not in left_out} for row in rows]


def test_annotations_become_a_report(user, says):
    user.writes("annotations.json", annotations())
    told = user.types("report", "--annotations", "annotations.json", "--output", "runs/theirs")
    says(told, "our_model with their_model: 3 won, 0 tied, 1 lost (n = 4)", "page: runs/theirs/report/report.html")
    report = user.reads("runs/theirs/report/report.md")
    says(report, "our_model", "their_model")
    assert "starter_eval" not in report
    user.reads("runs/theirs/report/report.html")

    # Without the texts, flags add them.
    user.writes("bare.json", annotations("output_1", "output_2"))
    user.writes("ours.json", outputs("our_model", OURS))
    user.writes("theirs.json", outputs("their_model", ["No idea."] * 4))
    assert "longer than" not in user.types("report", "--annotations", "bare.json", "--output", "runs/bare")
    texts = ["--outputs", "ours.json", "--reference", "theirs.json"]
    whole = user.types("report", "--annotations", "bare.json", *texts, "--output", "runs/whole")
    assert "the winner's answers" in whole or "longer than those of their_model" in whole
