"""JudgeArena (OpenEuroLLM): results-NAME.json with the preferences, and the battles in NAME-annotations.csv beside it.

From the tool's source, version 0.1.0 of June 2026 (`generate_and_evaluate.py`, `mt_bench/`, `utils/eval.py`). Ratings
(`estimate_elo_ratings.py`) have no preferences of battles: they are a log without rows.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from instruct.base.errors import InputError, counted
from instruct.data.formats import check_storable, text_field, word_field
from instruct.data.sources import RawRow
from instruct.logs.log import Log, Row
from instruct.logs.source import Source, read_number, read_object, read_objects

# `win rate` counts as the tool does, a preference above 1/2 as a win; `preference` is the judge's share for the system.
WIN_RATE, PREFERENCE = "win rate", "preference"
_RATINGS = ("winrate", "elo_mean")
_SETTINGS = {"judge_model": "judge", "swap_mode": "orders", "prompt_preset": "judge's prompt", "date": "date"}


def read_judge_arena(source: Source) -> list[Log] | None:
    """A log for each baseline, with the system's wins; [] for battles, which are read with their results.

    Raises:
        InputError: results without their battles or the other way round, an invalid preference, or another win rate.
    """
    if source.content.get("schema_version") == "judgearena-run-metadata/v1":
        return []
    if source.content.keys() >= {"summary", "bootstrap_ratings"}:
        return [_ratings(source)]
    if source.content.keys() >= {"model_A", "model_B", "judge_model", "preferences"}:
        return _battles(source)
    if not source.first.keys() >= {"model_A", "model_B", "judge", "judge_completion"} and not (
        source.first.keys() >= {"model_A", "model_B", "judge", "g1_verdict"}
    ):
        return None
    name = f"results-{source.name.removesuffix('-annotations.csv')}.json"
    if source.beside(name) is None:
        raise InputError(f"{source.path}: the preferences of these battles are in {name}; put it beside them")
    return []


def _battles(source: Source) -> list[Log]:
    results = RawRow(str(source.path), 1, source.content)
    check_storable(results, "results", results.fields)
    name = f"{source.path.stem.removeprefix('results-')}-annotations.csv"
    if (annotations := source.beside(name)) is None:
        raise InputError(f"{source.path}: the battles of these preferences are in {name}; put it beside them")
    battles = list(annotations.rows())
    preferences = source.content["preferences"]
    if not isinstance(preferences, list) or len(preferences) != len(battles):
        raise InputError(
            f"{source.path}: preferences: must be one for each of the {counted(len(battles), 'battle')} of {name}; "
            "give the files of one run"
        )
    system = text_field(results, "model_A")
    logs: dict[str, Log] = {}
    repeated = max(Counter(map(_unit, battles)).values()) > 1  # each battle is there in both orders
    times: Counter[str] = Counter()
    for number, (battle, value) in enumerate(zip(battles, preferences, strict=True), start=1):
        check_storable(battle, "battle", battle.fields)
        # Of the second model, as the results name them.
        share = read_number(RawRow(str(source.path), number, {"preferences": value}), "preferences")
        if share is not None and not 0 <= share <= 1:
            raise InputError(f"{source.path}, row {number}: preferences: {share:g} is no share from 0 to 1; correct it")
        sides = text_field(battle, "model_A"), text_field(battle, "model_B")
        baseline = sides[sides[0] == system]
        log = logs.setdefault(baseline, _log(source, results, f"{_task(results)} against {baseline}"))
        unit, cluster = _unit(battle)
        times[unit] += 1
        won = None if share is None else 1.0 if share < 0.5 else 0.5 if share == 0.5 else 0.0
        question = text_field(battle, "instruction", optional=True)
        first = sides[0] == system
        row = Row(
            unit,
            {WIN_RATE: won, PREFERENCE: None if share is None else 1 - share},
            "no verdict in the judge's reply",
            epoch=times[unit] if repeated else None,
            cluster=cluster,
            doc=question or None,
            target=text_field(battle, "completion_B" if first else "completion_A", optional=True) or None,
            question=question,
            response=text_field(battle, "completion_A" if first else "completion_B", optional=True),
        )
        log.add(row, battle.place)
    if len(logs) > 1:  # a baseline for each category
        for log in logs.values():
            log.groups[_task(results)] = True
    elif (rate := read_number(results, "winrate")) is not None:
        next(iter(logs.values())).check_figure(WIN_RATE, rate, str(source.path), by_row=True)
    return list(logs.values())


def _unit(battle: RawRow) -> tuple[str, str | None]:
    """What identifies a battle, and the conversation that it is a turn of."""
    for name in ("question_id", "instruction_index"):
        if unit := word_field(battle, name):
            turn = word_field(battle, "turn")
            return (f"{unit}, turn {turn}", unit) if turn else (unit, None)
    raise InputError(f"{battle.place}: instruction_index: is missing; give the file as the tool wrote it")


def _ratings(source: Source) -> Log:
    results = RawRow(str(source.path), 1, source.content)
    check_storable(results, "results", results.fields)
    read_objects(results.fields["bootstrap_ratings"], f"{source.path}: bootstrap_ratings")
    summary = read_object(results, "summary")
    log = _log(source, summary, f"ratings in {word_field(summary, 'arena') or 'an arena'}")
    log.figures = {name: figure for name in _RATINGS if (figure := read_number(summary, name)) is not None}
    log.unpaired = list(log.figures)
    return log


def _task(results: RawRow) -> str:
    return text_field(results, "task", optional=True) or "battles"


def _log(source: Source, results: RawRow, task: str) -> Log:
    settings: dict[str, Any] = {
        name: value for field, name in _SETTINGS.items() if (value := results.fields.get(field)) is not None
    }
    return Log("JudgeArena", source.path, text_field(results, "model_A"), task, settings=settings)
