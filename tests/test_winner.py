"""The loser is never called the winner: every source and every kind of claim, through the commands.

In each world it is known who is better, and clearly so. What is checked is what a reader acts on: the sentence, the
finding, the interval, p, and the exit code of the gate.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from kept_tasks import keep_task

from instruct.judging.store import Judgment, JudgmentStore
from instruct.logs.tables import COLUMNS as COLUMNS_OF_SCORES
from instruct.run.directory import RunDirectory
from instruct.run.measurements import numbers, write_numbers, write_values
from tests.reporting.bench_runs import WORDS, bench_run, write_outputs

UNITS = 60
# The best first.
SYSTEMS = ["good", "middle", "bad"]
Score = float | None
# By system, of each training: 1 for a win or a right answer of each unit, 0 for none, 1/2 for a tie; None: missing.
World = Mapping[str, Sequence[Sequence[Score]]]

_GOOD = [float(unit < 45) for unit in range(UNITS)]
_BAD = [float(unit >= 45) for unit in range(UNITS)]  # exactly 50 points less
_MIDDLE = [float(unit % 2) for unit in range(UNITS)]


def _every(scores: Sequence[Score], step: int, value: Score) -> list[Score]:
    """The scores with another value at every so manieth unit."""
    return [value if unit % step == 5 else score for unit, score in enumerate(scores)]


def _trainings(scores: Sequence[float]) -> list[list[Score]]:
    return [[1 - score if unit % 20 == seed else score for unit, score in enumerate(scores)] for seed in range(3)]


WORLDS: dict[str, World] = {
    "plain": {"good": [_GOOD], "bad": [_BAD]},
    "ties": {"good": [_every(_GOOD, 7, 0.5)], "bad": [_every(_BAD, 8, 0.5)]},
    "missing": {"good": [_every(_GOOD, 30, None)], "bad": [_every(_BAD, 40, None)]},
    "seeds": {"good": _trainings(_GOOD), "bad": _trainings(_BAD)},
    "three": {"good": [_GOOD], "middle": [_MIDDLE], "bad": [_BAD]},
}
EQUAL: World = {
    "good": [[unit // 2 % 2 for unit in range(UNITS)]],
    "bad": [[1 - unit // 2 % 2 for unit in range(UNITS)]],
}


def check_claim(claim: Mapping[str, Any], null: float = 0.0, systems: Sequence[str] = SYSTEMS) -> None:
    """The claim is about two of these systems, and says which is better, if it says it at all."""
    candidate, baseline = (systems.index(claim[side].partition("-")[0]) for side in ("candidate", "baseline"))
    gain = (claim["value"] - null) * (-1 if claim["better"] == "lower" else 1)
    assert (gain > 0) == (candidate < baseline), claim
    assert claim["finding"] in (None, "candidate" if candidate < baseline else "baseline"), claim
    low, high = claim["interval"]
    assert low <= claim["value"] <= high
    assert not low <= null <= high
    assert max(claim["p"], claim["adjusted_p"] or 0.0) <= 0.05
    assert claim["excluding"] is None


def check_sentences(text: str, sentences: int) -> None:
    """So many sentences say who beats whom, and each names the better one first."""
    said = re.findall(rf"\b({'|'.join(SYSTEMS)}) beats ({'|'.join(SYSTEMS)})\b", text)
    assert len(said) >= sentences, text
    assert all(SYSTEMS.index(first) < SYSTEMS.index(second) for first, second in said), said


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Files of other tools


def write_json(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.suffix == ".jsonl"
    path.write_text("\n".join(map(json.dumps, content)) + "\n" if lines else json.dumps(content))
    return path


def table(folder: Path, system: str, scores: Sequence[Score], metric: str) -> Path:
    path = folder / f"{system}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = [[unit, "" if score is None else score, unit // 2] for unit, score in enumerate(scores)]
        csv.writer(file).writerows([["id", metric, "passage"], *rows])
    return path


def lm_eval(folder: Path, system: str, scores: Sequence[Score], metric: str, better: str = "higher") -> Path:
    """A share, or a lower-is-better metric that is none."""
    date, task = "2026-01-01T10-00-00.000000", {"task": "t", "metric_list": [{"metric": metric, "aggregation": "mean"}]}
    values = [score if better == "higher" or score is None else 10 - 4 * score for score in scores]
    rows = [
        {"doc_id": unit, "doc": {"question": f"Q{unit}?"}, "target": "A", "arguments": {}, "resps": [["B"]]}
        | {"filtered_resps": ["B"], "filter": "none", "metrics": [metric], metric: value}
        for unit, value in enumerate(values)
    ]
    known = [value for value in values if value is not None]
    results = {
        "results": {"t": {"alias": "t", f"{metric},none": sum(known) / len(known)}},
        "configs": {"t": task}, "n-shot": {"t": 0}, "versions": {"t": 1}, "config": {"model": "hf"},
        "n-samples": {"t": {"original": UNITS, "effective": UNITS}}, "model_name": system,
        "higher_is_better": {"t": {metric: better == "higher"}},
    }  # fmt: skip
    write_json(folder / system / f"samples_t_{date}.jsonl", rows)
    write_json(folder / system / f"results_{date}.json", results)
    return folder / system


def lower(folder: Path, system: str, scores: Sequence[Score], metric: str) -> Path:
    return lm_eval(folder, system, scores, metric, "lower")


def inspect(folder: Path, system: str, scores: Sequence[Score], metric: str) -> Path:
    samples = [
        {"id": unit, "epoch": 1, "input": f"Q{unit}?", "target": "a", "metadata": {"passage": unit // 2}}
        | {"messages": [], "output": {"choices": []}, "scores": {metric: {"value": score}} if score is not None else {}}
        | ({"error": {"message": "ValueError('x')"}} if score is None else {})
        for unit, score in enumerate(scores)
    ]
    log = {
        "version": 2, "status": "success", "plan": {"steps": [], "config": {}}, "samples": samples,
        "eval": {
            "task": "t", "model": system, "created": "2026-11-26T10:00:00+00:00", "dataset": {"samples": UNITS},
            "config": {"epochs": 1, "epochs_reducer": ["mean"]}, "packages": {"inspect_ai": "0.3.285"},
        },
        "results": {"total_samples": UNITS, "scores": []},
    }  # fmt: skip
    return write_json(folder / system / "log.json", log)


def alpaca_eval(
    folder: Path, system: str, scores: Sequence[Score], opponent: str = "ref", graded: bool = False
) -> Path:
    """Two rows share a prompt, and are a cluster; `graded`: a weighted judge's preferences, each of another prompt."""
    share = [
        score if not graded or score is None else 0.1 + 0.8 * score + unit % 9 / 100
        for unit, score in enumerate(scores)
    ]
    rows = [
        {
            "id": unit,
            "instruction": f"Q{unit if graded else unit // 2}?",
            "output_1": f"other {unit}",
            "output_2": f"{system} {unit}",
        }
        | {"generator_1": opponent, "generator_2": system, "annotator": "judge"}
        | {"preference": None if score is None else 1 + score}
        for unit, score in enumerate(share)
    ]
    return write_json(folder / system / "annotations.json", rows)


def arena_hard(folder: Path, system: str, scores: Sequence[Score], opponent: str = "ref") -> Path:
    """Every fourth verdict is a strong one, which counts three times."""

    def games(unit: int, score: Score) -> list[Any]:
        if score is None:
            return [None, None]
        strong = ">" * (1 + (unit % 4 == 0))
        return ["A=B", "A=B"] if score == 0.5 else [f"B{strong}A", f"A{strong}B"][:: 1 if score else -1]

    rows = [
        {"uid": f"u{unit}", "category": "hard_prompt", "judge": "gpt-4.1", "model": system, "baseline": opponent}
        | {"games": [{"score": label, "judgment": f"[[{label}]]"} for label in games(unit, score)]}
        for unit, score in enumerate(scores)
    ]  # fmt: skip
    return write_json(folder / f"{system}.jsonl", rows)


def mt_bench_pairs(folder: Path, first: str, second: str, scores: Sequence[Score]) -> Path:
    """The two turns of a question are a cluster."""
    winner = {1.0: "model_1", 0.0: "model_2", 0.5: "tie", None: "error"}
    rows = [
        {"question_id": 81 + unit // 2, "turn": 1 + unit % 2, "judge": ["gpt-4", "pair-v2"], "model_1": first}
        | {"model_2": second, "g1_winner": winner[score], "g2_winner": winner[score]}
        for unit, score in enumerate(scores)
    ]
    return write_json(folder / f"{first}_{second}_pair.jsonl", rows)


def mt_bench_ratings(folder: Path, system: str, scores: Sequence[Score], _metric: str = "") -> Path:
    rows = [
        {"question_id": 81 + unit // 2, "turn": 1 + unit % 2, "model": system, "judge": ["gpt-4", "single-v1"]}
        | {"score": -1 if score is None else 1 + 9 * score, "judgment": "[[1]]"}
        for unit, score in enumerate(scores)
    ]
    return write_json(folder / f"{system}_single.jsonl", rows)


# `instruct compare`

Writer = Callable[[Path, str, Sequence[Score], str], Path]


def against_another(folder: Path, system: str, scores: Sequence[Score], _metric: str) -> Path:
    return alpaca_eval(folder, system, scores)


def against_another_by_arena_hard(folder: Path, system: str, scores: Sequence[Score], _metric: str) -> Path:
    return arena_hard(folder, system, scores)


def verdicts_of_a_run(folder: Path, system: str, scores: Sequence[Score], _metric: str) -> Path:
    run = RunDirectory(folder / system)
    run.start({"name": system, "systems": {}, "comparisons": []})
    judge(run, system, "ref", scores)
    return run.folder


def judge(run: RunDirectory, candidate: str, baseline: str, scores: Sequence[Score], question: str = "Q{}?") -> None:
    """Verdicts of a run's judge, shown in one order."""
    verdicts = {1.0: "first", 0.0: "second", 0.5: "tie", None: "unparsed"}
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment("j", candidate, baseline, unit, question.format(unit), "d", "first", "k", verdicts[score])
            for unit, score in enumerate(scores)
        )


def unit_scores(
    folder: Path, system: str, scores: Sequence[Score], metric: str, better: str = "higher", against: str = ""
) -> Path:
    """scores.csv of a bench, with one training of one system."""
    path = folder / f"{system}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        rows = [
            [system, "", "t", against, metric, unit, unit // 2, value, "", 1, better]
            for unit, score in enumerate(scores)
            for value in ["" if score is None else score if better == "higher" else 10 - 4 * score]
        ]
        csv.writer(file).writerows([COLUMNS_OF_SCORES, *rows])
    return path


def lower_unit_scores(folder: Path, system: str, scores: Sequence[Score], metric: str) -> Path:
    return unit_scores(folder, system, scores, metric, "lower")


def verdicts_as_unit_scores(folder: Path, system: str, scores: Sequence[Score], _metric: str) -> Path:
    return unit_scores(folder, system, scores, "win rate", against="ref")


def task_of_a_run(folder: Path, system: str, scores: Sequence[Score], metric: str, better: str = "higher") -> Path:
    run = RunDirectory(folder / system)
    run.start({"name": system, "systems": {system: {"objective": "mle"}}})
    answer(run, system, scores, metric, better)
    return run.folder


def answer(run: RunDirectory, system: str, scores: Sequence[Score], metric: str, better: str = "higher") -> None:
    """What `instruct evaluate` keeps of a task of lm-eval."""
    values = [score if better == "higher" or score is None else 10 - 4 * score for score in scores]
    keep_task(run, "t", system, values, metric, better)


def lower_in_a_run(folder: Path, system: str, scores: Sequence[Score], metric: str) -> Path:
    return task_of_a_run(folder, system, scores, metric, "lower")


# By source: how it is written, what its claims are, and the flags that read it.
COLUMNS = ["--unit-column", "id", "--metric"]
SOURCES: dict[str, tuple[Writer, str, list[str]]] = {
    "table": (table, "points", []),
    "lm-eval": (lm_eval, "points", []),
    "lm-eval, lower is better": (lower, "metric", []),
    "Inspect": (inspect, "points", []),
    "AlpacaEval": (against_another, "points", []),
    "Arena-Hard": (against_another_by_arena_hard, "points", []),
    "MT-Bench": (mt_bench_ratings, "metric", []),
    "unit scores": (unit_scores, "points", []),
    "unit scores, lower is better": (lower_unit_scores, "metric", []),
    "verdicts as unit scores": (verdicts_as_unit_scores, "points", []),
    "verdicts of runs": (verdicts_of_a_run, "points", []),
    "tasks of runs": (task_of_a_run, "points", []),
    "tasks of runs, lower is better": (lower_in_a_run, "metric", []),
}
# Those whose metric has the name that a user gave it.
NAMED = [
    "table", "lm-eval", "lm-eval, lower is better", "Inspect", "unit scores", "unit scores, lower is better",
    "tasks of runs", "tasks of runs, lower is better",
]  # fmt: skip
NAMES = ["score", "win rate", "mean over tasks"]


def logs_of(source: str, world: World, folder: Path, metric: str) -> list[str]:
    """NAME=PATH of each training; the first system is the best."""
    write, _, _ = SOURCES[source]
    return [
        f"{system}={write(folder / f'seed{seed}', system, scores, metric)}"
        for system, trainings in world.items()
        for seed, scores in enumerate(trainings)
    ]


def flags_of(source: str, world: World, metric: str) -> list[str]:
    flags = [*COLUMNS, metric] if source == "table" else []
    flags += ["--seeds", "seed(?P<seed>[0-9])/"] if len(world["good"]) > 1 else []
    return flags + (["--pairs"] if len(world) > 2 else [])


def in_both_orders(logs: list[str]) -> Iterator[list[str]]:
    yield logs
    yield sorted(logs, key=lambda log: -SYSTEMS.index(log.partition("=")[0]))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("source", SOURCES)
def test_compare_names_the_winner(source, world, tmp_path, instruct):
    metric = "win rate" if source in NAMED else ""
    logs = logs_of(source, WORLDS[world], tmp_path, metric)
    kind, flags = SOURCES[source][1], flags_of(source, WORLDS[world], metric)
    for ordered in in_both_orders(logs):
        check_compared(instruct, [*ordered, *flags], kind)


@pytest.mark.parametrize("source", ["table", "Inspect"])
def test_clusters_leave_the_winner(source, tmp_path, instruct):
    logs = logs_of(source, WORLDS["ties"], tmp_path, "win rate")
    for ordered in in_both_orders(logs):
        content = check_compared(
            instruct, [*ordered, *flags_of(source, WORLDS["ties"], "win rate"), "--cluster-column", "passage"], "points"
        )
        assert content["claims"][0]["params"]["clusters"] == UNITS // 2


@pytest.mark.parametrize("world", ["plain", "ties", "missing"])
@pytest.mark.parametrize("pair", [("good", "bad"), ("bad", "good")])
def test_compare_names_the_winner_of_pairs(pair, world, tmp_path, instruct):
    """MT-Bench's pairs: both systems are in one file."""
    scores = WORLDS[world]["good"][0]
    shares = scores if pair[0] == "good" else [None if score is None else 1 - score for score in scores]
    path = mt_bench_pairs(tmp_path, *pair, shares)
    for baseline in pair:
        check_compared(instruct, [str(path), "--baseline", baseline], "points")


def compare(instruct: Any, call: list[str], fail_under: str = "0") -> tuple[int, dict[str, Any], str]:
    """The exit code, all figures, and the comparison in Markdown."""
    files = ["--output", "it.json", "--output", "it.md"]
    code, _, err = instruct("compare", *call, "--fail-under", fail_under, *files)
    assert code in (0, 4), err
    return code, json.loads(Path("it.json").read_text()), Path("it.md").read_text()


def check_compared(instruct: Any, call: list[str], kind: str) -> dict[str, Any]:
    """The claims, the sentences, the ranks and the gate of a comparison."""
    code, content, text = compare(instruct, call)
    for claim in content["claims"]:
        check_claim(claim)
        assert claim["kind"] == kind
        assert ("detectable" in claim["params"]) == (kind == "points")
        assert 0 < claim["params"].get("detectable", 1) < 100
    ranks = [row["system"] for row in sorted(content["standings"], key=lambda row: row["rank_interval"])]
    assert ranks in ([], SYSTEMS)
    check_sentences(text, len(content["claims"]))
    assert (code == 0) == all(claim["finding"] == "candidate" for claim in content["claims"])
    return content


@pytest.mark.parametrize("source", SOURCES)
def test_compare_of_equal_systems_names_no_winner(source, tmp_path, instruct):
    call = [*logs_of(source, EQUAL, tmp_path, "win rate"), *flags_of(source, EQUAL, "win rate")]
    _, content, text = compare(instruct, call)
    (claim,) = content["claims"]
    low, high = claim["interval"]
    assert (claim["finding"], claim["value"]) == ("no difference", 0)
    assert low < 0 < high
    assert claim["p"] > 0.05
    (beyond,) = re.findall(r"no difference shown between .*differences beyond ±([\d.]+)", text)
    assert float(beyond) == pytest.approx(max(map(abs, claim["excluding"])), abs=1)


@pytest.mark.parametrize("world", ["missing", "three"])
@pytest.mark.parametrize("source", NAMED)
def test_another_name_of_a_measure_changes_nothing_else(source, world, tmp_path, instruct):
    seen = set()
    for number, metric in enumerate(NAMES):
        logs = logs_of(source, WORLDS[world], tmp_path / str(number), metric)
        code, content, text = compare(instruct, [*reversed(logs), *flags_of(source, WORLDS[world], metric)], "-49")
        claims = [{key: value for key, value in claim.items() if key != "measure"} for claim in content["claims"]]
        ranks = [row | {"metric": None} for row in content["standings"]]
        seen.add(json.dumps([code, claims, ranks, text.replace(metric, "THE METRIC")]))
    assert len(seen) == 1


# `instruct report`


def claims_in(value: Any) -> Iterator[dict[str, Any]]:
    """All claims of a document, those beside counts among them."""
    if isinstance(value, dict) and {"candidate", "finding", "test"} <= value.keys():
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from claims_in(each)


def report(instruct: Any, *call: object) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the claims of report.json, and report.md."""
    code, _, err = instruct("report", *call)
    assert code in (0, 4), err
    folder = Path(call[call.index("--output") + 1] if "--output" in call else call[0]) / "report"
    return code, list(claims_in(json.loads((folder / "report.json").read_text()))), (folder / "report.md").read_text()


def kinds_of(claims: Sequence[Mapping[str, Any]]) -> set[tuple[str, str]]:
    return {(claim["measure"], claim["kind"]) for claim in claims}


def check_judged(instruct: Any, call: Sequence[object], pair: tuple[str, str], *more: tuple[str, str]) -> None:
    """The claims and the gate of verdicts on a pair; `more`: measures and kinds of claims beside win rates."""
    code, claims, text = report(instruct, *call, "--fail-under", "50")
    for claim in claims:
        check_claim(claim, 50.0)
    assert kinds_of(claims) == {("win rate", "rate"), *more}
    check_sentences(text, 1)
    assert code == (0 if pair[0] == "good" else 4)


def check_gates(instruct: Any, run: object) -> None:
    """Of either system, whichever is the candidate."""
    for metric, system in itertools.product(("win_rate", "win_rate_low"), ("good", "bad")):
        flags = ["--candidate", system, "--metric", metric, "--fail-under", "50"]
        assert instruct("report", run, *flags)[0] == (0 if system == "good" else 4)


def seen_by(first: str, scores: Sequence[Score]) -> list[Score]:
    """Scores of `good` against `bad`, or as the other one sees them."""
    return [score if first == "good" or score is None else 1 - score for score in scores]


PAIRS = pytest.mark.parametrize("pair", [("good", "bad"), ("bad", "good")])
JUDGED = pytest.mark.parametrize("world", ["plain", "ties", "missing"])


@JUDGED
@PAIRS
@pytest.mark.parametrize("graded", [False, True])
def test_a_report_on_annotations_names_the_winner(pair, world, graded, instruct):
    scores = seen_by(pair[0], WORLDS[world]["good"][0])
    path = alpaca_eval(Path(), pair[0], scores, pair[1], graded)
    check_judged(instruct, ["--annotations", path, "--output", "run"], pair)
    if world == "missing" and not graded:
        check_gates(instruct, "run")


@JUDGED
@PAIRS
def test_a_report_on_a_leaderboards_file_names_the_winner(pair, world, instruct):
    """Arena-Hard's strong verdicts count more than others; MT-Bench's turns are in conversations."""
    scores = seen_by(pair[0], WORLDS[world]["good"][0])
    files = arena_hard(Path(), pair[0], scores, pair[1]), mt_bench_pairs(Path(), *pair, scores)
    for number, path in enumerate(files):
        check_judged(instruct, ["--annotations", path, "--output", f"run{number}"], pair)


def make_run(*systems: str, seeds: int = 0) -> RunDirectory:
    run = RunDirectory("run")
    names = [f"{system}-seed{seed}" for system in systems for seed in range(1, seeds + 1)] if seeds else systems
    about = {name: {"objective": "mle", **({"seed": int(name[-1])} if seeds else {})} for name in names}
    run.start({"name": "run", "systems": about})
    return run


@JUDGED
@PAIRS
def test_a_report_over_seeds_names_the_winner(pair, world, instruct):
    run = make_run("good", "bad", seeds=3)
    for seed, scores in enumerate(_trainings(_GOOD), 1):
        varied = scores if world == "plain" else _every(scores, 30, 0.5 if world == "ties" else None)
        judge(run, f"{pair[0]}-seed{seed}", f"{pair[1]}-seed{seed}", seen_by(pair[0], varied))
    check_judged(instruct, [run.folder], pair)
    if world == "plain":
        check_gates(instruct, run.folder)


@PAIRS
@pytest.mark.parametrize("world", ["plain", "ties"])
def test_a_report_through_a_third_system_names_the_winner(pair, world, instruct):
    run = make_run("good", "bad")
    for system in pair:
        judge(run, system, "ref", WORLDS[world][system][0])
    _, claims, text = report(instruct, run.folder)
    (claim,) = (claim for claim in claims if claim["through"] == "ref")
    check_claim(claim)
    assert kinds_of([claim]) == {("difference of win rates", "points")}
    ((first, sign),) = re.findall(r"(\w+) minus \w+: difference of win rates ([+-])[\d.]+ points", text)
    assert (sign == "+") == (first == "good")


@PAIRS
def test_people_who_correct_a_judge_name_the_winner(pair, instruct):
    run = make_run("good", "bad")
    scores = [float(unit % 10 < 7) for unit in range(3 * UNITS)]
    judge(run, *pair, seen_by(pair[0], scores))
    labels = seen_by(pair[0], [1 - score if unit % 33 == 0 else score for unit, score in enumerate(scores)])
    about = {"candidate": pair[0], "baseline": pair[1]}
    rows = [
        about | {"instruction": f"Q{unit}?", "label": "candidate" if label else "baseline"}
        for unit, label in enumerate(labels)
        if unit % 5 != 4
    ]
    check_judged(
        instruct,
        [run.folder, "--human", write_json(Path("people.jsonl"), rows)],
        pair,
        ("win rate with labels", "rate"),
    )


@PAIRS
def test_a_bench_names_the_winner(pair, instruct):
    """Three trainings of MLE and of dft: ROUGE-L, a judge, and cross-entropy and perplexity, which are better lower."""
    objectives = dict(zip(pair, ("dft", "mle"), strict=True))
    order = [objectives["good"], objectives["bad"]]
    run = bench_run(Path("bench"), {"dft": 3, "mle": 3}, rows=UNITS)
    ids = [f"secret prompt {unit}" for unit in range(UNITS)]
    for system, seed in itertools.product(("good", "bad"), (1, 2, 3)):
        name, better = f"{objectives[system]}-seed{seed}", system == "good"
        draw = random.Random(seed + 3 * better)
        words = [1 + 4 * better + draw.randrange(3) for _ in ids]
        write_outputs(run, name, ids, [" ".join(WORDS[:count]) for count in words])
        texts = [f"text {number}" for number in range(2 * UNITS)]  # fewer than 100 have no interval
        nats = [8 - 3 * better + draw.random() for _ in texts]
        write_values(run, "perplexity", name, {"id": texts, "nats": nats, "tokens": [4] * len(texts)})
        perplexity = math.exp(sum(nats) / (4 * len(texts)))
        write_numbers(run, "perplexity", name, numbers({"perplexity": perplexity}, len(texts)))
    for seed, scores in enumerate(_trainings(_GOOD), 1):
        judge(run, f"dft-seed{seed}", f"mle-seed{seed}", seen_by(pair[0], scores), "secret prompt {}")
    _, claims, text = report(instruct, run.folder)
    for claim in claims:
        check_claim(claim, 50.0 if claim["judge"] else 0.0, order)
    measures = {("cross-entropy", "metric"), ("perplexity", "metric"), ("ROUGE-L of greedy answers", "metric")}
    assert kinds_of(claims) == {*measures, ("win rate", "rate")}
    assert re.findall(r"(?:cross-entropy|ROUGE-L of greedy answers): (\w+) beats ", text) == [order[0]] * 2
    assert f"{order[0]} beats {order[1]}" in text


def published(layout: str, said: Sequence[str]) -> Path:
    """Verdicts on pairs, in the order shown, in a file as its authors write it."""
    if layout == "PandaLM":
        rows = [{"idx": n, "me_result": ["tie", "first", "second"].index(verdict)} for n, verdict in enumerate(said)]
    elif layout == "Auto-J":
        rows = [{"output": ["first", "second", "tie"].index(verdict)} for verdict in said]
    elif layout == "AlpacaEval":
        rows = [
            {"instruction": f"Q{n}?", "output_1": f"One {n}.", "output_2": f"Two {n}."}
            | {"preference": {"first": 1, "second": 2, "tie": 1.5}[verdict]}
            for n, verdict in enumerate(said)
        ]
    else:
        rows = [{"pair": n, "order": "first", "verdict": verdict} for n, verdict in enumerate(said)]
    return write_json(Path(f"verdicts.{'json' if layout in ('PandaLM', 'AlpacaEval') else 'jsonl'}"), rows)


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize("layout", ["PandaLM", "Auto-J", "AlpacaEval", "this project"])
def test_a_validation_names_the_judge_or_the_yardstick(layout, better, instruct):
    """A judge that is nearly always right, and one that is nearly always wrong; answers are of one length."""
    labels = ["first", "second", "tie"] * (UNITS // 3)
    others = {"first": "second", "second": "tie", "tie": "first"}
    said = [label if (unit % 10 > 0) == better else others[label] for unit, label in enumerate(labels)]
    rows = [
        {"instruction": f"Q{n}?", "input": "", "response1": f"One {n}.", "response2": f"Two {n}.", "label": label}
        for n, label in enumerate(labels)
    ]
    call = ["--replay", published(layout, said), "--against", write_json(Path("set.json"), rows)]
    code, out, err = instruct("validate", *call, "--output", "v")
    assert code == 0, err
    (claim,) = json.loads(Path("v/agreement.json").read_text())["claims"]
    assert (claim["finding"], claim["value"] > 0) == (("candidate", True) if better else ("baseline", False))
    check_claim(claim, systems=[claim["candidate"], claim["baseline"]][:: 1 if better else -1])
    assert claim["kind"] == "points"
    assert ("no better than" in out) == (not better)
