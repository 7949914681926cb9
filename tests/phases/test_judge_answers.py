"""`compare_answers` and `Report`: two sets of answers compared from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from instruct import Report, compare_answers
from instruct.base.errors import InputError


def rows(answer: str, **more: str) -> list[dict[str, str]]:
    return [{"instruction": f"Question {n}?", "output": f"{answer} {n}", **more} for n in range(3)]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_rows_are_compared_and_the_report_is_read_again(fake_server):
    url, requests = fake_server()
    given = {"judge": "pandalm", "base_url": url, "output": "runs/x"}
    report = compare_answers(rows("ours", generator="org/a"), rows("theirs", generator="b"), **given)
    (judge,) = report.judges
    (comparison,) = judge.comparisons
    assert (judge.name, comparison.candidate, comparison.baseline) == ("pandalm", "org-a", "b")
    assert comparison.claim.n == 3
    assert Report.read("runs/x").to_json() == report.to_json()
    asked = len(requests())
    assert asked
    compare_answers(rows("ours", generator="org/a"), rows("theirs", generator="b"), **given)
    assert len(requests()) == asked  # every reply was kept
    with pytest.raises(InputError, match=r"candidate: runs/x/outputs/org-a.json has other answers"):
        compare_answers(rows("others", generator="org/a"), rows("theirs", generator="b"), **given)

    assert report.headlines()[0].startswith("pandalm: ")
    assert report.rows()[0]["value"] == comparison.claim.value
    for name in ("summary.json", "summary.md", "summary.html"):
        report.write(name)
    assert Report.read("summary.json").to_json() == report.to_json()
    assert Path("summary.md").read_text() == Path("runs/x/report/report.md").read_text()
    assert "<h1" in Path("summary.html").read_text()
    compare_answers(rows("ours"), rows("theirs"), "pandalm", base_url=url)  # nothing is kept without an output
    assert {path.name for path in Path("runs").iterdir()} == {"x"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((rows("a"), rows("b")[:2], "pandalm"), "1 prompt of the other side missing, first 'Question 2?'"),
        ((rows("a"), rows("b"), "alpaca_eval_gpt4"), "judge alpaca_eval_gpt4: costs money; give output"),
    ],
)
def test_a_wrong_call_is_refused_in_one_line(monkeypatch, tmp_path, arguments, said):
    monkeypatch.setattr("instruct.judging.asking.Judge.check", lambda self: None)  # no server is needed to be wrong
    with pytest.raises(InputError) as caught:
        compare_answers(*arguments, base_url=None if "gpt4" in str(arguments[2]) else "http://127.0.0.1:9/v1")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
