"""Logs of made-up scores, for the tests of comparisons and of plans."""

from __future__ import annotations

import math
from pathlib import Path

from instruct.scores.scores import Row, Scores


def make_log(system, values, task="t", folder="", *, clusters=None, samples=1, **about):
    """A log of one metric or several; NaN: missing. `samples`: so many values in a row are of one unit."""
    by_metric = values if isinstance(values, dict) else {"acc": values}
    log = Scores("made", Path(f"{folder}{system}/{task}.jsonl"), system, task, **about)
    for place in range(len(next(iter(by_metric.values())))):
        scores = {metric: None if math.isnan(of[place]) else float(of[place]) for metric, of in by_metric.items()}
        unit, epoch = str(place // samples), place % samples if samples > 1 else None
        cluster = None if clusters is None else str(clusters[place])
        reason = "timed out" if None in scores.values() else None
        text = {"question": f"question {place}", "response": f"{system} <b>{place}</b>"}
        row = Row(unit, scores, reason, epoch=epoch, doc=unit, prompt=unit, cluster=cluster, **text)
        log.add(row, "made")
    return log
