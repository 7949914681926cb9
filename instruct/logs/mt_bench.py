"""MT-Bench: model_judgment/JUDGE_single.jsonl and JUDGE_pair.jsonl of FastChat.

From the tool's source, version 0.2.36 (`llm_judge/common.py`, `show_result.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from instruct.analysis.outcomes import pair_results
from instruct.base.errors import one_line
from instruct.data.formats import check_storable, text_field
from instruct.data.prompts import turn_of
from instruct.data.sources import RawRow
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.leaderboards import pair_of, question_texts, rating_of, read_leaderboard
from instruct.judging.store import Judgment
from instruct.logs.source import Source
from instruct.scores.scores import Row, Scores

_SINGLE = {"question_id", "model", "judge", "score"}
_PAIR = {"question_id", "model_1", "model_2", "judge", "g1_winner", "g2_winner"}


def read_mt_bench(source: Source) -> list[Scores] | None:
    """The ratings of each model, 1 to 10 a turn; or of each pair of models, a log of both with their shares of wins.

    Raises:
        InputError: an invalid row.
    """
    columns = source.first.keys()
    return _ratings(source) if columns >= _SINGLE else _pairs(source) if columns >= _PAIR else None


def _ratings(source: Source) -> list[Scores]:
    logs: dict[tuple[str, str], Scores] = {}
    questions = question_texts(source.path)
    for row in source.rows():
        check_storable(row, "row", row.fields)
        model, judge, unit = text_field(row, "model"), _judge(row), pair_of(row)
        log = logs.setdefault((model, judge), Scores("FastChat", source.path, model, f"MT-Bench by {judge}"))
        log.settings["judge"] = judge
        reason = "no rating in the judge's reply"
        log.add(_row(unit, {"rating": rating_of(row)}, reason, questions), row.place)
    return list(logs.values())


def _pairs(source: Source) -> list[Scores]:
    rows = list(source.rows())
    groups: dict[ComparisonKey, list[Judgment]] = {}
    for judgment in read_leaderboard(rows).judgments:
        groups.setdefault(judgment.comparison, []).append(judgment)
    questions = question_texts(source.path)
    judges = {pair_of(row): _judge(row) for row in rows}
    logs = []
    for comparison, judgments in groups.items():
        judge = judges[judgments[0].instruction]
        task = f"MT-Bench, {comparison.candidate} against {comparison.baseline} by {judge}"
        results = pair_results(judgments, "strict")
        mirrored = [result.mirrored for result in results]
        for model, sides in ((comparison.candidate, results), (comparison.baseline, mirrored)):
            log = Scores("FastChat", source.path, model, task, settings={"judge": judge})
            for result in sides:
                row = _row(result.instruction, {"win rate": result.score}, result.outcome, questions)
                log.add(row, str(source.path))
            logs.append(log)
    return logs


def _judge(row: RawRow) -> str:
    """The model that judged, of which the file has the name of the prompt, too."""
    judge = row.fields.get("judge")
    return one_line(judge[0] if isinstance(judge, list) and judge else judge, 80)


def _row(unit: str, values: Mapping[str, float | None], reason: str, questions: Mapping[str, str]) -> Row:
    """A turn, whose cluster is its conversation."""
    turn, asked = turn_of(unit), questions.get(unit)
    return Row(unit, values, reason, cluster=turn[0] if turn else unit, doc=asked, question=asked or "")
