"""A run continued with a changed config: refused if a finished step was made with the old value, else adopted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from instruct.base.errors import InputErrors, one_line
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.judging.options import JudgeOptions
from instruct.run.directory import RunDirectory, differences

# The steps that are made with a section of the config; with a section that is not listed, every step.
_STEPS: Mapping[str, tuple[str, ...]] = {
    "data": ("train/",),
    "lora": ("train/",),
    "train": ("train/",),
    "answers": ("answers",),
    "continuations": ("continuations/",),
    "evaluation": ("evaluate/",),
    "comparisons": (),
    "cluster": (),
    "needs_gpu": (),
    "seeds": (),
}


class Change(NamedTuple):
    """A key with its value in the run's config.yaml and its new one; `finished`: a step that was made with the old."""

    key: str
    old: Any
    new: Any
    finished: str | None

    def words(self) -> str:
        """The change in a few words."""
        return f"{self.key} was {_shown(self.old)} and is {_shown(self.new)} now"


def config_changes(run: RunDirectory, config: ExperimentConfig) -> list[Change]:
    """What differs from the config that a run was started with; [] if nothing was started."""
    if not (run.folder / "config.yaml").is_file():
        return []
    old = run.config()
    with contextlib.suppress(ValidationError):  # with the defaults of options that are newer than the run
        old = ExperimentConfig.model_validate(old).model_dump(mode="json")
    steps = run.manifest()["steps"] if run.manifest_path.is_file() else {}
    new = config.model_dump(mode="json")
    done = {name: record for name, record in steps.items() if record.get("status") == "done"}
    judges = _changed_judges(old.pop("judges", None) or [], new.pop("judges"), done)
    keys = (
        Change(key, one, two, _made_with(key, (one, two), _lasting(key, two, config, list(done))))
        for key, one, two in differences(old, new)
    )
    return [*keys, *judges]


def _lasting(key: str, value: Any, config: ExperimentConfig, done: list[str]) -> list[str]:
    """The finished steps whose results stay when a key gets this value: metrics of texts are measured again."""
    if not key.startswith("evaluation.texts."):
        return done
    metrics = {step: step.split("/")[1] for step in done if step.startswith("evaluate/")}
    if key == "evaluation.texts.matched_temperature" and not value:  # nothing replaces the controls
        return [step for step, metric in metrics.items() if metric == "matched"]
    wanted = config.text_metrics.metrics
    again = list(metrics.values()) if wanted is None else ["entropy", "matched", *wanted]
    return [step for step, metric in metrics.items() if metric not in ("tasks", "lm_eval", *again)]


def _made_with(key: str, values: tuple[Any, Any], done: list[str]) -> str | None:
    """A finished step that was made with the old value of a key."""
    section, _, rest = key.partition(".")
    added_or_left_out = None in values
    # Results of tasks are kept by task and settings, those of metrics by metric: new ones replace nothing.
    if key.startswith(("evaluation.tasks", "evaluation.texts.metrics")):
        return None
    if section == "systems":
        step = f"train/{rest.partition('.')[0]}"
        return step if step in done and not added_or_left_out else None
    if added_or_left_out and (section == "evaluation" or key in ("answers", "continuations")):
        return None
    return next((step for step in done if step.startswith(_STEPS.get(section, ("",)))), None)


def _changed_judges(old: list[Any], new: list[Any], done: dict[str, Any]) -> Iterator[Change]:
    """What differs between judges of one card and model, as far as verdicts depend on it; and which come and go."""
    before, after = (
        {(each.card, each.model): each for each in map(JudgeOptions.model_validate, given)} for given in (old, new)
    )
    for card, model in {**before, **after}:
        name = f"judges ({card if model is None else f'{card}, {model}'})"
        one, two = before.get((card, model)), after.get((card, model))
        if one is None or two is None:
            yield Change(name, one and "a judge", two and "a judge", None)
            continue
        asked = {step: record["inputs"].get("judge", {}) for step, record in done.items() if step.startswith("judge/")}
        finished = [step for step, by in asked.items() if (by.get("card"), by.get("model")) == (card, model)]
        for key, *values in differences(one.made_from(), two.made_from()):
            step = next(iter(finished), None) if key.partition(".")[0] != "comparisons" else None
            yield Change(f"{name}.{key}", values[0], values[1], step)


def refusals(run: RunDirectory, config: ExperimentConfig) -> list[str]:
    """Why a run cannot be continued with this config: a line for each key that a finished step depends on."""
    return [
        f"{run.folder / 'config.yaml'}: {change.words()}, but {change.finished} is finished; choose another name "
        "(--name), or restore the value"
        for change in config_changes(run, config)
        if change.finished
    ]


def start_or_continue(run: RunDirectory, config: ExperimentConfig) -> None:
    """Create the run directory, or continue the run that is there, whose config.yaml becomes this config.

    Raises:
        InputErrors: a finished step was made with the old value of a key.
    """
    if found := refusals(run, config):
        raise InputErrors(found)
    content = config.model_dump(mode="json")
    if (run.folder / "config.yaml").is_file():
        for change in config_changes(run, config):
            say(f"changed   {change.words()}")
        run.write_config(content)
    run.start(content)


def _shown(value: Any) -> str:
    return "not set" if value is None else one_line(json.dumps(value, ensure_ascii=False), 60)
