"""lm-evaluation-harness: `samples_TASK_DATE.jsonl`, and `results_DATE.json` beside it, of version 0.4.3 and later.

From the tool's source, 0.4.3 to 0.4.13 (`EvaluationTracker`, `evaluate`, `Group.aggregate`). Up to 0.4.6 the rows do
not name their filter: it is then the task's filter with the number of the row among those of its doc.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from instruct.analysis.clusters import repeats, row_cluster
from instruct.base.errors import InputError, one_line
from instruct.logs.source import Source
from instruct.scores.scores import MOST_TEXTS, TEXT_LENGTH, Row, Scores, listed

TOOL = "lm-eval"
_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?\.jsonl?(\.gz)?", re.DOTALL)
# Fields of a row that are no metrics.
_FIELDS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
     "target_hash")
)  # fmt: skip
_MARKS = ("doc_id", "doc", "arguments", "resps", "filtered_resps")
# What lm-eval averages over rows, and what it makes of the log-likelihoods of all rows, if a task does not say it.
_MEANS = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match")
_AVERAGES = ("mean", "nanmean")
_NO_MEANS = ("perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte", "bypass")
# Names of fields of a doc with what it asks.
_QUESTIONS = ("question", "query", "problem", "instruction", "input")
_SAME = 1e-12


@functools.lru_cache(maxsize=256)
def metric_name(metric: str, applied: str) -> str:
    """A metric with the filter that its replies went through."""
    return metric if applied == "none" else f"{metric} ({applied})"


def read_lm_eval(source: Source) -> list[Scores] | None:
    """The log of a task: of a file of samples; [] for a file of results, which is read with the samples.

    Raises:
        InputError: a row without a doc, an id or a metric's value, or results that are not of these rows.
    """
    first = source.first
    if not _has(first, *_MARKS):
        is_result = _has(first, "results", "configs", "n-shot") and isinstance(first["results"], dict)
        return [] if is_result else None
    named = _NAME.fullmatch(source.name)
    task = named["task"] if named else source.path.name.partition(".")[0]
    results = _results_of(source.path, task, named and named["date"])
    log = Scores(TOOL, source.path, "", task, run=named and named["date"])
    config: Mapping[str, Any] = {}
    if results:
        config = _mapping(results.content, "configs", task)
        log.system, log.version = _model(results.content), _text(results.content.get("lm_eval_version"))
        log.settings = _settings(results.content, task, config)
    _Rows(source, log, config).read()
    if results:
        _check(log, results, config)
    for metric in log.values:  # which values are better is in the results alone
        if metric.partition(" ")[0] not in _MEANS:
            log.better.setdefault(metric, "")
    return [log]


class _Results:
    """A file of results."""

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        self.path, self.content = path, content

    def figures(self, task: str) -> dict[tuple[str, str], float]:
        """By metric and filter, what the tool found in a task or a group."""
        figures = {}
        for key, value in _mapping(self.content, "results", task).items():
            metric, comma, applied = key.partition(",")
            number = _number(value) if isinstance(value, int | float) else None
            if comma and not metric.endswith("_stderr") and number is not None and math.isfinite(number):
                figures[metric, applied] = number
        return figures

    def size(self, task: str) -> int | None:
        """The rows that a task's figures are of."""
        size = _mapping(self.content, "n-samples", task).get("effective")
        return size if isinstance(size, int) and 0 < size < sys.maxsize else None

    def leaves(self, group: str) -> list[str]:
        """The tasks in a group, and in the groups in it."""
        inner, seen = _mapping(self.content, "group_subtasks"), {group}
        leaves: list[str] = []
        left = [group]
        while left:
            children = inner.get(name := left.pop())
            if isinstance(children, list) and children:
                new = [each for each in dict.fromkeys(map(str, children)) if each not in seen]
                seen.update(new)
                left += reversed(new)
            elif name != group:
                leaves.append(name)
        return leaves


class _Rows:
    """Reads the rows of a file of samples into a log."""

    def __init__(self, source: Source, log: Scores, config: Mapping[str, Any]) -> None:
        self._source, self._log, self._column = source, log, source.columns.cluster
        filters = config.get("filter_list")
        self._filters = [
            str(each.get("name")) for each in (filters if isinstance(filters, list) else ()) if isinstance(each, dict)
        ] or ["none"]
        self._other: set[str] = set()
        self._rows_of: dict[str, int] = {}
        self._clusters: dict[str, int | None] = {}

    def read(self) -> None:
        log = self._log
        for raw in self._source.rows():
            place = raw.place
            log.add(self._row(raw.fields, place), place)
        for metric in self._other:
            log.values.pop(metric, None)
        log.unpaired = sorted(self._other)
        clusters = repeats(self._clusters, chosen=self._column is not None)
        if clusters:
            log.clusters = [clusters[unit] for unit in log.units]

    def _row(self, fields: Mapping[str, Any], place: str) -> Row:
        doc, unit = fields.get("doc"), fields.get("doc_id")
        if not isinstance(unit, int | str) or not isinstance(doc, dict):
            lacking = "doc" if isinstance(unit, int | str) else "doc_id"
            raise InputError(f"{place}: has no {lacking}; is the file complete? evaluate again with --log_samples")
        unit = str(unit)
        applied = fields.get("filter")
        if applied is None:
            applied = self._filter(unit, place)
        values, reason = self._values(fields, str(applied), place)
        prompt, choices, prompt_hash = "", [""], _text(fields.get("prompt_hash"))
        with_texts = len(self._log.units) < MOST_TEXTS
        if with_texts or prompt_hash is None:
            prompt, choices = _asked(fields.get("arguments"))
            prompt_hash = prompt_hash or _hashed(prompt)
        if unit not in self._clusters:
            if self._column is not None and self._column not in doc:
                raise InputError(
                    f"{place}: the doc has no {one_line(self._column, 60)!r} to cluster by (fields: "
                    f"{one_line(', '.join(doc), 120)}); name one of them"
                )
            shared = row_cluster(doc, prompt_hash, self._column)
            text = "" if shared is None else str(shared).strip()
            self._clusters[unit] = hash(text) if text else None
        return Row(
            unit,
            values,
            reason,
            part=str(applied),
            doc=_text(fields.get("doc_hash")) or _hashed(json.dumps(doc, indent=2, ensure_ascii=False)),
            target=_text(fields.get("target_hash")) or _hashed(fields.get("target")),
            prompt=prompt_hash,
            question=_question(doc, prompt) if with_texts else "",
            response=_response(fields, choices) if with_texts else "",
        )

    def _filter(self, unit: str, place: str) -> str:
        number = self._rows_of.get(unit, 0)
        self._rows_of[unit] = number + 1
        if number >= len(self._filters):
            raise InputError(
                f"{place}: is row {number + 1} of the unit {one_line(unit, 60)!r}, and does not name its filter; put "
                "the file of results (results_*.json) of this evaluation beside it, or keep one row"
            )
        return self._filters[number]

    def _values(
        self, fields: Mapping[str, Any], applied: str, place: str
    ) -> tuple[dict[str, float | None], str | None]:
        metrics = fields.get("metrics")
        if not isinstance(metrics, list):
            metrics = [name for name in fields if name not in _FIELDS]
        values: dict[str, float | None] = {}
        reason = None
        for metric in map(str, metrics):
            name = metric_name(metric, applied)
            if name in self._other:
                continue
            if metric not in fields:
                raise InputError(f"{place}: has no {one_line(metric, 60)!r}, one of its metrics; evaluate again")
            value = fields[metric]
            if value is None or value != value:
                values[name], reason = None, f"{one_line(metric, 60)}: no number"
            elif metric in _NO_MEANS or (number := _number(value)) is None:
                self._other.add(name)
            else:
                values[name] = number
        return values, reason


def _check(log: Scores, results: _Results, config: Mapping[str, Any]) -> None:
    """Check the rows against the tool's figures, and note how the tool uses them."""
    place, figures = str(results.path), results.figures(log.task)
    size, rows = results.size(log.task), len(log.units)
    if size is not None and rows < size:
        raise InputError(
            f"{log.path}: has {rows} rows of the task {one_line(log.task, 60)}, {results.path.name} is of {size}; is "
            "the file complete? give the files of one evaluation"
        )
    declared = _aggregations(config)
    better = _mapping(results.content, "higher_is_better", log.task)
    for (metric, applied), figure in figures.items():
        name = metric_name(metric, applied)
        aggregation = declared.get(metric, "mean" if metric in _MEANS else None)
        mean = log.mean(name)
        if mean is None or (aggregation not in _AVERAGES and not math.isclose(mean, figure, rel_tol=_SAME)):
            log.values.pop(name, None)
            log.figures[name] = figure
            if name not in log.unpaired:
                log.unpaired.append(name)
        else:
            log.check_figure(name, figure, place)
    for key in _mapping(results.content, "results", log.task):  # also a figure that is NaN, as a row's is
        metric, comma, applied = key.partition(",")
        if comma and isinstance(higher := better.get(metric), bool):
            log.better[metric_name(metric, applied)] = "higher" if higher else "lower"
    for group in _mapping(results.content, "group_subtasks"):
        leaves = results.leaves(group)
        if log.task in leaves and (by_size := _by_size(results, group, leaves)) is not None:
            log.groups[group] = by_size


def _by_size(results: _Results, group: str, leaves: Sequence[str]) -> bool | None:
    """Whether a group's figures weight its tasks by their rows; None: it has no figure, or another kind."""
    sizes = [results.size(leaf) for leaf in leaves]
    figures = [results.figures(leaf) for leaf in leaves]
    weights: list[bool] = []
    for metric, figure in results.figures(group).items():
        own = [(each[metric], size or 0) for each, size in zip(figures, sizes, strict=True) if metric in each]
        if not own or len(own) < len(leaves):
            return None
        by_size = sum(value * size for value, size in own) / max(1, sum(size for _, size in own))
        plain = sum(value for value, _ in own) / len(own)
        means = {True: by_size, False: plain}
        fitting = [kind for kind, mean in means.items() if math.isclose(mean, figure, rel_tol=_SAME)]
        if not fitting:
            return None
        if len(fitting) == 1:
            weights += fitting
    if len(set(weights)) > 1 or not results.figures(group):
        return None
    return weights[0] if weights else True


def _aggregations(config: Mapping[str, Any]) -> dict[str, str]:
    """How a task's metrics are made of its rows, where it says so."""
    metrics = config.get("metric_list")
    return {
        str(each.get("metric")): str(each["aggregation"])
        for each in (metrics if isinstance(metrics, list) else ())
        if isinstance(each, dict) and "aggregation" in each
    }


def _results_of(samples: Path, task: str, date: str | None) -> _Results | None:
    """The results of the evaluation that wrote the samples, else the newest ones beside them that have the task."""
    beside = sorted(samples.parent.glob("*.json"), key=lambda path: (path.stem.rpartition("_")[2], path.name))
    dated = [path for path in beside if date is not None and path.stem.endswith(f"_{date}")]
    for path in (*dated, *reversed([path for path in beside if path not in dated and path != samples])):
        status, content = path.stat(), {}
        with contextlib.nullcontext() if path in dated else contextlib.suppress(InputError):
            content = _content(path, status.st_mtime_ns, status.st_size)
        if _mapping(content, "results", task):
            return _Results(path, content)
    return None


@functools.lru_cache(maxsize=8)
def _content(path: Path, changed: int, size: int) -> dict[str, Any]:
    """The content of a JSON file; kept, as a group has many files of samples and one of results."""
    return Source(path).content


def _model(results: Mapping[str, Any]) -> str:
    arguments = results.get("config")
    model = arguments.get("model") if isinstance(arguments, dict) else None
    return _text(results.get("model_name")) or _text(model) or ""


def _settings(results: Mapping[str, Any], task: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What the evaluation ran with, by our names."""
    run = results.get("config")
    run = run if isinstance(run, dict) else {}
    kwargs = config.get("generation_kwargs")
    generation = dict(kwargs) if isinstance(kwargs, dict) and config.get("output_type") == "generate_until" else {}
    template = _text(results.get("chat_template_sha")) or _text(results.get("chat_template"))
    shots, versions = results.get("n-shot"), results.get("versions")
    settings = {
        "shots": shots.get(task) if isinstance(shots, dict) else None,
        "template": f"chat ({template[:12]})" if template else "none",
        "demonstrations as turns": results.get("fewshot_as_multiturn") if template else None,
        "system prompt": results.get("system_instruction") or "none",
        "shots seed": run.get("fewshot_seed"),
        "limit": run.get("limit") or "none",
        "max tokens": generation.pop("max_gen_toks", None),
        "temperature": generation.pop("temperature", None),
        "generation": listed(generation),
        "repeats": config.get("repeats") if config.get("repeats") != 1 else None,
        "model type": run.get("model"),
        "model arguments": _arguments(run.get("model_args")),
        "model revision": run.get("model_sha") or run.get("model_revision"),
        "number type": run.get("model_dtype"),
        "task version": versions.get(task) if isinstance(versions, dict) else None,
        "tool version": results.get("lm_eval_version"),
        "date": _day(results.get("date")),
    }
    return {name: value for name, value in settings.items() if value is not None}


def _arguments(arguments: Any) -> str | None:
    """A model's arguments, a mapping or `name=value,...`."""
    if isinstance(arguments, str):
        arguments = dict(each.split("=", 1) for each in arguments.split(",") if "=" in each)
    return listed(arguments) if isinstance(arguments, dict) else None


def _asked(arguments: Any) -> tuple[str, list[str]]:
    """The prompt of a row's first request, and the texts whose likelihood was asked for."""
    # A mapping by name, of mappings; a list of lists in memory.
    requests = list(arguments.values()) if isinstance(arguments, dict) else arguments
    parts = [
        list(each.values()) if isinstance(each, dict) else each
        for each in (requests if isinstance(requests, list) else ())
    ]
    prompt: Any = parts[0][0] if parts and isinstance(parts[0], list) and parts[0] else None
    while isinstance(prompt, list) and prompt:  # a chat's messages
        prompt = prompt[0]
    choices = [str(each[1]) for each in parts if isinstance(each, list) and len(each) > 1]
    return (prompt if isinstance(prompt, str) else ""), choices


def _question(doc: Mapping[str, Any], prompt: str) -> str:
    """What a row asks, without demonstrations: a field of the doc, else the end of the prompt."""
    fields = (doc.get(name) for name in _QUESTIONS)
    return next((each for each in fields if isinstance(each, str) and each.strip()), prompt[-TEXT_LENGTH:])


def _response(fields: Mapping[str, Any], choices: Sequence[str]) -> str:
    """What the model said: its first reply, or the most likely choice."""
    replies = fields.get("resps")
    replies = replies if isinstance(replies, list) else []
    first = [each[0] if isinstance(each, list) and each else None for each in replies]
    likelihoods = [_number(each[0]) if isinstance(each, list) and each else None for each in first]
    if first and len(first) == len(choices) and None not in likelihoods:
        best = max(range(len(first)), key=lambda number: likelihoods[number] or 0.0)
        return f"{choices[best].strip()} (log-likelihood {likelihoods[best]})"
    return str(first[0]) if first and first[0] is not None else ""


def _number(value: Any) -> float | None:
    """A number, also one that was written as text, as the tool writes types of NumPy."""
    if value.__class__ is float:
        return None if value != value else value
    if value in ("True", "False"):
        return float(value == "True")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def _hashed(text: Any) -> str | None:
    """The hash that the tool gives a text; None: there is none."""
    return None if text in (None, "") else hashlib.sha256(str(text).encode(errors="surrogatepass")).hexdigest()


def _has(content: Mapping[str, Any], *names: str) -> bool:
    return all(name in content for name in names)


def _mapping(content: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """A mapping in mappings; an empty one if any of them is none."""
    for name in names:
        inner = content.get(name)
        if not isinstance(inner, dict):
            return {}
        content = inner
    return content


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _day(seconds: Any) -> str | None:
    if not isinstance(seconds, int | float) or not 0 < seconds < 1e11:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
