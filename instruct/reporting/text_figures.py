"""Metrics of texts as what intervals and tests are computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from instruct.analysis.jackknife import Measured, kept
from instruct.analysis.text_results import TextMetricName
from instruct.measuring.texts.model import SystemTexts

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Figure:
    """One metric of one trained system.

    `by_text`: for a metric that is a mean over texts, its value for each text, by id.
    """

    measured: Measured
    by_text: Mapping[str, float] | None = None


@dataclass(frozen=True)
class Metric:
    """`label` for people. `better`: what is better, or how to read it. `sampled`: whether it is of sampled texts.

    `most`: the largest value that it can have; the smallest is 0.
    """

    label: str
    better: str
    sampled: bool
    read: Callable[[SystemTexts, Mapping[str, Columns]], Figure | None]
    most: float = 1.0

    def cut(self, interval: list[float] | None) -> list[float] | None:
        """The interval without impossible values."""
        return None if interval is None else [max(0.0, interval[0]), min(self.most, interval[1])]


def _of_sample(part: str, name: str) -> Callable[[SystemTexts, Mapping[str, Columns]], Figure | None]:
    """A figure of whole samples, whose values without each group are in metrics.json."""

    def read(texts: SystemTexts, values: Mapping[str, Columns]) -> Figure | None:
        found = getattr(getattr(texts, part), name, None)
        if found is None:
            return None
        without = None if found.without is None else np.array(found.without)
        return Figure(Measured(found.value, without, found.other_variance))

    return read


def _mean(part: str, name: str) -> Callable[[SystemTexts, Mapping[str, Columns]], Figure | None]:
    """A mean over texts, or over continuations: a prefix's is the mean of its samples."""

    def read(texts: SystemTexts, values: Mapping[str, Columns]) -> Figure | None:
        value = getattr(getattr(texts, part), name, None)
        if value is None:
            return None
        by_text = {key: float(np.mean(each)) for key, each in _by_id(values.get(part, {}), name).items()}
        if not by_text:
            return Figure(Measured(value))
        own = np.array([by_text[key] for key in sorted(by_text)])
        left = kept(len(own))
        return Figure(Measured(value, left @ own / left.sum(axis=1)), by_text)

    return read


def _ratio(part: str, name: str, of: Callable[[float], float]) -> Callable[..., Figure | None]:
    """A function of nats per token."""

    def read(texts: SystemTexts, values: Mapping[str, Columns]) -> Figure | None:
        value = getattr(getattr(texts, part), name, None)
        if value is None:
            return None
        columns = values.get(part, {})
        nats, tokens = (
            {key: float(np.sum(each)) for key, each in _by_id(columns, column).items()} for column in ("nats", "tokens")
        )
        ids = sorted(nats)
        if not ids:
            return Figure(Measured(value))
        left = kept(len(ids))
        sums: list[NDArray[np.float64]] = [left @ np.array([each[key] for key in ids]) for each in (nats, tokens)]
        if not sums[1].all():
            return Figure(Measured(value))
        return Figure(Measured(value, np.array([of(float(each)) for each in sums[0] / sums[1]])))

    return read


def _by_id(columns: Columns, name: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for key, value in zip(columns.get("id", ()), columns.get(name, ()), strict=False):
        if value is not None:
            found.setdefault(str(key), []).append(float(value))
    return found


_LOWER, _HIGHER = "lower is better", "higher is better"
METRICS: Mapping[TextMetricName, Metric] = {
    "perplexity": Metric("perplexity", _LOWER, False, _ratio("perplexity", "perplexity", math.exp), math.inf),
    "entropy": Metric("entropy (nats)", "how sharp", False, _ratio("entropy", "entropy", float), math.inf),
    "forward_cross_entropy": Metric(
        "forward cross-entropy", _LOWER, False, _mean("distances", "forward_cross_entropy"), math.inf
    ),
    "reverse_cross_entropy": Metric(
        "reverse cross-entropy", _LOWER, False, _mean("distances", "reverse_cross_entropy"), math.inf
    ),
    "total_variation": Metric("total variation", _LOWER, False, _mean("distances", "total_variation")),
    "jensen_shannon": Metric("Jensen-Shannon", _LOWER, False, _mean("distances", "jensen_shannon")),
    "oracle_perplexity": Metric(
        "oracle perplexity",
        "lower is likelier, not better",
        True,
        _ratio("oracle_perplexity", "perplexity", math.exp),
        math.inf,
    ),
    "mauve": Metric("MAUVE", _HIGHER, True, _of_sample("mauve", "mauve")),
    "rouge1": Metric("ROUGE-1", _HIGHER, True, _mean("rouge", "rouge1")),
    "rouge2": Metric("ROUGE-2", _HIGHER, True, _mean("rouge", "rouge2")),
    "rougeL": Metric("ROUGE-L", _HIGHER, True, _mean("rouge", "rougeL")),
    "rougeL_whole": Metric("ROUGE-L with prefix", _HIGHER, True, _mean("rouge", "rougeL_whole")),
    "distinct_1": Metric("distinct-1", "near human", True, _of_sample("diversity", "distinct_1")),
    "distinct_2": Metric("distinct-2", "near human", True, _of_sample("diversity", "distinct_2")),
    "self_bleu": Metric("self-BLEU", "near human", True, _of_sample("diversity", "self_bleu")),
    "repetition": Metric("repetition", "near human", True, _mean("diversity", "repetition")),
    "zipf": Metric("Zipf coefficient", "near human", True, _of_sample("diversity", "zipf"), math.inf),
}
