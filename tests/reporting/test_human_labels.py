"""`sample` and `report --human`: pairs for people to label, and the win rate with their labels."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import HOSTILE

from instruct.analysis.inference import score_interval
from instruct.analysis.sequential import random_order
from instruct.judging.store import Judgment, JudgmentStore
from instruct.run.directory import RunDirectory

PAIRS = 120


def question(number: int) -> str:
    return f"{HOSTILE[number]} prompt {number}" if number < len(HOSTILE) else f"prompt {number}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run in which a judge called 60 % of the pairs for the candidate; one pair has identical answers."""
    run = RunDirectory(tmp_path / "runs" / "one")
    run.start({"name": "one", "comparisons": [["emo", "mle"]]})
    run.outputs.mkdir()
    draw = random.Random(0)
    for name in ("emo", "mle"):
        rows = [
            {
                "dataset": "d",
                "instruction": question(number),
                "output": "the same" if number == 50 else f"{HOSTILE[number % len(HOSTILE)]} {name} {number}",
                "generator": name,
            }
            for number in range(PAIRS)
        ]
        (run.outputs / f"{name}.json").write_text(json.dumps(rows))
    with JudgmentStore(run.store) as store:
        verdicts = [draw.choices(["first", "second"], [60, 40])[0] for _ in range(PAIRS)]
        store.add_judgments(
            Judgment("cheap", "emo", "mle", number, question(number), "d", "first", f"key {number}", verdict)
            for number, verdict in enumerate(verdicts)
        )
    return run.folder


def label_line(number: int, label: str, **more: object) -> str:
    return json.dumps({"candidate": "emo", "baseline": "mle", "instruction": question(number), "label": label} | more)


def write_labels(path: Path, labels: dict[int, str]) -> Path:
    path.write_text("".join(label_line(number, label) + "\n" for number, label in labels.items()))
    return path


def figures(folder: Path) -> dict:
    return json.loads((folder / "report" / "report.json").read_text())["judges"][0]["comparisons"][0]


def test_report_combines_labels_with_verdicts_and_keeps_them(folder, instruct, tmp_path) -> None:
    labels = write_labels(tmp_path / "labels.jsonl", {n: ("candidate", "baseline", "tie")[n % 3] for n in range(40)})
    code, out, err = instruct("report", folder, "--human", labels)
    assert code == 0, err
    assert "With people's labels on 40 of 120 pairs: win rate of emo" in out
    found = figures(folder)["with_labels"]
    assert (found["labels"], found["pairs"]) == (40, PAIRS)
    assert found["labels_only"] == pytest.approx(100 * (14 + 13 / 2) / 40, abs=1e-4)
    assert found["labels_needed"] is None
    assert "not reachable with these prompts" in (folder / "report" / "report.md").read_text()
    # The run keeps them.
    labels.unlink()
    assert instruct("report", folder)[0] == 0
    assert figures(folder)["with_labels"] == found


def test_labels_count_for_either_side_as_the_candidate(folder, instruct, tmp_path) -> None:
    labels = dict.fromkeys(range(40), "candidate")
    assert instruct("report", folder, "--human", write_labels(tmp_path / "one.jsonl", labels))[0] == 0
    found = figures(folder)["with_labels"]
    swapped = tmp_path / "other.jsonl"
    swapped.write_text(
        "".join(label_line(number, "baseline", candidate="mle", baseline="emo") + "\n" for number in labels)
    )
    assert instruct("report", folder, "--human", swapped)[0] == 0
    assert figures(folder)["with_labels"] == found


def test_several_annotators_are_averaged_and_one_may_not_label_twice(folder, instruct, tmp_path) -> None:
    path = tmp_path / "labels.jsonl"
    rows = [label_line(number, "candidate", annotator="a") for number in range(40)]
    path.write_text("\n".join([*rows, *(label_line(number, "tie", annotator="b") for number in range(40))]))
    assert instruct("report", folder, "--human", path)[0] == 0
    assert figures(folder)["with_labels"]["labels_only"] == 75
    path.write_text("\n".join([*rows, label_line(3, "tie", annotator="a")]))
    code, _, err = instruct("report", folder, "--human", path)
    assert code == 2
    assert "row 41" in err
    assert "is already labeled in row 4" in err


def test_labels_measure_the_judges_agreement(folder, instruct, tmp_path) -> None:
    """The labels by people are the judge's agreement with people, and say so if the finding does not survive them."""
    with JudgmentStore(folder / "judgments.sqlite") as store:
        said = {each.pair: each.verdict for each in store.judgments(store.comparisons()[0])}
    right = {n: "candidate" if said[n] == "first" else "baseline" for n in range(20)}
    labels = right | dict.fromkeys(range(20, 40), "tie")
    code, out, _ = instruct("report", folder, "--human", write_labels(tmp_path / "labels.jsonl", labels))
    assert code == 0
    (judge,) = json.loads((folder / "report" / "report.json").read_text())["judges"]
    (name, measured) = judge["human_agreement"].popitem()
    assert (name, measured["pairs"], measured["accuracy"]) == ("this run's labels", 40, 50.0)
    low, high = measured["accuracy_interval"]
    assert (low, high) == pytest.approx(score_interval(np.repeat([0.0, 1.0], 20)), abs=0.01)
    assert measured["kappa_interval"][0] < measured["kappa"] < measured["kappa_interval"][1]
    assert "this run's labels: κ" in out
    assert f"(accuracy 50.0 % of 40, 95 % CI {low:.1f}–{high:.1f}), too few pairs to rely on" in out
    assert "contradict" not in out
    with JudgmentStore(folder / "judgments.sqlite") as store:
        store.add_judgments(
            Judgment("sure", "emo", "mle", number, question(number), "d", "first", f"sure {number}", "first")
            for number in range(PAIRS)
        )
    labels = dict.fromkeys(range(9), "candidate") | dict.fromkeys(range(9, 20), "baseline")
    code, out, _ = instruct("report", folder, "--human", write_labels(tmp_path / "labels.jsonl", labels))
    assert code == 0
    assert "sure: emo beats mle" in out
    assert "With people's labels on 20 of 120 pairs: win rate of emo 45 %" in out
    assert "contradict" not in out  # 11 of 20 labels say nothing against it
    claim = figures(folder)["with_labels"]["claim"]
    assert (claim["judge"], claim["family"], claim["claims"], claim["finding"]) == (
        "cheap",
        "labels",
        2,
        "no difference",
    )
    assert claim["adjusted_p"] == min(1, 2 * claim["p"])
    labels = dict.fromkeys(range(60), "baseline")
    code, out, _ = instruct("report", folder, "--human", write_labels(tmp_path / "labels.jsonl", labels))
    assert code == 0
    assert "sure: emo beats mle" in out
    assert "n = 120). People's labels contradict this" in out
    assert "people's labels contradict the judge: with them the win rate of emo is" in out


def test_the_export_of_a_stronger_judge_serves_as_labels(folder, instruct, tmp_path) -> None:
    with JudgmentStore(folder / "judgments.sqlite") as store:
        store.add_judgments(
            Judgment("dear", "emo", "mle", number, question(number), "d", "first", f"dear {number}", "first")
            for number in range(60)
        )
    export = tmp_path / "dear.jsonl"
    assert instruct("export", folder, "--judge", "dear", "--format", "jsonl", "--output", export)[0] == 0
    assert instruct("report", folder, "--human", export)[0] == 0
    assert figures(folder)["with_labels"]["labels_only"] == 100
    judges = json.loads((folder / "report" / "report.json").read_text())["judges"]
    assert [judge["human_agreement"] for judge in judges] == [None, None]  # no person labeled anything


def test_few_labels_and_labels_of_unjudged_pairs_are_warned_about(folder, instruct, tmp_path) -> None:
    path = write_labels(tmp_path / "labels.jsonl", dict.fromkeys(range(10), "tie"))
    path.write_text(path.read_text() + json.dumps(json.loads(label_line(0, "tie")) | {"instruction": "other"}) + "\n")
    code, out, _ = instruct("report", folder, "--human", path)
    assert code == 0
    assert "only 5 of 10 labels for the side that has fewer" in out
    assert "not counted: 1 label on pairs without a verdict" in out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}\n", "row 1: the key 'candidate' is missing"),
        (label_line(1, "emo") + "\n", "row 1: label: "),
        (label_line(1, "tie", candidate="x") + "\n", "no label is on a judged pair"),
        ("", "has no rows"),
    ],
)
def test_unusable_labels_are_refused_and_nothing_is_kept(folder, instruct, tmp_path, content: str, said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    code, _, err = instruct("report", folder, "--human", path)
    assert code == 2
    assert said in err
    assert not (folder / "labels.jsonl").exists()


def form_data(path: Path) -> dict:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.DOTALL)
    assert match
    return json.loads(match[1])


def test_form_draws_the_pairs_at_random_and_a_larger_one_contains_a_smaller(folder, instruct) -> None:
    assert instruct("sample", folder, "-n", "30")[0] == 0
    drawn = form_data(folder / "label.html")["pairs"]
    assert [pair["id"] for pair in drawn] == random_order(map(question, range(PAIRS)))[:30]
    assert {pair["left"] for pair in drawn} == {"candidate", "baseline"}
    for pair in drawn:
        ours = pair["answers"][0 if pair["left"] == "candidate" else 1]
        assert "emo" in ours or ours == "the same"
    code, out, _ = instruct("sample", folder, "-n", "500", "--output", folder / "all.html")
    assert code == 0
    assert f"{PAIRS} pairs to label" in out
    pairs = form_data(folder / "all.html")["pairs"]
    assert pairs[:30] == drawn
    assert [pair["id"] for pair in pairs if pair["identical"]] == [question(50)]
    assert instruct("sample", folder, "-n", "30", "--seed", "1")[0] == 0
    assert form_data(folder / "label.html")["pairs"] != drawn


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["-n", "0"], "must be at least 1"),
        (["--candidate", "emo"], "--candidate requires --baseline"),
        (["--candidate", "emo", "--baseline", "nobody"], "no such answers"),
    ],
)
def test_form_refuses_what_it_cannot_draw(folder, instruct, flags: list[str], said: str) -> None:
    code, _, err = instruct("sample", folder, *flags)
    assert code == 2
    assert said in err


@pytest.fixture
def page(folder: Path, instruct: Callable[..., tuple[int, str, str]], browser: Any) -> Iterator:
    assert instruct("sample", folder, "-n", "14")[0] == 0
    page = browser.new_page()
    page.seen = []
    page.on("console", lambda message: page.seen.append(message.text))
    page.on("pageerror", lambda error: page.seen.append(str(error)))
    page.on("request", lambda request: page.seen.append(request.url) if "label.html" not in request.url else None)
    page.goto((folder / "label.html").as_uri())
    yield page
    page.close()


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
def test_pairs_are_labeled_by_keyboard_exported_and_reported(page, folder, instruct, tmp_path) -> None:
    pairs = form_data(folder / "label.html")["pairs"]
    assert not any(pair["identical"] for pair in pairs)
    for number, key in enumerate(["1", "2", "0"]):
        assert page.text_content("#prompt") == pairs[number]["prompt"]
        assert page.text_content("#answer-left") == pairs[number]["answers"][0]
        page.keyboard.press(key)
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowRight")  # the third was not a tie after all
    assert page.text_content("#progress") == "3 of 14 labeled"
    page.reload()
    assert page.text_content("#progress") == "3 of 14 labeled"
    page.fill("#annotator", "Ann 1")
    assert page.text_content("#progress") == "3 of 14 labeled"  # typing a name is no label
    with page.expect_download() as download:
        page.click("#export")
    path = tmp_path / "labels.jsonl"
    download.value.save_as(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    other = {"candidate": "baseline", "baseline": "candidate"}
    assert [row["label"] for row in rows] == [pairs[0]["left"], other[pairs[1]["left"]], other[pairs[2]["left"]]]
    assert {row["annotator"] for row in rows} == {"Ann 1"}
    code, out, err = instruct("report", folder, "--human", path)
    assert code == 0, err
    assert "With people's labels on 3 of 120 pairs" in out
    assert page.evaluate("window.broken") is None
    assert page.seen == []


@pytest.mark.slow
@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [1280, 390])
def test_form_fits_the_window_until_all_pairs_are_labeled(page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for _ in range(14):
        page.click("[data-choice=tie]")
    assert page.is_visible("#done")
    assert page.is_disabled("[data-choice=left]")
    assert page.evaluate("window.broken") is None
