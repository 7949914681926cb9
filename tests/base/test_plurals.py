"""One pair is not "1 pairs": what a small first try prints."""

from __future__ import annotations

import json
import re
from pathlib import Path

from instruct.base.errors import counted

PLURALS = re.compile(r"\b1 (pairs|prompts|rows|verdicts|requests|comparisons|labels|answers|judges|turns)\b")


def annotation(preference: float | None) -> dict[str, object]:
    return {
        "instruction": "Question?", "output_1": "theirs", "output_2": "ours", "generator_1": "theirs",
        "generator_2": "ours", "annotator": "someone", "preference": preference, "raw_completion": "m",
    }  # fmt: skip


def test_numbers_agree_with_their_nouns():
    assert [counted(n, "pair") for n in (0, 1, 2)] == ["0 pairs", "1 pair", "2 pairs"]


def test_a_report_on_one_pair_is_in_the_singular(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, preference in (("one", 2.0), ("none", None)):
        Path(f"{name}.json").write_text(json.dumps([annotation(preference)]))
        code, stdout, stderr = instruct("report", "--annotations", f"{name}.json", "--output", f"runs/{name}")
        assert code == 0, stderr
        texts = [stdout, *(path.read_text() for path in Path("runs", name, "report").rglob("*.[mt][de]*"))]
        assert len(texts) >= 2
        for text in texts:
            assert not PLURALS.search(text), PLURALS.search(text)
            assert "- (-)" not in text


def test_a_judge_without_a_card_is_named_without_a_list_of_all_others(instruct, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("one.json").write_text(json.dumps([annotation(2.0)]))
    _, stdout, _ = instruct("report", "--annotations", "one.json", "--output", "runs/one")
    said = "WARNING: someone: the judge has no card here (unknown judge 'someone'); disagreement between orders"
    assert said in stdout
