"""Metrics of texts as what intervals and tests are computed from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.jackknife import Sample, kept
from instruct.analysis.text_results import TextMetricName
from instruct.run.measurements import Measurement

# Values of each text: what `read_values` gives.
Columns = Mapping[str, Any]


@dataclass(frozen=True)
class TextSample:
    """One metric of one trained system.

    `by_text`: for a metric that is a mean over texts, its value for each text, by id.
    """

    measured: Sample
    by_text: Mapping[str, float] | None = None


def text_sample(row: Measurement, columns: Columns) -> TextSample | None:
    """A row with what its uncertainty is estimated from: the value without each group of texts, which a figure of whole
    samples keeps; of others it is that of a mean over texts (a prefix's is the mean of its samples), or of nats per
    token. None: the row has no value."""
    if row.value is None:
        return None
    without = (columns.get("without") or {}).get(row.metric) or row.details.without
    if without is not None:
        return TextSample(Sample(row.value, np.array(without), row.details.other_variance))
    if means := {key: float(np.mean(values)) for key, values in _by_id(columns, row.metric).items()}:
        without = _without_groups(means, dict.fromkeys(means, 1.0))
        return TextSample(Sample(row.value, without), means)
    nats, tokens = (
        {key: float(np.sum(values)) for key, values in _by_id(columns, name).items()} for name in ("nats", "tokens")
    )
    without = _without_groups(nats, tokens)
    if without is not None and row.metric != "entropy":
        without = np.array([math.exp(each) for each in without])
    return TextSample(Sample(row.value, without, row.details.other_variance))


def _without_groups(sums: Mapping[str, float], counts: Mapping[str, float]) -> NDArray[np.float64] | None:
    """Sums over texts by counts over texts, without each group; None: without one there is nothing to count."""
    ids = sorted(sums)
    if not ids:
        return None
    left = kept(len(ids))
    above, below = (left @ np.array([column[key] for key in ids]) for column in (sums, counts))
    return above / below if below.all() else None


def _by_id(columns: Columns, name: str) -> dict[str, list[float]]:
    by_id: dict[str, list[float]] = {}
    for key, value in zip(columns.get("id", ()), columns.get(name, ()), strict=False):
        if value is not None:
            by_id.setdefault(str(key), []).append(float(value))
    return by_id


@dataclass(frozen=True)
class MetricTraits:
    """`label` for people. `better`: what is better, or how to read it. `sampled`: whether it is of sampled texts.

    `most`: the largest value that it can have; the smallest is 0.
    """

    label: str
    better: str
    sampled: bool
    most: float = 1.0

    def cut(self, interval: list[float] | None) -> list[float] | None:
        """The interval without impossible values."""
        return None if interval is None else [max(0.0, interval[0]), min(self.most, interval[1])]


_LOWER, _HIGHER, _HUMAN = "lower is better", "higher is better", "near human"
METRICS: Mapping[TextMetricName, MetricTraits] = {
    "perplexity": MetricTraits("perplexity", _LOWER, False, math.inf),
    "entropy": MetricTraits("entropy (nats)", "how sharp", False, math.inf),
    "forward_cross_entropy": MetricTraits("forward cross-entropy", _LOWER, False, math.inf),
    "reverse_cross_entropy": MetricTraits("reverse cross-entropy", _LOWER, False, math.inf),
    "total_variation": MetricTraits("total variation", _LOWER, False),
    "jensen_shannon": MetricTraits("Jensen-Shannon", _LOWER, False),
    "oracle_perplexity": MetricTraits("oracle perplexity", "lower is likelier, not better", True, math.inf),
    "mauve": MetricTraits("MAUVE", _HIGHER, True),
    "rouge1": MetricTraits("ROUGE-1", _HIGHER, True),
    "rouge2": MetricTraits("ROUGE-2", _HIGHER, True),
    "rougeL": MetricTraits("ROUGE-L", _HIGHER, True),
    "rougeL_whole": MetricTraits("ROUGE-L with prefix", _HIGHER, True),
    "distinct_1": MetricTraits("distinct-1", _HUMAN, True),
    "distinct_2": MetricTraits("distinct-2", _HUMAN, True),
    "self_bleu": MetricTraits("self-BLEU", _HUMAN, True),
    "repetition": MetricTraits("repetition", _HUMAN, True),
    "zipf": MetricTraits("Zipf coefficient", _HUMAN, True, math.inf),
}
