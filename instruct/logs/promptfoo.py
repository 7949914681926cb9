"""promptfoo: the JSON file of `promptfoo eval --output`.

From the tool's source of 2026 (`types/index.ts`: OutputFile with EvaluateSummaryV3 and V2, whose early results have no
`failureReason`; `evaluator.ts`).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.data.formats import check_storable, text_field
from instruct.data.sources import RawRow
from instruct.logs.log import Log, Row
from instruct.logs.source import Source, read_number, read_object, read_objects

PASS, SCORE = "pass", "score"
_ERROR = 2  # a result's failureReason


def read_promptfoo(source: Source) -> list[Log] | None:
    """A log for each provider and prompt: whether each test passes, its score, and its named scores.

    Tests with the same variables and assertions are repeats of one. A test that failed with an error is missing.

    Raises:
        InputError: an invalid result, or a count of passed tests that is not that of the results.
    """
    # Its function `evaluate` returns the summary alone.
    summary = source.content if isinstance(source.content.get("results"), list) else source.content.get("results")
    if not isinstance(summary, dict) or not summary.keys() >= {"version", "results", "stats"}:
        return None
    file = RawRow(str(source.path), 1, source.content)
    check_storable(file, "results", file.fields)
    results = read_objects(summary["results"], f"{source.path}: results")
    logs: dict[tuple[str, str], Log] = {}
    checks: dict[str, set[str]] = {}
    for result in results:
        checks.setdefault(_asked(result), set()).add(_checks(result))
    rows: dict[tuple[str, str], list[tuple[str, RawRow]]] = {}
    for result in results:
        asked, checked = _asked(result), _checks(result)
        unit = f"{asked} · {checked}" if len(checks[asked]) > 1 else asked
        key = _provider(result), _label(read_object(result, "prompt"))
        rows.setdefault(key, []).append((unit, result))
    for (provider, prompt), of_log in rows.items():
        log = logs[provider, prompt] = Log(
            "promptfoo", source.path, provider, prompt, settings=_settings(file, summary)
        )
        times = Counter(unit for unit, _ in of_log)
        repeats: Counter[str] = Counter()
        for unit, result in of_log:
            repeats[unit] += 1
            log.add(_row(unit, repeats[unit] if max(times.values()) > 1 else None, result), result.place)
    for column in read_objects(_columns(summary), f"{source.path}: prompts"):
        _check(logs.get((_provider(column), _label(column))), column)
    return list(logs.values())


def _row(unit: str, epoch: int | None, result: RawRow) -> Row:
    success = result.fields.get("success")
    if not isinstance(success, bool):
        raise InputError(f"{result.place}: success: must be true or false; give the file as the tool wrote it")
    named = read_object(result, "namedScores")
    values = {PASS: float(success), SCORE: read_number(result, SCORE)}
    values |= {name: read_number(named, name) for name in named.fields if name not in values}
    failed = result.fields.get("failureReason") == _ERROR
    if "failureReason" not in result.fields:  # an assertion that fails has a grading
        failed = not success and not result.fields.get("gradingResult")
    raw = read_object(result, "prompt").fields.get("raw")
    reply = read_object(result, "response").fields.get("output")
    return Row(
        unit,
        dict.fromkeys(values) if failed else values,
        f"error: {one_line(str(result.fields.get('error') or 'unknown'), 60)}" if failed else "no score",
        epoch=epoch,
        doc=json.dumps(result.fields.get("vars"), sort_keys=True),
        prompt=raw if isinstance(raw, str) else None,
        question=unit,
        response=reply if isinstance(reply, str) else json.dumps(reply),
    )


def _asked(result: RawRow) -> str:
    """What identifies a test: its description and its variables."""
    variables = read_object(result, "vars").fields
    texts = [value for value in variables.values() if isinstance(value, str)]
    asked = texts[0] if len(texts) == len(variables) == 1 else json.dumps(variables, sort_keys=True)
    description = read_object(result, "testCase").fields.get("description") or result.fields.get("description")
    return f"{description} · {asked}" if isinstance(description, str) else asked


def _checks(result: RawRow) -> str:
    """The assertions, which tell tests with the same variables apart."""
    return json.dumps(read_object(result, "testCase").fields.get("assert"), sort_keys=True)


def _provider(row: RawRow) -> str:
    """The label, or the id, of the provider, which columns have as a text."""
    provider = row.fields.get("provider")
    name = (provider.get("label") or provider.get("id")) if isinstance(provider, dict) else provider
    if not isinstance(name, str) or not name:
        raise InputError(f"{row.place}: provider: has no id; give the file as the tool wrote it")
    return name


def _label(prompt: RawRow) -> str:
    """What tells prompts apart: the label, or the template where there is none."""
    for name in ("label", "display", "raw"):
        if prompt.fields.get(name):
            return text_field(prompt, name)
    raise InputError(f"{prompt.place}: prompt: has no label; give the file as the tool wrote it")


def _columns(summary: dict[str, Any]) -> Any:
    """The prompts of each provider, with the tool's counts."""
    if "prompts" in summary:
        return summary["prompts"]
    table = summary.get("table")
    head = table.get("head") if isinstance(table, dict) else None
    return head.get("prompts", []) if isinstance(head, dict) else []


def _check(log: Log | None, column: RawRow) -> None:
    metrics = read_object(column, "metrics")
    passed, failed = (read_number(metrics, f"test{kind}Count") for kind in ("Pass", "Fail"))
    if log is not None and passed is not None and failed is not None and passed + failed:
        log.check_figure(PASS, passed / (passed + failed), column.place, by_row=True)


def _settings(file: RawRow, summary: dict[str, Any]) -> dict[str, Any]:
    metadata = read_object(file, "metadata").fields
    date = summary.get("timestamp") or file.fields.get("createdAt")
    settings = {"tool version": metadata.get("promptfooVersion"), "date": date, "schema": summary.get("version")}
    return {name: value for name, value in settings.items() if isinstance(value, str | int)}
