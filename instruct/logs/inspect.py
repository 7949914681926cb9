"""Inspect's logs, `.eval` and `.json`, of schema 2, and `EvalLog` objects of the package inspect_ai, which none of this
needs.

From the tool's source, 0.3.285 (`EvalRecorder`, `eval_results`, `value_to_float`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from instruct.analysis.clusters import row_cluster
from instruct.base.errors import InputError, one_line
from instruct.base.parsing import parse_json
from instruct.logs.source import Source, mapping, numbers
from instruct.scores.scores import Row, Scores, listed

_SCHEMA = 2
_ZSTANDARD = 93
_GRADES = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
# The tool's means over samples, of their means over epochs.
_MEANS = ("accuracy", "mean")
_SAMPLE = {"id", "epoch", "input", "choices", "target", "messages", "output", "scores", "metadata", "error", "limit"}


def read_inspect(source: Source) -> list[Scores] | None:
    """The log in a file.

    Raises:
        InputError: no complete log, one of another schema or without samples, a sample that is not valid, or figures
            that are not of these samples.
    """
    if source.suffix == ".eval":
        return [_read_archive(source.path, source.columns.cluster)]
    header = source.content
    about = header.get("eval")
    if "status" not in header or not isinstance(about, dict) or not {"task", "model", "created"} <= about.keys():
        return None
    samples = header.get("samples")
    numbered = enumerate(samples if isinstance(samples, list) else (), start=1)
    places = ((sample, f"{source.path}, sample {number}") for number, sample in numbered)
    return [_log(source.path, header, places, source.columns.cluster)]


def log_of(log: Any, cluster: str | None = None) -> Scores:
    """The log in an `EvalLog` object of Inspect, as `inspect_ai.eval` and `inspect_ai.log.read_eval_log` return it.

    Args:
        cluster: the name in the samples' metadata of what several of them share.

    Raises:
        InputError: as `read_inspect`.
    """
    path = Path(log.location or "log.eval")
    header = log.model_dump(mode="json", exclude={"samples", "reductions"}, exclude_none=True)
    samples = (
        (sample.model_dump(mode="json", include=_SAMPLE), f"{path}, sample {place}")
        for place, sample in enumerate(log.samples or (), start=1)
    )
    return _log(path, header, samples, cluster)


def _read_archive(path: Path, cluster: str | None) -> Scores:
    """A log as a zip, of which nothing is written."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        raise _damaged(path) from None
    with archive:
        # A sample that was written again is there twice; the last one counts.
        members = {member.filename: member for member in archive.infolist()}
        # Of an evaluation that has not ended there is only what it began with.
        header = members.get("header.json", members.get("_journal/start.json"))
        if header is None:
            raise InputError(f"{path}: has no header.json, so it is no log of Inspect; give its .eval file")
        samples = (
            _read_member(archive, member, path)
            for name, member in members.items()
            if name.startswith("samples/") and name.endswith(".json")
        )
        return _log(path, _read_member(archive, header, path)[0], samples, cluster)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> tuple[dict[str, Any], str]:
    """The object in a file of the archive, with its place."""
    place = f"{path}, {one_line(member.filename, 80)}"
    try:
        content = parse_json(_unpack(archive, member, path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: is not JSON ({one_line(error, 80)}); download the log again") from None
    if not isinstance(content, dict):
        raise InputError(f"{place}: is no JSON object; download the log again")
    return content, place


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    """The content of a member; Python's zipfile before 3.14 knows no Zstandard."""
    try:
        if member.compress_type != _ZSTANDARD:
            return archive.read(member)
        import pyarrow

        with path.open("rb") as file:
            file.seek(member.header_offset + 26)
            lengths = file.read(4)
            file.seek(sum(int.from_bytes(lengths[at : at + 2], "little") for at in (0, 2)), 1)
            packed = file.read(member.compress_size)
        with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), "zstd") as stream:
            content: bytes = stream.read(member.file_size + 1)
        if len(content) == member.file_size and zlib.crc32(content) == member.CRC:
            return content
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, NotImplementedError, RuntimeError):
        pass
    raise _damaged(path)


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: is no complete log of Inspect; copy or download it again")


def _log(path: Path, header: dict[str, Any], samples: Iterable[tuple[Any, str]], cluster: str | None) -> Scores:
    if header.get("version") != _SCHEMA:
        raise InputError(
            f"{path}: is a log of schema {one_line(header.get('version'), 20)}, not {_SCHEMA}; rewrite it with "
            "`inspect log convert`"
        )
    about = mapping(header, "eval")
    model, task, run, version = (
        value if isinstance(value, str) else None
        for value in (*map(about.get, ("model", "task", "run_id")), mapping(about, "packages").get("inspect_ai"))
    )
    log = Scores("Inspect", path, model or "", path.stem if task is None else task, version, run=run)
    system, limits = _add_samples(log, samples, cluster)
    if not log.units:
        raise InputError(f"{path}: has no samples; evaluate without --no-log-samples")
    log.settings = _settings(header, about) | {"system prompt": system}
    if limits:
        stopped = ", ".join(f"{number} by {name}" for name, number in sorted(limits.items()))
        log.settings["samples stopped"] = stopped
    results = mapping(header, "results")
    _check_number(log, results, about)
    _keep_figures(log, results.get("scores"))
    return log


def _add_samples(
    log: Scores, samples: Iterable[tuple[Any, str]], column: str | None
) -> tuple[str | None, Counter[str]]:
    """Read samples into a log; returns the first one's system prompt, and how many each limit stopped."""
    other: set[str] = set()
    limits: Counter[str] = Counter()
    system = None
    for sample, place in samples:
        if not isinstance(sample, dict) or not isinstance(sample.get("id"), int | str) or "input" not in sample:
            raise InputError(f"{place}: has no id or no input, so it is no sample; download the log again")
        metadata, epoch = mapping(sample, "metadata"), sample.get("epoch")
        if column is not None and column not in metadata:
            raise InputError(
                f"{place}: the metadata have no {one_line(column, 60)!r} to cluster by (they have "
                f"{one_line(', '.join(metadata), 120) or 'nothing'}); name one of them"
            )
        turns, prompt = _turns(sample["input"]), _prompt(sample)
        doc = _hash([turns, sample.get("choices")])
        shared = row_cluster(metadata, doc, column)
        values, reason = numbers(_values(mapping(sample, "scores"), place), other)
        if (stopped := mapping(sample, "limit").get("type")) is not None:
            limits[one_line(stopped, 40)] += 1
        if not values:
            error = re.match(r"\w*", str(mapping(sample, "error").get("message")))
            failed = sample.get("error") is not None and error
            reason = f"error: {failed[0]}" if failed else f"limit: {stopped}" if stopped else "no score"
        if system is None:
            system = next((text for role, text in prompt if role == "system"), "none")
        row = Row(
            str(sample["id"]),
            values,
            reason,
            epoch=epoch if isinstance(epoch, int | str) else None,
            cluster=None if shared is None else _hash(shared),
            doc=doc,
            target=_hash(sample.get("target")),
            prompt=_hash(prompt) if prompt else None,
            question=turns[-1][1] if turns else "",
            response=_reply(sample),
        )
        log.add(row, place)
    log.finish(other, chosen=column is not None)
    return system, limits


def _values(scores: dict[str, Any], place: str) -> Iterator[tuple[str, float | None, str]]:
    """Each metric of a sample, its number, and why there is none."""
    for scorer, score in scores.items():
        if not isinstance(score, dict) or "value" not in score:
            raise InputError(f"{place}: scores: {one_line(scorer, 60)}: has no value; download the log again")
        value, why = score["value"], one_line(score.get("reason") or f"{scorer}: not scored", 80)
        parts = [(scorer, value)]
        if isinstance(value, dict):
            parts = [(f"{scorer}/{key}", part) for key, part in value.items()]
        elif isinstance(value, list):
            parts = [(f"{scorer}/{number}", part) for number, part in enumerate(value, start=1)]
        yield from ((metric, math.nan if part is None else _number(part), why) for metric, part in parts)


def _number(value: Any) -> float | None:
    """What the tool takes a scalar value for; None: it has no number for it, and counts 0."""
    if isinstance(value, str):
        value = _GRADES.get(value, _GRADES.get(value.lower(), value))
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if not isinstance(value, str) or math.isfinite(number) else None


def _check_number(log: Scores, results: dict[str, Any], about: dict[str, Any]) -> None:
    """Refuse a log that has fewer samples than its figures are of; count what one that was stopped lacks."""
    planned = results.get("total_samples")
    if planned is None:
        planned, epochs = mapping(about, "dataset").get("samples"), mapping(about, "config").get("epochs") or 1
        planned = planned * epochs if isinstance(planned, int) and isinstance(epochs, int) else None
    logged = results.get("logged_samples")
    stopped = not results or results.get("early_stopping") is not None
    least = planned if logged is None else logged
    if not stopped and isinstance(least, int) and len(log.units) < least:
        raise InputError(
            f"{log.path}: has {len(log.units)} samples, its figures are of {least}; copy or download it again"
        )
    if isinstance(planned, int) and len(log.units) < planned:
        log.settings["samples"] = f"{len(log.units)} of {planned}"


def _keep_figures(log: Scores, scores: Any) -> None:
    """Check the samples against the tool's figures, and keep the others beside them."""
    for score in scores if isinstance(scores, list) else ():
        if not isinstance(score, dict):
            continue
        name, scorer, reducer = str(score.get("name")), str(score.get("scorer")), score.get("reducer")
        part, reduced = f"{scorer}/{name}", reducer not in (None, "mean")
        metric = part if part in log.values or part in log.unpaired else scorer
        for key, figure in mapping(score, "metrics").items():
            value = _number(figure.get("value")) if isinstance(figure, dict) else None
            if value is None or not math.isfinite(value):
                continue
            is_mean = key in _MEANS and figure.get("name") in _MEANS and not figure.get("params")
            if is_mean and not reduced and metric in log.values:
                if log.mean(metric) is not None:
                    log.check_figure(metric, value, f"{log.path}, results")
                continue
            other = f"{key} ({metric}, {reducer})" if reduced else f"{key} ({metric})"
            log.figures[other] = value
            log.unpaired.append(other)
    log.unpaired = list(dict.fromkeys(log.unpaired))


def _settings(header: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    config, plan = mapping(about, "config"), mapping(header, "plan")
    generation = {
        name: value
        for part in (mapping(about, "model_generate_config"), mapping(plan, "config"))
        for name, value in part.items()
        if value is not None
    }
    steps, reducers = plan.get("steps"), config.get("epochs_reducer")
    solvers = [str(step.get("solver")) for step in (steps if isinstance(steps, list) else ()) if isinstance(step, dict)]
    settings = {
        "solver": ", ".join(solvers) or about.get("solver"),
        "task arguments": listed(mapping(about, "task_args")),
        "limit": config.get("limit") or "none",
        "epochs": config.get("epochs"),
        "epochs reducer": ", ".join(map(str, reducers)) if isinstance(reducers, list) else None,
        "max tokens": generation.pop("max_tokens", None),
        "temperature": generation.pop("temperature", None),
        "generation": listed(generation),
        "model arguments": listed(mapping(about, "model_args")),
        "task version": about.get("task_version"),
        "tool version": mapping(about, "packages").get("inspect_ai"),
        "date": about.get("created"),
        "status": header.get("status", "not ended") if header.get("status") != "success" else None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def _turns(messages: Any) -> list[tuple[str, str]]:
    """Who says what, without what differs each time, such as a message's id."""
    if isinstance(messages, str):
        return [("user", messages)]
    messages = messages if isinstance(messages, list) else []
    return [(str(each.get("role")), _text(each.get("content"))) for each in messages if isinstance(each, dict)]


def _text(content: Any) -> str:
    """The text of a message, and what else is in it as JSON."""
    if isinstance(content, str):
        return content
    parts: Sequence[Any] = content if isinstance(content, list) else []
    return "\n".join(
        part["text"]
        if isinstance(part, dict) and isinstance(part.get("text"), str)
        else json.dumps(part, sort_keys=True)
        for part in parts
    )


def _prompt(sample: dict[str, Any]) -> list[tuple[str, str]]:
    """What the model was shown before it first said something."""
    messages = sample.get("messages")
    shown = []
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message.get("source") == "generate":
            break
        shown.append(message)
    return _turns(shown)


def _reply(sample: dict[str, Any]) -> str:
    """What the model said last."""
    output = mapping(sample, "output")
    if isinstance(completion := output.get("completion"), str) and completion:
        return completion
    choices = output.get("choices")
    first = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    return _text(mapping(first, "message").get("content"))


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
