"""Verdicts of judges: AlpacaEval's annotations.json, and the model_judgment of Arena-Hard and of MT-Bench (FastChat).

From the tools' sources: alpaca_eval 0.6.6 (`main.evaluate`, `metrics.get_winrate`), arena-hard-auto v0.1 and v2.0
(`gen_judgment.py`, `show_result.py`), FastChat 0.2.36 (`llm_judge/common.py`, `show_result.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from instruct.analysis.outcomes import PairResult, pair_results, weighted_scores
from instruct.analysis.results import WIN_RATE
from instruct.data.formats import text_field
from instruct.data.prompts import EvalPrompt, turn_of
from instruct.data.sources import RawRow
from instruct.judging.cards import stored_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.annotation_files import annotations_of
from instruct.judging.interchange.leaderboards import read_leaderboard, read_ratings
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.verdicts import margins
from instruct.logs.source import Source, read_number
from instruct.scores.scores import Row, Scores

# Arena-Hard's figure: a strong verdict counts as three, so that units do not count alike.
SCORE = "score"
# What else AlpacaEval's leaderboard has of a system: none is a mean over units.
_FIGURES = ("length_controlled_winrate", "discrete_win_rate")


def read_alpaca_eval(source: Source) -> list[Scores] | None:
    """A log for each candidate, baseline and judge, with the candidate's share of each win; [] for the leaderboard.

    Raises:
        InputError: an invalid row, or a leaderboard with another win rate.
    """
    first = source.first
    if {"", "win_rate", "standard_error", "n_total"} <= first.keys():
        return []
    if not {"instruction", "preference", "generator_1", "generator_2"} <= first.keys():
        return None
    comparisons: dict[ComparisonKey, list[RawRow]] = {}
    for row in source.rows():
        names = (text_field(row, name, optional=True) for name in ("annotator", "generator_2", "generator_1"))
        comparisons.setdefault(ComparisonKey(*names), []).append(row)
    logs = []
    for comparison, rows in comparisons.items():
        judge, candidate, baseline = comparison
        log = Scores("alpaca_eval", source.path, candidate, f"win against {baseline or '?'} by {judge or '?'}")
        log.settings |= {"baseline": baseline, "judge": judge}
        verdicts = annotations_of(rows, comparison)
        _add(log, verdicts, pair_results([verdict.judgment for verdict in verdicts], "single"))
        _check(log, source)
        logs.append(log)
    return logs


def read_games(source: Source) -> list[Scores] | None:
    """The share of the wins in both games: of each model, baseline and category of Arena-Hard; of MT-Bench both models.

    Of ratings, those of each model, 1 to 10 a turn.

    Raises:
        InputError: an invalid row.
    """
    columns = source.first.keys()
    if {"question_id", "model", "judge", "score"} <= columns:
        return _ratings(source)
    arena = {"games", "model"} <= columns
    if not (arena or {"question_id", "model_1", "model_2", "judge", "g1_winner", "g2_winner"} <= columns):
        return None
    groups: dict[tuple[ComparisonKey, str], list[FileVerdict]] = {}
    # Version 0.1 of Arena-Hard does not name its baseline.
    for verdict in read_leaderboard(list(source.rows()), baseline="its baseline"):
        groups.setdefault((verdict.judgment.comparison, verdict.judgment.dataset), []).append(verdict)
    logs = []
    for (comparison, category), verdicts in groups.items():
        card = stored_judge_card(comparison.judge, {})
        judgments = [verdict.judgment for verdict in verdicts]
        results = pair_results(judgments, "strict", margins=margins(card, judgments, {}))
        if arena:
            about = "Arena-Hard" if category == "unknown" else f"Arena-Hard {category}"
            log = Scores("arena-hard-auto", source.path, comparison.candidate, f"{about} against {comparison.baseline}")
            log.settings |= {"baseline": comparison.baseline, "judge": card.model}
            scores = weighted_scores(results)
            if (judged := scores[np.isfinite(scores)]).size:
                log.figures[SCORE] = float(judged.mean())
                log.unpaired.append(SCORE)
            logs.append(_add(log, verdicts, results))
            continue
        task = f"MT-Bench, {comparison.candidate} against {comparison.baseline} by {card.model}"
        for side, seen in zip(comparison[1:], (results, [result.mirrored for result in results]), strict=True):
            log = Scores("FastChat", source.path, side, task, settings={"judge": card.model})
            logs.append(_add(log, verdicts, seen))
    return logs


def _ratings(source: Source) -> list[Scores]:
    logs: dict[tuple[str, str], Scores] = {}
    for rated in read_ratings(list(source.rows())):
        judge = rated.card.model
        log = logs.setdefault(
            (rated.model, judge), Scores("FastChat", source.path, rated.model, f"MT-Bench by {judge}")
        )
        log.settings["judge"] = judge
        log.add(
            _row(rated.pair, "rating", rated.score, "no rating in the judge's reply", rated.prompt), rated.row.place
        )
    return list(logs.values())


def _add(log: Scores, verdicts: Sequence[FileVerdict], results: Sequence[PairResult]) -> Scores:
    """The log, with a row for each result."""
    by_pair = {verdict.judgment.instruction: verdict for verdict in verdicts}
    missing = (verdict.judgment for verdict in verdicts if verdict.judgment.verdict in ("unparsed", "failed"))
    why = {judged.instruction: f"{judged.verdict}: {judged.reason}" for judged in missing}
    times = Counter(verdict.prompt.request for verdict in by_pair.values() if verdict.prompt)
    for result in results:
        verdict = by_pair[result.instruction]
        row = _row(result.instruction, WIN_RATE, result.score, why.get(result.instruction), verdict.prompt)
        response, opponents = verdict.answers
        shared = row.question if times[row.question] > 1 else None
        row = row._replace(cluster=row.cluster or shared, target=opponents, response=response or "")
        log.add(row, verdict.place)
    return log


def _row(pair: str, metric: str, value: float | None, reason: str | None, prompt: EvalPrompt | None) -> Row:
    """A pair; turns of one conversation are a cluster."""
    turn = turn_of(pair)
    return Row(
        pair,
        {metric: value},
        reason,
        cluster=(prompt.cluster if prompt else "") or (turn[0] if turn else None),
        doc=prompt.whole if prompt else None,
        question=prompt.request if prompt else "",
    )


def _check(log: Scores, source: Source) -> None:
    """Check the win rate of the leaderboard beside the annotations, and keep its other figures."""
    leaderboard = source.path.with_name("leaderboard.csv")
    for row in Source(leaderboard).rows() if leaderboard.is_file() else ():
        if row.fields.get("") == log.system:
            if (rate := read_number(row, "win_rate")) is not None:
                log.check_figure(WIN_RATE, rate / 100, row.place)
            for name in _FIGURES:
                if (figure := read_number(row, name)) is not None:
                    log.figures[name] = figure / 100
                    log.unpaired.append(name)
