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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from instruct.analysis.clusters import row_cluster
from instruct.base.errors import InputError, one_line
from instruct.logs.source import Source, mapping, numbers
from instruct.scores.scores import MOST_TEXTS, TEXT_LENGTH, Row, Scores, listed

_NAME = re.compile(r"samples_(?P<task>.+?)(_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?\.jsonl?(\.gz)?", re.DOTALL)
# Fields of a row that are no metrics.
_FIELDS = frozenset(
    ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
     "target_hash")
)  # fmt: skip
_MARKS = {"doc_id", "doc", "arguments", "resps", "filtered_resps"}
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
    path, first = source.path, source.first
    if not first.keys() >= _MARKS:
        is_result = {"results", "configs", "n-shot"} <= first.keys() and isinstance(first["results"], dict)
        return [] if is_result else None
    named = _NAME.fullmatch(path.name)
    task = named["task"] if named else path.name.partition(".")[0]
    log = Scores("lm-eval", path, "", task, run=named and named["date"])
    place, results = _results_of(path, task, log.run) or (path, {})
    config = mapping(results, "configs", task)
    if results:
        model = _text(results.get("model_name")) or _text(mapping(results, "config").get("model"))
        log.system, log.version = model or "", _text(results.get("lm_eval_version"))
        log.settings = _settings(results, task, config)
    _add_rows(log, source, config)
    if results:
        _check(log, place, results, config)
    for metric in log.values:  # which values are better is in the results alone
        if metric.partition(" ")[0] not in _MEANS:
            log.better.setdefault(metric, "")
    return [log]


def _add_rows(log: Scores, source: Source, config: Mapping[str, Any]) -> None:
    column, filters = source.columns.cluster, config.get("filter_list")
    filters = [str(each.get("name")) for each in _list(filters) if isinstance(each, dict)] or ["none"]
    rows_of: Counter[str] = Counter()
    other: set[str] = set()
    for raw in source.rows():
        fields, place = raw.fields, raw.place
        doc, unit = fields.get("doc"), fields.get("doc_id")
        if not isinstance(unit, int | str) or not isinstance(doc, dict):
            lacking = "doc" if isinstance(unit, int | str) else "doc_id"
            raise InputError(f"{place}: has no {lacking}; is the file complete? evaluate again with --log_samples")
        unit, applied = str(unit), fields.get("filter")
        if applied is None:
            number = rows_of[unit]
            if number >= len(filters):
                raise InputError(
                    f"{place}: is row {number + 1} of the unit {one_line(unit, 60)!r}, and does not name its filter; "
                    "put the file of results (results_*.json) of this evaluation beside it, or keep one row"
                )
            applied, rows_of[unit] = filters[number], number + 1
        if column is not None and column not in doc:
            raise InputError(
                f"{place}: the doc has no {one_line(column, 60)!r} to cluster by (fields: "
                f"{one_line(', '.join(doc), 120)}); name one of them"
            )
        values, reason = numbers(_values(fields, str(applied), other, place), other)
        prompt, choices, prompt_hash = "", [""], _text(fields.get("prompt_hash"))
        with_texts = len(log.units) < MOST_TEXTS
        if with_texts or prompt_hash is None:
            prompt, choices = _asked(fields.get("arguments"))
            prompt_hash = prompt_hash or _hashed(prompt)
        shared = row_cluster(doc, prompt_hash, column)
        shared = "" if shared is None else str(shared).strip()
        row = Row(
            unit,
            values,
            reason,
            part=str(applied),
            cluster=str(hash(shared)) if shared else None,
            doc=_text(fields.get("doc_hash")) or _hashed(json.dumps(doc, indent=2, ensure_ascii=False)),
            target=_text(fields.get("target_hash")) or _hashed(fields.get("target")),
            prompt=prompt_hash,
            question=_question(doc, prompt) if with_texts else "",
            response=_response(fields, choices) if with_texts else "",
        )
        log.add(row, place)
    log.finish(other, chosen=column is not None)


def _values(
    fields: Mapping[str, Any], applied: str, other: set[str], place: str
) -> Iterator[tuple[str, float | None, str]]:
    """Each metric of a row, its number, and why there is none."""
    metrics = fields.get("metrics")
    if not isinstance(metrics, list):
        metrics = [name for name in fields if name not in _FIELDS]
    for metric in map(str, metrics):
        if (name := metric_name(metric, applied)) in other:
            continue
        if metric not in fields:
            raise InputError(f"{place}: has no {one_line(metric, 60)!r}, one of its metrics; evaluate again")
        value = fields[metric]
        if value is None or value != value:
            yield name, math.nan, f"{one_line(metric, 60)}: no number"
        else:
            yield name, None if metric in _NO_MEANS else _number(value), ""


def _check(log: Scores, path: Path, results: dict[str, Any], config: dict[str, Any]) -> None:
    """Check the rows against the tool's figures, and note how the tool uses them."""
    size, rows = _size(results, log.task), len(log.units)
    if size is not None and rows < size:
        raise InputError(
            f"{log.path}: has {rows} rows of the task {one_line(log.task, 60)}, {path.name} is of {size}; is "
            "the file complete? give the files of one evaluation"
        )
    declared = {
        str(each.get("metric")): str(each["aggregation"])
        for each in _list(config.get("metric_list"))
        if isinstance(each, dict) and "aggregation" in each
    }
    for (metric, applied), figure in _figures(results, log.task).items():
        name = metric_name(metric, applied)
        aggregation = declared.get(metric, "mean" if metric in _MEANS else None)
        mean = log.mean(name)
        if mean is None or (aggregation not in _AVERAGES and not math.isclose(mean, figure, rel_tol=_SAME)):
            log.values.pop(name, None)
            log.figures[name] = figure
            if name not in log.unpaired:
                log.unpaired.append(name)
        else:
            log.check_figure(name, figure, str(path))
    better = mapping(results, "higher_is_better", log.task)
    for key in mapping(results, "results", log.task):  # also a figure that is NaN, as a row's is
        metric, comma, applied = key.partition(",")
        if comma and isinstance(higher := better.get(metric), bool):
            log.better[metric_name(metric, applied)] = "higher" if higher else "lower"
    for group in mapping(results, "group_subtasks"):
        tasks = _tasks_of(results, group)
        if log.task in tasks and (by_size := _by_size(results, group, tasks)) is not None:
            log.groups[group] = by_size


def _figures(results: dict[str, Any], task: str) -> dict[tuple[str, str], float]:
    """By metric and filter, what the tool found in a task or a group."""
    figures = {}
    for key, value in mapping(results, "results", task).items():
        metric, comma, applied = key.partition(",")
        number = _number(value) if isinstance(value, int | float) else None
        if comma and not metric.endswith("_stderr") and number is not None and math.isfinite(number):
            figures[metric, applied] = number
    return figures


def _size(results: dict[str, Any], task: str) -> int | None:
    """The rows that a task's figures are of."""
    size = mapping(results, "n-samples", task).get("effective")
    return size if isinstance(size, int) and 0 < size < sys.maxsize else None


def _tasks_of(results: dict[str, Any], group: str) -> list[str]:
    """The tasks in a group, and in the groups in it."""
    inner, seen = mapping(results, "group_subtasks"), {group}
    tasks: list[str] = []
    left = [group]
    while left:
        if children := _list(inner.get(name := left.pop())):
            new = [each for each in dict.fromkeys(map(str, children)) if each not in seen]
            seen.update(new)
            left += reversed(new)
        elif name != group:
            tasks.append(name)
    return tasks


def _by_size(results: dict[str, Any], group: str, tasks: Sequence[str]) -> bool | None:
    """Whether a group's figures weight its tasks by their rows; None: it has no figure, or another kind."""
    sizes = [_size(results, task) or 0 for task in tasks]
    figures = [_figures(results, task) for task in tasks]
    of_group = _figures(results, group)
    possible = {True, False} if of_group else set[bool]()
    for metric, figure in of_group.items():
        if not all(metric in each for each in figures):
            return None
        own = [each[metric] for each in figures]
        by_size = sum(value * size for value, size in zip(own, sizes, strict=True)) / max(1, sum(sizes))
        means = {True: by_size, False: sum(own) / len(own)}
        possible &= {kind for kind, mean in means.items() if math.isclose(mean, figure, rel_tol=_SAME)}
    return max(possible, default=None)


def _results_of(samples: Path, task: str, date: str | None) -> tuple[Path, dict[str, Any]] | None:
    """The results of the evaluation that wrote the samples, else the newest ones beside them that have the task."""
    beside = sorted(samples.parent.glob("*.json"), key=lambda path: (path.stem.rpartition("_")[2], path.name))
    dated = [path for path in beside if date is not None and path.stem.endswith(f"_{date}")]
    for path in (*dated, *reversed([path for path in beside if path not in dated and path != samples])):
        status, content = path.stat(), {}
        with contextlib.nullcontext() if path in dated else contextlib.suppress(InputError):
            content = _content(path, status.st_mtime_ns, status.st_size)
        if mapping(content, "results", task):
            return path, content
    return None


@functools.lru_cache(maxsize=8)
def _content(path: Path, changed: int, size: int) -> dict[str, Any]:
    """The content of a JSON file; kept, as a group has many files of samples and one of results."""
    return Source(path).content


def _settings(results: dict[str, Any], task: str, config: dict[str, Any]) -> dict[str, Any]:
    """What the evaluation ran with, by our names."""
    run, arguments = mapping(results, "config"), mapping(results, "config").get("model_args")
    if isinstance(arguments, str):
        arguments = dict(each.split("=", 1) for each in arguments.split(",") if "=" in each)
    generates = config.get("output_type") == "generate_until"
    generation = {**mapping(config, "generation_kwargs")} if generates else {}
    template = _text(results.get("chat_template_sha")) or _text(results.get("chat_template"))
    seconds: Any = results.get("date")
    dated = isinstance(seconds, int | float) and 0 < seconds < 1e11
    settings = {
        "shots": mapping(results, "n-shot").get(task),
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
        "model arguments": listed(arguments) if isinstance(arguments, dict) else None,
        "model revision": run.get("model_sha") or run.get("model_revision"),
        "number type": run.get("model_dtype"),
        "task version": mapping(results, "versions").get(task),
        "tool version": results.get("lm_eval_version"),
        "date": datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if dated else None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _asked(arguments: Any) -> tuple[str, list[str]]:
    """The prompt of a row's first request, and the texts whose likelihood was asked for."""
    # A mapping by name, of mappings; a list of lists in memory.
    requests = list(arguments.values()) if isinstance(arguments, dict) else _list(arguments)
    parts = [list(each.values()) if isinstance(each, dict) else _list(each) for each in requests]
    prompt: Any = parts[0][0] if parts and parts[0] else None
    while isinstance(prompt, list) and prompt:  # a chat's messages
        prompt = prompt[0]
    return (prompt if isinstance(prompt, str) else ""), [str(each[1]) for each in parts if len(each) > 1]


def _question(doc: Mapping[str, Any], prompt: str) -> str:
    """What a row asks, without demonstrations: a field of the doc, else the end of the prompt."""
    fields = (doc.get(name) for name in _QUESTIONS)
    return next((each for each in fields if isinstance(each, str) and each.strip()), prompt[-TEXT_LENGTH:])


def _response(fields: Mapping[str, Any], choices: Sequence[str]) -> str:
    """What the model said: its first reply, or the most likely choice."""
    first = [each[0] if isinstance(each, list) and each else None for each in _list(fields.get("resps"))]
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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
