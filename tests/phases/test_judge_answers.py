"""`compare_answers` and `Report`: two sets of answers compared from Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from instruct import Report, compare_answers
from instruct.base.errors import InputError

DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows(answer: str, **more: str) -> list[dict[str, str]]:
    return [{"instruction": f"Question {n}?", "output": f"{answer} {n}", **more} for n in range(3)]


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_importing_the_package_stays_light():
    code = "import sys, instruct; print(*dir(instruct)); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, loaded = done.stdout.splitlines()
    assert {"Report", "compare_answers"} <= {*names.split()}
    assert not {"torch", "pydantic", "pandas", "matplotlib", "transformers", "numpy", "yaml"} & {*loaded.split()}


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

    (headline,) = report.headlines()
    assert headline.startswith("pandalm: ")
    assert headline in str(report).splitlines()
    (row, *_) = report.rows()
    assert (row["candidate"], row["value"]) == ("org-a", comparison.claim.value)
    for name in ("summary.json", "summary.md", "summary.html"):
        report.write(name)
    assert Report.read("summary.json").to_json() == report.to_json()
    assert Path("summary.md").read_text() == report.to_markdown() == Path("runs/x/report/report.md").read_text()
    assert "<h1" in Path("summary.html").read_text()
    with pytest.raises(InputError, match=r"summary.txt: the extension must be .json, .md or .html"):
        report.write("summary.txt")


@pytest.mark.slow
def test_nothing_is_kept_without_an_output(fake_server, tmp_path):
    url, _ = fake_server()
    before = {path.name for path in tmp_path.iterdir()}
    report = compare_answers(rows("ours"), rows("theirs"), "pandalm", base_url=url)
    assert (report.judges[0].comparisons[0].candidate, report.run) == ("candidate", "comparison")
    assert {path.name for path in tmp_path.iterdir()} - before <= {"requests0.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.json", rows("b"), "pandalm"), "none.json: no such file"),
        ((rows("a"), 7, "pandalm"), "baseline: must be the path of a file or rows"),
        ((rows("a"), {"instruction": "I", "output": "O"}, "pandalm"), "baseline: must be the path of a file or rows"),
        ((rows("a"), [], "pandalm"), "baseline: has no rows"),
        ((rows("a"), ["text"], "pandalm"), "baseline, row 1: is not a mapping"),
        ((rows("a"), [{"instruction": "Question 0?"}], "pandalm"), "baseline, row 1: "),
        ((rows("a"), rows("b")[:2], "pandalm"), "1 prompt of the other side missing, first 'Question 2?'"),
        ((rows("a"), rows("b"), "pandalmm"), "unknown judge 'pandalmm' (nearest: pandalm)"),
        ((rows("a"), rows("b"), []), "judge: is empty; name one"),
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


def test_a_report_of_another_version_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"nothing.json: no such file; write the report first"):
        Report.read("nothing.json")
    Path("other.json").write_text('{"schema_version": 1}')
    with pytest.raises(
        InputError, match=r"other.json: is not a report of this version \(run: Field required\); write it"
    ):
        Report.read("other.json")


def test_the_page_names_methods_that_reports_have():
    text = (DOCS / "python_api.md").read_text(encoding="utf-8")
    for method in re.findall(r"report\.(\w+)\(|`(\w+)\(\)`", text):
        assert hasattr(Report, "".join(method)), method
