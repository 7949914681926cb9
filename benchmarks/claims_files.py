"""Verdicts as files, imported into a run, and what its report.json claims: the whole way that benchmarks/claims.py
checks against the functions whose error it measures."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml
from numpy.typing import NDArray

from instruct.analysis.claims import LEAST_SEEDS, agreeing_interval, finding_of, settle
from instruct.analysis.outcomes import Outcome, outcome_of_score
from instruct.analysis.panel import majority
from instruct.analysis.prediction_powered import prediction_powered
from instruct.analysis.ranking import Standing, standings
from instruct.analysis.results import Sequential
from instruct.analysis.seeds import seed_spread
from instruct.analysis.sequential import LOOKS_SHARE, anytime_p, confidence_interval, random_order
from instruct.analysis.statistics import Tally, tally_pairs, win_rate_claim

Scores = NDArray[np.float64]
# What a headline claims, and its interval in percent.
Claim = tuple[str, list[float] | None]


def prompt(number: int) -> str:
    """The instruction of a pair."""
    return f"prompt {number}"


def of_scores(scores: Scores) -> Claim:
    """The claim from one score a prompt; grades if one is no win, tie or loss."""
    graded = bool(set(np.unique(scores)) - {0.0, 0.5, 1.0})
    wins, ties = int((scores > 0.5).sum()), int((scores == 0.5).sum())
    counts = Tally(wins, ties, len(scores) - wins - ties, scores=tuple(scores.tolist()) if graded else None)
    return of_counts(counts)


def of_counts(counts: Tally, looked: Sequential | None = None) -> Claim:
    """The claim that is made alone."""
    claim = win_rate_claim(counts, looked, candidate="new", baseline="base")
    settle([claim])
    return str(claim.finding), claim.interval


def of_stop(scores: Scores, pairs: int) -> Claim:
    """The claim after the first `scores` of the pairs, by the rule `decided`."""
    seen = scores.tolist()
    looked = Sequential(
        rule="decided", seed=0, pairs=pairs, judged=len(seen), met=anytime_p(seen) <= LOOKS_SHARE * 0.05, looks=[],
        p=anytime_p(seen), interval=confidence_interval(seen, seen),
    )  # fmt: skip
    wins, ties = int((scores == 1).sum()), int((scores == 0.5).sum())
    return of_counts(Tally(wins, ties, len(seen) - wins - ties), looked)


def of_panel(votes: Scores) -> Claim:
    """The claim of a majority, corrected with those of its judges; votes: shape (judges, pairs)."""
    said = {
        str(judge): {prompt(pair): outcome_of_score(score) for pair, score in enumerate(row)}
        for judge, row in enumerate(votes)
    }
    majorities = tally_pairs(majority(cast(Mapping[str, Mapping[str, Outcome]], said)))
    return of_family([*map(of_row, votes), majorities])[-1]


def of_seeds(matrix: Scores) -> Claim:
    """The claim over training seeds; matrix: shape (seeds, pairs)."""
    named = [{prompt(pair): float(score) for pair, score in enumerate(row)} for row in matrix]
    spread = seed_spread(named)
    finding = finding_of(spread.p, spread.mean, len(matrix) >= LEAST_SEEDS)
    return finding, agreeing_interval(spread.interval_both, finding)


def of_systems(matrix: Scores) -> list[Claim]:
    """The claims of several systems against one baseline; matrix: shape (systems, pairs)."""
    return of_family(map(of_row, matrix))


def of_row(scores: Scores) -> Tally:
    """Counted wins, ties and losses; shape (pairs,)."""
    wins, losses = int((scores == 1).sum()), int((scores == 0).sum())
    return Tally(wins, len(scores) - wins - losses, losses)


def of_family(tallies: Iterable[Tally]) -> list[Claim]:
    """The claims of verdicts that are corrected together."""
    claims = [win_rate_claim(counts, candidate="new", baseline="base", family="verdicts") for counts in tallies]
    settle(claims)
    return [(str(claim.finding), claim.interval) for claim in claims]


def of_ranking(matrix: Scores) -> list[Standing]:
    """Ranks and simultaneous intervals, in the order of the systems; matrix: shape (systems, pairs)."""
    named = {str(k): {prompt(pair): float(score) for pair, score in enumerate(row)} for k, row in enumerate(matrix)}
    return sorted(standings(named), key=lambda each: int(each.name))


def whole_way(headline: str, folder: Path, rng: np.random.Generator) -> bool:
    """Whether a random experiment of this headline, by way of its files, has the same claim in report.json."""
    n = int(rng.integers(3, 60))
    tied = rng.uniform(0, 0.5)
    chances = [*(rng.dirichlet([1.5, 1]) * (1 - tied)), tied]
    drawn = rng.choice([1.0, 0.0, 0.5], size=(3, n), p=chances)
    judges = [(f"judge{k}", "new", "base") for k in range(3)]
    if headline == "counted":
        return _same(_report(folder, {judges[0]: drawn[0]})["judges"][0], of_scores(drawn[0]))
    if headline == "weighted":
        grades = rng.beta(1, 0.7, size=n)
        return _same(_report(folder, {judges[0]: grades})["judges"][0], of_scores(grades))
    if headline == "both orders":
        # 1/2: the two orders contradict each other.
        return _same(_report(folder, {judges[0]: drawn[0]}, both=True)["judges"][0], of_scores(drawn[0]))
    if headline == "missing":
        left_out = rng.random(n) < 0.2
        wins, ties = (int((drawn[0][~left_out] == score).sum()) for score in (1.0, 0.5))
        counts = Tally(wins, ties, int((~left_out).sum()) - wins - ties, failed=int(left_out.sum()))
        scores = np.where(left_out, -1.0, drawn[0])
        return _same(_report(folder, {judges[0]: scores}, both=True)["judges"][0], of_counts(counts))
    if headline == "stopped early":
        order = [int(each.split()[1]) for each in random_order(map(prompt, range(n)))]
        at = int(rng.integers(1, n + 1))
        judged = np.full(n, np.nan)
        judged[order[:at]] = drawn[0][order[:at]]
        report = _report(folder, {judges[0]: judged}, stopped=True)
        return _same(report["judges"][0], of_stop(drawn[0][order[:at]], n))
    if headline == "panel":
        (panel,) = _report(folder, dict(zip(judges, drawn, strict=True)))["panels"]
        return _agrees(panel["majority"]["claim"], of_panel(drawn))
    if headline == "seeds":
        names = [("judge", f"new-seed{k}", f"base-seed{k}") for k in range(3)]
        (spread,) = _report(folder, dict(zip(names, drawn, strict=True)), seeds=True)["claims"]
        return _agrees(spread, of_seeds(drawn))
    if headline == "labels":
        given = int(rng.integers(2, n))
        (judge,) = _report(folder, {judges[0]: drawn[0]}, labels=drawn[1][:given])["judges"]
        found = prediction_powered(drawn[1][:given], drawn[0][:given], drawn[0][given:])
        return bool(judge["comparisons"][0]["with_labels"]["interval"] == found.interval)
    systems = {("judge", f"new{k}", "base"): row for k, row in enumerate(drawn)}
    (judge,) = _report(folder, systems)["judges"]
    if headline == "several systems":
        compared = sorted(judge["comparisons"], key=lambda each: str(each["candidate"]))
        return all(_same({"comparisons": [each]}, c) for each, c in zip(compared, of_systems(drawn), strict=True))
    return _ranked(folder) == [(each.interval, each.rank_interval) for each in of_ranking(drawn)]


def _same(judge: Mapping[str, Any], claim: Claim) -> bool:
    (comparison,) = judge["comparisons"]
    figures = comparison["policies"][comparison["leading"]]
    return _agrees(figures["claim"], claim)


def _agrees(reported: Mapping[str, Any], claim: Claim) -> bool:
    finding, interval = reported["finding"], reported["interval"]
    if interval is None or claim[1] is None:
        return finding == claim[0] and interval is claim[1]
    return finding == claim[0] and bool(np.allclose(interval, claim[1], atol=2e-6))


def _ranked(folder: Path) -> list[tuple[list[float], list[int]]]:
    from instruct.reporting.compare_runs import compare_runs

    (ranking,) = compare_runs([folder / "run"]).rankings
    return [(each.interval, each.rank_interval) for each in sorted(ranking.standings, key=lambda each: each.name)]


def _report(
    folder: Path,
    verdicts: Mapping[tuple[str, str, str], Scores],
    *,
    both: bool = False,
    stopped: bool = False,
    seeds: bool = False,
    labels: Scores | None = None,
) -> dict[str, Any]:
    """report.json of verdicts in files: AlpacaEval's annotations, or this project's lines for verdicts in both orders.

    Args:
        verdicts: the candidate's scores by judge, candidate and baseline; NaN: not judged.
    """
    from instruct.judging.comparison import ComparisonKey
    from instruct.judging.interchange.exchange import import_into_run
    from instruct.reporting.report import build_report
    from instruct.run.directory import RunDirectory

    run = RunDirectory(folder / "run")
    for number, (names, scores) in enumerate(verdicts.items()):
        rows = [row for pair, score in enumerate(scores) for row in _rows(names, pair, float(score), both)]
        file = folder / f"{number}.{'jsonl' if both else 'json'}"
        file.write_text("\n".join(map(json.dumps, rows)) if both else json.dumps(rows), encoding="utf-8")
        import_into_run(file, run.folder)
    if seeds:
        systems = {name: {"objective": "mle", "seed": int(name[-1])} for each in verdicts for name in each[1:]}
        (run.folder / "config.yaml").write_text(yaml.safe_dump(run.config() | {"systems": systems}), encoding="utf-8")
    if stopped:
        ((key, scores),) = verdicts.items()
        answers = [
            {"dataset": "d", "instruction": prompt(pair), "output": "a", "generator": key[1]}
            for pair in range(len(scores))
        ]
        run.outputs.mkdir(exist_ok=True)
        (run.outputs / f"{key[1]}.json").write_text(json.dumps(answers), encoding="utf-8")
        manifest = run.manifest()
        comparison = ComparisonKey(*key)
        step = {"status": "done", "inputs": {}, "results": {}, "config": {"stop_when": "decided"}}
        manifest["steps"][comparison.step("judge")] = step | {"comparison": comparison._asdict()}
        run.manifest_path.write_text(json.dumps(manifest), encoding="utf-8")
    if labels is not None:
        words = {1.0: "candidate", 0.5: "tie", 0.0: "baseline"}
        given = [
            {"candidate": "new", "baseline": "base", "instruction": prompt(pair), "label": words[float(label)]}
            for pair, label in enumerate(labels)
        ]
        run.labels.write_text("\n".join(map(json.dumps, given)), encoding="utf-8")
    return dict(json.loads(build_report(run.folder).to_json()))


def _rows(names: tuple[str, str, str], pair: int, score: float, both: bool) -> list[dict[str, Any]]:
    """A pair's row of annotations, or its two lines: in both orders 1/2 means that the answer shown first wins in each.

    NaN: not judged; -1, in both orders: the judge failed.
    """
    judge, candidate, baseline = names
    if np.isnan(score):
        return []
    if not both:
        return [
            {"instruction": prompt(pair), "dataset": "d", "annotator": judge, "generator_1": baseline,
             "generator_2": candidate, "preference": 1 + score}
        ]  # fmt: skip
    other = {"first": "second", "second": "first"}
    told = {1.0: lambda place: place, 0.0: other.__getitem__, 0.5: lambda place: "first", -1.0: lambda place: "failed"}[
        score
    ]
    return [
        {"judgment": {"judge": judge, "candidate": candidate, "baseline": baseline, "pair": pair,
                      "instruction": prompt(pair), "dataset": "d", "position": place, "key": "",
                      "verdict": told(place)}, "completions": {}}
        for place in other
    ]  # fmt: skip
