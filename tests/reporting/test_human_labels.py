"""`validate --sample` and `report --human`: pairs for people to label, and the win rate with their labels."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from instruct.analysis.inference import mean_score
from instruct.base.files import write_atomically
from instruct.judging.store import JudgmentStore
from instruct.reporting.human_labels import random_order
from instruct.run.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("without_figures")

PAIRS = 120


def question(number: int) -> str:
    return f"secret prompt {number}"


@pytest.fixture
def folder(run: RunDirectory, judge_showings: Callable[..., None]) -> Path:
    """A run in which a judge called 60 % of the pairs for the candidate; one pair has identical answers."""
    draw = random.Random(0)
    for name in ("emo", "mle"):
        rows = [
            {"instruction": question(number), "output": "the same" if number == 50 else f"= {name} {number}"}
            for number in range(PAIRS)
        ]
        write_atomically(run.outputs / f"{name}.json", json.dumps(rows))
    verdicts = [draw.choices(["first", "second"], [60, 40])[0] for _ in range(PAIRS)]
    judge_showings(*({"verdict": verdict} for verdict in verdicts), judge="cheap")
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
    assert "not reachable with these prompts" in (folder / "report" / "report.html").read_text()
    # The run keeps them.
    labels.unlink()
    assert instruct("report", folder)[0] == 0
    assert figures(folder)["with_labels"] == found


@pytest.mark.parametrize("annotators", [1, 2])
def test_labels_of_all_pairs_are_peoples_own_win_rate(folder, instruct, tmp_path, annotators) -> None:
    """Of two annotators, whose labels are averaged, the second calls all pairs for the candidate."""
    path = tmp_path / "labels.jsonl"
    labels = ["candidate"] * 50 + ["tie"] * 10 + ["baseline"] * 60
    lines = [label_line(number, label, annotator="a") for number, label in enumerate(labels)]
    lines += [label_line(number, "candidate", annotator="b") for number in range(PAIRS * (annotators - 1))]
    path.write_text("\n".join(lines))
    code, out, err = instruct("report", folder, "--human", path)
    assert code == 0, err
    points = np.repeat([1.0, 0.5, 0.0], [50, 10, 60])
    points = points if annotators == 1 else (points + 1) / 2
    found = figures(folder)["with_labels"]
    assert (found["labels"], found["pairs"], found["weight"]) == (PAIRS, PAIRS, 0)
    assert found["claim"]["value"] == found["labels_only"] == pytest.approx(100 * points.mean(), abs=1e-4)
    assert found["labels_only_interval"] == pytest.approx(mean_score(points[None]).interval, abs=1e-4)
    assert found["claim"]["params"]["decided"] == (110 if annotators == 1 else 60)
    expected = scipy.stats.binomtest(50, 110).pvalue if annotators == 1 else scipy.stats.ttest_1samp(points, 0.5).pvalue
    assert found["claim"]["p"] == pytest.approx(expected, rel=1e-3)
    assert f"With people's labels on 120 of 120 pairs: win rate of emo {100 * points.mean():.1f} %" in out


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


def test_labels_measure_the_judges_agreement(folder, instruct, tmp_path) -> None:
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
    assert (low, high) == pytest.approx(mean_score(np.repeat([0.0, 1.0], 20)[None]).interval, abs=0.01)
    assert measured["kappa_interval"][0] < measured["kappa"] < measured["kappa_interval"][1]
    assert f"(accuracy 50.0 % of 40, 95 % CI {low:.1f}–{high:.1f}), too few pairs to rely on" in out


@pytest.mark.parametrize(("labels", "contradicted"), [((9, 11), False), ((20, 60), True)])
def test_labels_that_contradict_a_judge_are_said_beside_its_finding(
    folder, instruct, tmp_path, judge_showings, labels, contradicted
):
    judge_showings(*[{"verdict": "first"}] * PAIRS, judge="sure")
    said = dict(enumerate(["candidate"] * labels[0] + ["baseline"] * labels[1]))
    code, out, _ = instruct("report", folder, "--human", write_labels(tmp_path / "labels.jsonl", said))
    assert code == 0
    assert "sure: emo beats mle" in out
    assert ("n = 120). People's labels contradict this" in out) == contradicted
    claim = figures(folder)["with_labels"]["claim"]
    assert (claim["judge"], claim["family"], claim["claims"]) == ("cheap", "labels", 2)
    assert claim["adjusted_p"] == min(1, 2 * claim["p"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (label_line(1, "emo") + "\n", "row 1: label: "),
        (label_line(1, "tie", candidate="x") + "\n", "no label is on a judged pair"),
        ((label_line(1, "tie") + "\n") * 2, "is already labeled in row 1"),
    ],
)
def test_unusable_labels_are_refused_and_nothing_is_kept(folder, instruct, tmp_path, content: str, said: str) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    code, _, err = instruct("report", folder, "--human", path)
    assert code == 2
    assert said in err
    assert not (folder / "labels.jsonl").exists()


def sampled(folder: Path, instruct: Callable[..., tuple[int, str, str]], count: int) -> list[dict]:
    pair = ("--candidate", "emo", "--baseline", "mle")
    code, out, err = instruct("validate", "--against", folder, "--sample", str(count), *pair)
    assert code == 0, err
    assert "to label" in out
    with (folder / "sample.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_sample_draws_pairs_at_random_and_a_larger_one_contains_a_smaller(folder, instruct) -> None:
    drawn = sampled(folder, instruct, 30)
    prompts = [row["prompt"].removeprefix("'") for row in drawn]
    assert prompts == random_order(map(question, range(PAIRS)))[:30]
    first = {"emo" in row["answer_1"] for row in drawn}
    assert first == {True, False}  # the sides are random, and nothing says which is which

    every = sampled(folder, instruct, 500)
    assert len(every) == PAIRS
    assert every[:30] == drawn
    assert {row["answer_1"]: row["label"] for row in every if row["label"]} == {"the same": "tie"}
    assert not [cell for row in every for cell in row.values() if cell.lstrip().startswith(("=", "+", "-", "@"))]


def test_a_sample_that_people_filled_in_is_reported(folder, instruct, tmp_path) -> None:
    """As a spreadsheet writes it: people preferred emo 10 times, mle 20 times and neither 5 times."""
    rows = sampled(folder, instruct, 40)
    rows = [row for row in rows if not row["label"]]
    for place, row in enumerate(rows[:35]):
        ours = "1" if " emo " in row["answer_1"] else "2"
        row["label"] = "Tie " if place >= 30 else ours if place < 10 else str(3 - int(ours))
    path = tmp_path / "filled.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    code, out, err = instruct("report", folder, "--human", path)
    assert code == 0, err
    assert "With people's labels on 35 of 120 pairs" in out
    assert figures(folder)["with_labels"]["labels_only"] == pytest.approx(100 * (10 + 5 / 2) / 35, abs=1e-4)
    path.write_text(path.read_text(encoding="utf-8").replace("Tie ", "3"), encoding="utf-8")
    code, _, err = instruct("report", folder, "--human", path)
    assert code == 2
    assert "row 31: label: is '3'; write 1, 2 or tie" in err
