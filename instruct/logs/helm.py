"""HELM: per_instance_stats.json, with run_spec.json, scenario_state.json and stats.json beside it.

From the tool's source, version 0.5.16 (`runner.py`, `metrics/metric.py`, `metrics/statistic.py`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from instruct.base.errors import InputError, one_line
from instruct.data.formats import check_storable, word_field
from instruct.data.sources import RawRow
from instruct.logs.log import Log, Row
from instruct.logs.source import Source, read_number, read_object, read_objects

_INSTANCES = "per_instance_stats.json"
_BESIDE = ("run_spec.json", "scenario_state.json", "scenario.json", "stats.json")
# Statistics of an instance that say nothing about its quality, and a sum that perplexity is made of.
_NO_METRIC = re.compile(
    r"num_.*|inference_.*|training_.*|finish_reason_.*|batch_size|prompt_truncated|predicted_index|max_prob|logprob"
)
# Those with `lower_is_better` in the tool's classes of metrics and its schemas; the logs do not say it.
_LOWER = re.compile(
    r".*([wm]er_score|cer_score|toxic|nsfw|nudity|watermark|blacked_out|imbalance|distance|difference).*|bbq_.*_bias|"
    r"bias_metric:.*|edit_similarity|longest_common_prefix_length|copyright_.*|fid|.*error_rate|refusal_rate"
)
_SETTINGS = {
    "max_train_instances": "shots",
    "max_eval_instances": "limit",
    "max_tokens": "max tokens",
    "temperature": "temperature",
    "method": "method",
    "num_outputs": "outputs",
    "instructions": "instructions",
    "model_deployment": "deployment",
}


class _Context(NamedTuple):
    """What HELM takes means within."""

    split: str
    sub_split: str
    perturbation: str

    def task(self, name: str) -> str:
        """The name of the task, of which the unchanged test split is the plain one."""
        perturbation = str(json.loads(self.perturbation).get("name", "")) if self.perturbation else ""
        parts = ("" if self.split == "test" else self.split, self.sub_split, perturbation)
        return ", ".join((name, *filter(None, parts)))


def read_helm(source: Source) -> list[Log] | None:
    """A log for each split and perturbation; [] for the files beside it.

    Raises:
        InputError: an invalid statistic, or a figure that is not the mean of its instances.
    """
    if source.name in _BESIDE and source.beside(_INSTANCES):
        return []
    if not {"instance_id", "stats"} <= source.first.keys():
        return None
    spec = _content(source, "run_spec.json")
    adapter = read_object(spec, "adapter_spec")
    order = _metric_order(spec)
    texts = _texts(source)
    logs = []
    for context, values in _values(source).items():
        log = Log("HELM", source.path, word_field(adapter, "model") or None, context.task(_task_name(spec, source)))
        settings = {ours: adapter.fields.get(name) for name, ours in _SETTINGS.items()}
        log.settings = {name: value for name, value in settings.items() if isinstance(value, str | int | float)}
        metrics = dict.fromkeys(name for of_unit in values.values() for name in of_unit)
        trials = {trial for _, trial in values}
        for (unit, trial), of_unit in values.items():
            about = texts.get((unit, trial, context.perturbation), {})
            by_metric = {name: of_unit.get(name, (None, 0))[0] for name in sorted(metrics, key=order)}
            epoch = trial if len(trials) > 1 else None
            log.add(Row(unit, by_metric, "HELM has no value", epoch=epoch, **about), str(source.path))
        log.better = dict.fromkeys(filter(_LOWER.fullmatch, metrics), "lower")
        single = {name for name in metrics if all(each[name][1] <= 1 for each in values.values() if name in each)}
        _check(log, source, context, single)
        logs.append(log)
    return logs


def _values(source: Source) -> dict[_Context, dict[tuple[str, str], dict[str, tuple[float | None, float]]]]:
    """By context, unit and trial, the mean and the count of each metric, which HELM writes a row each of."""
    found: dict[_Context, dict[tuple[str, str], dict[str, tuple[float | None, float]]]] = {}
    for row in source.rows():
        check_storable(row, "row", row.fields)
        key = word_field(row, "instance_id"), word_field(row, "train_trial_index") or "0"
        if not key[0]:
            raise InputError(f"{row.place}: instance_id: is missing; give the file as the tool wrote it")
        for name, context, stat in _stats(row.fields.get("stats"), row.place):
            metrics = found.setdefault(context, {}).setdefault(key, {})
            mean, count = read_number(stat, "mean"), read_number(stat, "count") or 0
            # Metrics that rest on one another repeat what they share.
            if metrics.setdefault(name, (mean, count)) != (mean, count):
                raise InputError(
                    f"{row.place}: {one_line(name, 60)}: the instance {one_line(key[0], 40)!r} has two values; keep one"
                )
    return found


def _stats(value: Any, place: str) -> Iterator[tuple[str, _Context, RawRow]]:
    """The name, the context and the statistic of each metric in a list of statistics."""
    for stat in read_objects(value, f"{place}: stats"):
        about = read_object(stat, "name")
        if not (name := word_field(about, "name")):
            raise InputError(f"{stat.place}: name: is missing; give the file as the tool wrote it")
        if not _NO_METRIC.fullmatch(name):
            context = _Context(word_field(about, "split"), word_field(about, "sub_split"), _perturbation(about))
            yield name, context, stat


def _perturbation(row: RawRow) -> str:
    fields = read_object(row, "perturbation").fields
    return json.dumps(fields, sort_keys=True) if fields else ""


def _texts(source: Source) -> dict[tuple[str, str, str], dict[str, str]]:
    """What each instance asked and what the model said, by instance, trial and perturbation."""
    texts: dict[tuple[str, str, str], dict[str, str]] = {}
    state = _content(source, "scenario_state.json")
    for row in read_objects(state.fields.get("request_states", []), f"{state.origin}: request_states"):
        check_storable(row, "request", row.fields)
        instance, request = read_object(row, "instance"), read_object(row, "request")
        asked = read_object(instance, "input").fields.get("text")
        replies = read_object(row, "result").fields.get("completions")
        reply = replies[0].get("text") if isinstance(replies, list) and replies and isinstance(replies[0], dict) else ""
        about = {
            "doc": asked,
            "target": json.dumps(instance.fields.get("references")),
            # Of several requests, one for each choice, the first one stands for all.
            "prompt": request.fields.get("prompt"),
            "question": asked,
            "response": "" if "reference_index" in row.fields else reply,
        }
        key = word_field(instance, "id"), word_field(row, "train_trial_index") or "0", _perturbation(instance)
        texts.setdefault(key, {name: text for name, text in about.items() if isinstance(text, str)})
    return texts


def _check(log: Log, source: Source, context: _Context, single: set[str]) -> None:
    """Check the tool's means, and keep its other figures; `single`: the metrics with one value an instance."""
    path = source.path.with_name("stats.json")
    stats = source.beside(path.name)
    rows = [row.fields for row in stats.rows()] if stats else []
    check_storable(RawRow(str(path), 1, {}), "stats", rows)
    for name, of, stat in _stats(rows, str(path)):
        if of != context or (figure := read_number(stat, "mean")) is None:
            continue
        if name in single:
            log.check_figure(name, figure, stat.place)
            continue
        log.figures[name] = figure
        if name not in log.values:
            log.unpaired.append(name)


def _content(source: Source, name: str) -> RawRow:
    beside = source.beside(name)
    return RawRow(str(source.path.with_name(name)), 1, beside.content if beside else {})


def _task_name(spec: RawRow, source: Source) -> str:
    """The run's name without its model."""
    scenario, _, arguments = (word_field(spec, "name") or source.path.resolve().parent.name).partition(":")
    kept = [each for each in arguments.split(",") if not re.match(r"model(_deployment)?=", each)]
    return ":".join(filter(None, (scenario, ",".join(kept))))


def _metric_order(spec: RawRow) -> Any:
    """A key that sorts metrics in the order in which the run names them, before those that it does not name."""
    named: list[Any] = []
    for metric in read_objects(spec.fields.get("metric_specs", []), f"{spec.origin}: metric_specs"):
        names = read_object(metric, "args").fields.get("names")
        named += names if isinstance(names, list) else []
    places: Mapping[Any, int] = {name: place for place, name in enumerate(named) if isinstance(name, str)}
    return lambda name: places.get(name, math.inf)
