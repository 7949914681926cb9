"""alpaca_eval: annotations.json, and the leaderboard.csv that `alpaca_eval evaluate` writes beside it.

From the tool's source, version 0.6.6 (`main.evaluate`, `metrics.get_winrate`).
"""

from __future__ import annotations

from instruct.data.formats import text_field
from instruct.data.sources import RawRow
from instruct.judging.interchange.annotation_files import annotations_of, verdict_of
from instruct.logs.source import Source, read_number
from instruct.scores.scores import Row, Scores

METRIC = "win rate"
# What else the leaderboard has of a system: none is a mean over units.
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
    comparisons: dict[tuple[str, str, str], list[RawRow]] = {}
    for row in source.rows():
        baseline, candidate, judge = (
            text_field(row, name, optional=True) for name in ("generator_1", "generator_2", "annotator")
        )
        comparisons.setdefault((baseline, candidate, judge), []).append(row)
    logs = []
    for (baseline, candidate, judge), rows in comparisons.items():
        log = Scores("alpaca_eval", source.path, candidate, f"win against {baseline or '?'} by {judge or '?'}")
        log.settings |= {"baseline": baseline, "judge": judge}
        for row, annotation in zip(rows, annotations_of(rows), strict=True):
            prompt = annotation.prompt
            unit = Row(
                annotation.identity,
                {METRIC: None if annotation.preference is None else annotation.preference - 1},
                ": ".join(filter(None, verdict_of(annotation, None))),
                # Rows with the same request are told apart by their ids alone.
                cluster=prompt.cluster or (prompt.request if prompt.request != annotation.identity else None),
                doc=prompt.whole,
                target=annotation.output_1,
                question=prompt.request,
                response=annotation.output_2 or "",
            )
            log.add(unit, row.place)
        _check(log, source)
        logs.append(log)
    return logs


def _check(log: Scores, source: Source) -> None:
    """Check the win rate of the leaderboard beside the annotations, and keep its other figures."""
    leaderboard = source.beside("leaderboard.csv")
    for row in leaderboard.rows() if leaderboard else ():
        if row.fields.get("") == log.system:
            if (rate := read_number(row, "win_rate")) is not None:
                log.check_figure(METRIC, rate / 100, row.place)
            for name in _FIGURES:
                if (figure := read_number(row, name)) is not None:
                    log.figures[name] = figure / 100
                    log.unpaired.append(name)
