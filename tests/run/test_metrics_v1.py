"""metrics.json of before version 2: the same numbers as rows, also after something else was measured."""

from __future__ import annotations

import json
from pathlib import Path

from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path, numbers, read_metrics, write_numbers

OLD = {
    "texts": {
        "mle": {
            "oracle_perplexity": {
                "reference": "r", "perplexity": 9.5, "human": 8.0, "by_seed": {"0": 9.5}, "texts": 3, "tokens": 7,
                "empty": 1,
            },
            "distances": {
                "temperature": 1.0, "forward_cross_entropy": 3.0, "reverse_cross_entropy": 2.0, "total_variation": 0.3,
                "forward_kl": 0.5, "reverse_kl": 0.4, "jensen_shannon": 0.1, "reference": "r", "texts": 2,
                "curve": [{"temperature": 0.6, "forward_cross_entropy": 4.0, "reverse_cross_entropy": 1.0,
                           "total_variation": 0.4, "forward_kl": 0.6, "reverse_kl": 0.5, "jensen_shannon": 0.2}],
            },
            "diversity": {
                "distinct_1": {"value": 0.5, "interval": [0.4, 0.6], "without": [0.5, 0.6], "other_variance": 0.25},
                "repetition": 0.1, "texts": 2, "human": {"distinct_1": 0.6}, "empty": 1, "continuations": 4,
            },
        },
        "mle-matched-emo": {
            "matched": {"mle": "mle", "system": "emo", "system_temperature": 1.0, "temperature": 0.9,
                        "system_entropy": 2.0, "entropy": 2.0},
        },
        "emo": {"no_control": "none was asked for"},
    },
    "lm_eval": {"mle": {"arc": {"shots": 0, "rows": 5, "metrics": {"acc": 0.4}, "standard_errors": {"acc": 0.1}}}},
}  # fmt: skip


def test_its_numbers_are_rows_and_stay_when_more_is_measured(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    metrics_path(run).write_text(json.dumps(OLD))
    before = read_metrics(run)
    texts = before.texts["mle"]
    assert (texts["oracle_perplexity"].value, texts["oracle_perplexity"].n) == (9.5, 3)
    assert texts["oracle_perplexity"].details.human == 8.0
    assert texts["reverse_cross_entropy"].details.curve == [[0.6, 1.0]]
    distinct = texts["distinct_1"]
    assert (distinct.value, distinct.interval, distinct.details.human) == (0.5, [0.4, 0.6], 0.6)
    assert (distinct.details.without, distinct.details.other_variance) == ([0.5, 0.6], 0.25)
    assert (texts["repetition"].value, texts["repetition"].details.continuations) == (0.1, 4)
    control = before.texts["mle-matched-emo"]["matched_temperature"]
    assert (control.value, control.details.system, control.details.entropy) == (0.9, "emo", 2.0)
    assert before.texts["emo"]["matched_temperature"].details.reason == "none was asked for"
    (theirs,) = (row for row in before.measurements if row.kind == "lm_eval")
    assert (theirs.task, theirs.metric, theirs.value, theirs.n) == ("arc", "acc", 0.4, 5)
    assert theirs.details.standard_error == 0.1
    write_numbers(run, "rouge", "emo", numbers({"rouge1": 0.5}, 2, without_tokens=0))
    assert json.loads(metrics_path(run).read_text())["version"] == 2
    after = read_metrics(run).measurements
    assert [row.content() for row in after if row.part != "rouge"] == [
        row.content()
        for row in sorted(before.measurements, key=lambda row: ["mle", "mle-matched-emo", "emo"].index(row.system))
    ]
