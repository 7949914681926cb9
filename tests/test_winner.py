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
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from json_files import write_json
from kept_tasks import keep_task, task_files
from log_samples import annotations, arena_hard, inspect_log, inspect_sample, paired, rated

from instruct.judging.store import Judgment, JudgmentStore
from instruct.logs.tables import COLUMNS
from instruct.run.directory import RunDirectory
from instruct.run.measurements import numbers, write_numbers, write_values
from tests.reporting.bench_runs import WORDS, bench_run, write_outputs

UNITS = 60
SYSTEMS = ["good", "middle", "bad"]  # the best first
# Of each unit, 1 for a win or a right answer, 0 for none, 1/2 for a tie; None: missing.
Scores = Sequence[float | None]
# By system, the scores of each training.
World = Mapping[str, Sequence[Scores]]

GOOD = [float(unit < 45) for unit in range(UNITS)]
BAD = [1 - score for score in GOOD]  # exactly 50 points less
MIDDLE = [float(unit % 2) for unit in range(UNITS)]


def every(scores: Scores, step: int, value: float | None) -> Scores:
    """The scores with another value at every so manieth unit."""
    return [value if unit % step == 5 else score for unit, score in enumerate(scores)]


def trainings(scores: Sequence[float]) -> list[Scores]:
    return [[1 - score if unit % 20 == seed else score for unit, score in enumerate(scores)] for seed in range(3)]


WORLDS: dict[str, World] = {
    "plain": {"good": [GOOD], "bad": [BAD]},
    "ties": {"good": [every(GOOD, 7, 0.5)], "bad": [every(BAD, 8, 0.5)]},
    "missing": {"good": [every(GOOD, 30, None)], "bad": [every(BAD, 40, None)]},
    "seeds": {"good": trainings(GOOD), "bad": trainings(BAD)},
    "three": {"good": [GOOD], "middle": [MIDDLE], "bad": [BAD]},
}
EQUAL: World = {
    "good": [[unit // 2 % 2 for unit in range(UNITS)]],
    "bad": [[1 - unit // 2 % 2 for unit in range(UNITS)]],
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch, without_figures):
    monkeypatch.chdir(tmp_path)


# What must hold of every claim and of every sentence


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


# What each tool writes of a system's scores


def write_csv(path: Path, rows: Sequence[Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def on_scale(scores: Scores, better: str) -> Scores:
    """A share, or values of a metric that is better lower and is none."""
    return scores if better == "higher" else [None if score is None else 10 - 4 * score for score in scores]


def table(folder: Path, system: str, scores: Scores, metric: str) -> Path:
    rows = [[unit, "" if score is None else score, unit // 2] for unit, score in enumerate(scores)]
    return write_csv(folder / f"{system}.csv", [["id", metric, "passage"], *rows])


def lm_eval(folder: Path, system: str, scores: Scores, metric: str, better: str = "higher") -> Path:
    logs = folder / system
    logs.mkdir(parents=True)
    for name, text in task_files("t", system, on_scale(scores, better), metric, better).items():
        (logs / name).write_text(text)
    return logs


def inspect(folder: Path, system: str, scores: Scores, metric: str) -> Path:
    failed = {"scores": {}, "error": {"message": "ValueError('x')"}}
    samples = [
        inspect_sample(unit, metadata={"passage": unit // 2})
        | (failed if score is None else {"scores": {metric: {"value": score}}})
        for unit, score in enumerate(scores)
    ]
    return write_json(folder / system / "log.json", inspect_log(samples))


def alpaca_eval(folder: Path, system: str, scores: Scores, opponent: str = "ref", graded: bool = False) -> Path:
    """Two rows share a prompt, and are a cluster; `graded`: a weighted judge's preferences, each of another prompt."""
    shares = scores
    if graded:
        shares = [None if score is None else 0.1 + 0.8 * score + unit % 9 / 100 for unit, score in enumerate(scores)]
    rows = annotations([None if share is None else 1 + share for share in shares])
    for unit, row in enumerate(rows):
        row |= {"id": unit, "instruction": f"Q{unit if graded else unit // 2}?"}
        row |= {"generator_1": opponent, "generator_2": system}
    return write_json(folder / system / "annotations.json", rows)


def arena_hard_file(folder: Path, system: str, scores: Scores, opponent: str = "ref") -> Path:
    """Every fourth verdict is a strong one, which counts three times."""

    def labels(unit: int, score: float | None) -> tuple[str | None, str | None]:
        strong = ">" * (1 + (unit % 4 == 0))
        won, lost = (f"B{strong}A", f"A{strong}B"), (f"A{strong}B", f"B{strong}A")
        return {1.0: won, 0.0: lost, 0.5: ("A=B", "A=B"), None: (None, None)}[score]

    games = itertools.starmap(labels, enumerate(scores))
    return write_json(
        folder / f"{system}.jsonl", arena_hard(games, category="hard_prompt", model=system, baseline=opponent)
    )


def mt_bench_pairs(folder: Path, first: str, second: str, scores: Scores) -> Path:
    """The two turns of a question are a cluster."""
    winner = {1.0: "model_1", 0.0: "model_2", 0.5: "tie", None: "error"}
    rows = paired((winner[score], winner[score]) for score in scores)
    return write_json(
        folder / f"{first}_{second}_pair.jsonl", [row | {"model_1": first, "model_2": second} for row in rows]
    )


def mt_bench_ratings(folder: Path, system: str, scores: Scores) -> Path:
    ratings = [-1 if score is None else 1 + 9 * score for score in scores]
    return write_json(folder / f"{system}_single.jsonl", rated(ratings, model=system))


def unit_scores(
    folder: Path, system: str, scores: Scores, metric: str = "win rate", better: str = "higher", against: str = ""
) -> Path:
    """scores.csv of a bench, with one training of one system."""
    rows = [
        [system, "", "t", against, metric, unit, unit // 2, "" if value is None else value, "", 1, better]
        for unit, value in enumerate(on_scale(scores, better))
    ]
    return write_csv(folder / f"{system}.csv", [COLUMNS, *rows])


def judge(run: RunDirectory, candidate: str, baseline: str, scores: Scores, question: str = "Q{}?") -> None:
    """Verdicts of a run's judge, shown in one order."""
    verdicts = {1.0: "first", 0.0: "second", 0.5: "tie", None: "unparsed"}
    with JudgmentStore(run.store) as store:
        store.add_judgments(
            Judgment("j", candidate, baseline, unit, question.format(unit), "d", "first", "k", verdicts[score])
            for unit, score in enumerate(scores)
        )


def verdicts_of_a_run(folder: Path, system: str, scores: Scores) -> Path:
    run = RunDirectory(folder / system)
    run.start({"name": system, "systems": {}, "comparisons": []})
    judge(run, system, "ref", scores)
    return run.folder


def task_of_a_run(folder: Path, system: str, scores: Scores, metric: str, better: str = "higher") -> Path:
    run = RunDirectory(folder / system)
    run.start({"name": system, "systems": {system: {"objective": "mle"}}})
    keep_task(run, "t", system, on_scale(scores, better), metric, better)
    return run.folder


class Source(NamedTuple):
    """How it is written, and what its claims are; `named`: the metric has the name that a user gave it."""

    write: Callable[..., Path]
    kind: str = "points"
    named: bool = True


SOURCES = {
    "table": Source(table),
    "lm-eval": Source(lm_eval),
    "lm-eval, lower is better": Source(partial(lm_eval, better="lower"), "metric"),
    "Inspect": Source(inspect),
    "AlpacaEval": Source(alpaca_eval, named=False),
    "Arena-Hard": Source(arena_hard_file, named=False),
    "MT-Bench": Source(mt_bench_ratings, "metric", named=False),
    "unit scores": Source(unit_scores),
    "unit scores, lower is better": Source(partial(unit_scores, better="lower"), "metric"),
    "verdicts as unit scores": Source(partial(unit_scores, against="ref"), named=False),
    "verdicts of runs": Source(verdicts_of_a_run, named=False),
    "tasks of runs": Source(task_of_a_run),
    "tasks of runs, lower is better": Source(partial(task_of_a_run, better="lower"), "metric"),
}


# `instruct compare`


def call_of(source: str, world: World, folder: Path, metric: str = "win rate") -> list[str]:
    """NAME=PATH of each training, the best system first, and the flags that read them."""
    named = [metric] if SOURCES[source].named else []
    logs = [
        f"{system}={SOURCES[source].write(folder / f'seed{seed}', system, scores, *named)}"
        for system, each in world.items()
        for seed, scores in enumerate(each)
    ]
    flags = ["--unit-column", "id", "--metric", metric] if source == "table" else []
    flags += ["--seeds", "seed(?P<seed>[0-9])/"] if len(world["good"]) > 1 else []
    return [*logs, *flags, *(["--pairs"] if len(world) > 2 else [])]


def the_worst_first(call: list[str]) -> list[str]:
    logs = [each for each in call if each.partition("=")[0] in SYSTEMS]
    return [*sorted(logs, key=lambda log: -SYSTEMS.index(log.partition("=")[0])), *call[len(logs) :]]


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


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("source", SOURCES)
def test_compare_names_the_winner(source, world, tmp_path, instruct):
    call = call_of(source, WORLDS[world], tmp_path)
    for ordered in (call, the_worst_first(call)):
        check_compared(instruct, ordered, SOURCES[source].kind)


@pytest.mark.parametrize("source", ["table", "Inspect"])
def test_clusters_leave_the_winner(source, tmp_path, instruct):
    call = [*call_of(source, WORLDS["ties"], tmp_path), "--cluster-column", "passage"]
    for ordered in (call, the_worst_first(call)):
        content = check_compared(instruct, ordered, "points")
        assert content["claims"][0]["params"]["clusters"] == UNITS // 2


def seen_by(first: str, scores: Scores) -> Scores:
    """Scores of `good` against `bad`, or as the other one sees them."""
    return [score if first == "good" or score is None else 1 - score for score in scores]


PAIRS = pytest.mark.parametrize("pair", [("good", "bad"), ("bad", "good")])
JUDGED = pytest.mark.parametrize("world", ["plain", "ties", "missing"])


@JUDGED
@PAIRS
def test_compare_names_the_winner_of_pairs(pair, world, tmp_path, instruct):
    """MT-Bench's pairs: both systems are in one file."""
    path = mt_bench_pairs(tmp_path, *pair, seen_by(pair[0], WORLDS[world]["good"][0]))
    for baseline in pair:
        check_compared(instruct, [str(path), "--baseline", baseline], "points")


@pytest.mark.parametrize("source", SOURCES)
def test_compare_of_equal_systems_names_no_winner(source, tmp_path, instruct):
    _, content, text = compare(instruct, call_of(source, EQUAL, tmp_path))
    (claim,) = content["claims"]
    low, high = claim["interval"]
    assert (claim["finding"], claim["value"]) == ("no difference", 0)
    assert low < 0 < high
    assert claim["p"] > 0.05
    (beyond,) = re.findall(r"no difference shown between .*differences beyond ±([\d.]+)", text)
    assert float(beyond) == pytest.approx(max(map(abs, claim["excluding"])), abs=1)


@pytest.mark.parametrize("source", [source for source in SOURCES if SOURCES[source].named])
def test_another_name_of_a_measure_changes_nothing_else(source, tmp_path, instruct):
    seen = set()
    for number, metric in enumerate(["score", "win rate", "mean over tasks"]):
        call = call_of(source, WORLDS["missing"], tmp_path / str(number), metric)
        code, content, text = compare(instruct, the_worst_first(call), "-49")
        claims = [{key: value for key, value in claim.items() if key != "measure"} for claim in content["claims"]]
        seen.add(json.dumps([code, claims, text.replace(metric, "THE METRIC")]))
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
    for system in ("good", "bad"):
        flags = ["--candidate", system, "--metric", "win_rate_low", "--fail-under", "50"]
        assert instruct("report", run, *flags)[0] == (0 if system == "good" else 4)


VERDICTS_OF = {
    "AlpacaEval": alpaca_eval,
    "AlpacaEval, graded": partial(alpaca_eval, graded=True),
    "Arena-Hard": arena_hard_file,
    "MT-Bench": lambda folder, system, scores, opponent: mt_bench_pairs(folder, system, opponent, scores),
}


@JUDGED
@PAIRS
@pytest.mark.parametrize("layout", VERDICTS_OF)
def test_a_report_on_a_leaderboards_file_names_the_winner(layout, pair, world, instruct):
    path = VERDICTS_OF[layout](Path(), pair[0], seen_by(pair[0], WORLDS[world]["good"][0]), pair[1])
    check_judged(instruct, ["--annotations", path, "--output", "run"], pair)
    if (layout, world) == ("AlpacaEval", "missing"):
        check_gates(instruct, "run")


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
    for seed, scores in enumerate(trainings(GOOD), 1):
        varied = scores if world == "plain" else every(scores, 30, 0.5 if world == "ties" else None)
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
    for seed, scores in enumerate(trainings(GOOD), 1):
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
