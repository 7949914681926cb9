"""metrics.json of before version 2, by parts of it with a model each, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_FIGURES = {
    "perplexity": ("perplexity", "word_perplexity", "byte_perplexity"),
    "entropy": ("entropy",),
    "distances": (
        "forward_cross_entropy",
        "reverse_cross_entropy",
        "total_variation",
        "forward_kl",
        "reverse_kl",
        "jensen_shannon",
    ),
    "oracle_perplexity": ("oracle_perplexity",),
    "mauve": ("mauve",),
    "rouge": tuple(f"rouge{kind}{part}" for part in ("", "_whole") for kind in "12L"),
    "diversity": ("distinct_1", "distinct_2", "distinct_3", "distinct_4", "self_bleu", "zipf", "repetition"),
}


def converted(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of version 2.

    Raises:
        ValueError: the content is not of version 1; the message names the place.
    """
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
        yield {**control, "value": None, "details": {"reason": old}}
        return
    details = {key: value for key, value in old.items() if key not in ("texts", "interval", "human")}
    if part == "matched":
        yield {**control, "value": details.pop("temperature"), "details": details}
        return
    if part == "oracle_perplexity":
        old = {**old, "oracle_perplexity": details.pop("perplexity", None)}
        details["human"] = old.get("human")
    own = {metric: old.get(metric) for metric in _FIGURES[part]}
    details = {key: value for key, value in details.items() if key not in own}
    first = _FIGURES[part][0]
    if first not in old and part != "diversity":
        raise ValueError(f"{first} is missing")
    for metric, figure in own.items():
        more = dict(details)
        if part == "distances":
            more["curve"] = [[at["temperature"], at[metric]] for at in old.get("curve", ())]
        if part == "diversity" and metric in old.get("human", {}):
            more["human"] = old["human"][metric]
        sample = {"value": figure}
        if isinstance(figure, dict):
            sample = {key: figure.get(key) for key in ("value", "interval")}
            more |= {"without": figure.get("without"), "other_variance": figure.get("other_variance", 0.0)}
        yield {"part": part, "metric": metric, "n": old["texts"], "details": more, **sample}


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
