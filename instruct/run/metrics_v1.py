"""metrics.json of before version 2, by parts of it with a model each, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Numbers of a part that are no figures.
_FACTS = {"temperature", "human", "star", "frontier_integral", "texts", "tokens", "words", "bytes", "clusters"}
_FACTS |= {"max_length", "without_tokens", "empty", "continuations"}


def converted(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of version 2.

    Raises:
        ValueError: the content is not of version 1; the message names the place.
    """
    if unknown := content.keys() - {"texts", "tasks", "lm_eval"}:
        raise ValueError(f"{min(unknown)}: is unknown")
    rows: list[dict[str, Any]] = []
    for kind, convert in {"texts": _texts, "tasks": _task, "lm_eval": _harness}.items():
        for system, parts in _mapping(content.get(kind, {}), kind).items():
            for part, old in _mapping(parts, f"{kind}.{system}").items():
                try:
                    rows += [{"system": system, **row} for row in convert(part, old)]
                except (KeyError, TypeError, AttributeError, ValueError) as error:
                    raise ValueError(f"{kind}.{system}.{part}: {type(error).__name__} {error}") from None
    return {"version": 2, "measurements": rows}


def _mapping(content: Any, place: str) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{place}: is not an object")
    return content


def _texts(part: str, old: Any) -> Iterator[dict[str, Any]]:
    control = {"part": "matched", "metric": "matched_temperature"}
    if part == "no_control":
        yield {**control, "details": {"reason": old}}
        return
    if part == "matched":
        details = {key: value for key, value in old.items() if key != "temperature"}
        yield {**control, "value": old["temperature"], "details": details}
        return
    figures = {key: value for key, value in old.items() if _is_figure(key, value)}
    details = {key: value for key, value in old.items() if key not in {*figures, "texts", "interval"}}
    if part == "oracle_perplexity":
        figures = {part: figures.get("perplexity")}
    if not figures:
        raise ValueError("has no figure")
    for metric, figure in figures.items():
        about = {"part": part, "metric": metric, "n": old["texts"]}
        more = dict(details)
        if part == "distances":
            more["curve"] = [[at["temperature"], at[metric]] for at in old.get("curve", ())]
        if part == "diversity":
            more["human"] = old.get("human", {}).get(metric)
        if isinstance(figure, dict):
            more |= {"without": figure.get("without"), "other_variance": figure.get("other_variance", 0.0)}
            yield {**about, "value": figure["value"], "interval": figure.get("interval"), "details": more}
        else:
            yield {**about, "value": figure, "details": more}


def _is_figure(name: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return name not in _FACTS and (is_number or (isinstance(value, dict) and "value" in value))


def _task(key: str, old: Any) -> Iterator[dict[str, Any]]:
    own = ("accuracy", "interval", "rows", "macro_f1")
    about = {"part": f"tasks/{key}", "n": old["rows"], "details": {k: v for k, v in old.items() if k not in own}}
    yield {**about, "metric": "accuracy", "value": old["accuracy"], "interval": old["interval"]}
    if old.get("macro_f1") is not None:
        yield {**about, "metric": "macro_f1", "value": old["macro_f1"]}


def _harness(task: str, old: Any) -> Iterator[dict[str, Any]]:
    about = {"part": f"lm_eval/{task}", "n": old.get("rows")}
    for metric, value in old["metrics"].items():
        details = {"task": task, "shots": old.get("shots"), "standard_error": old["standard_errors"].get(metric)}
        yield {**about, "metric": metric, "value": value, "details": details}
    if not old["metrics"]:  # a group without a figure of its own
        yield {**about, "metric": "acc"}
