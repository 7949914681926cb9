"""A run continued with a changed config: refused if a finished step was made with the old value, else adopted."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError

from instruct.base.errors import InputErrors, one_line
from instruct.base.options import Affects, affected_steps
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.judging.options import JudgeOptions
from instruct.measuring.texts.options import TextMetric
from instruct.run.directory import RunDirectory, differences


class Change(NamedTuple):
    """A key with its value in the run's config.yaml and its new one; `finished`: a step that was made with the old."""

    key: str
    old: Any
    new: Any
    finished: str | None

    def words(self) -> str:
        """The change in a few words."""
        if self.old is None and self.new is None:  # one of a library's keys, whose default is not null
            return f"{self.key} was null and is left out now, or the other way round"
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
    keys = [
        Change(key, one, two, _made_with(key, (one, two), _lasting(key, two, config, list(done))))
        for key, one, two in differences(old, new)
    ]
    return [*keys, *judges]


def _lasting(key: str, value: Any, config: ExperimentConfig, done: list[str]) -> list[str]:
    """The finished steps whose results stay when a key gets this value: metrics of texts are measured again."""
    if not key.startswith("evaluation.texts."):
        return done
    wanted = config.text_metrics.metrics
    measured_again = {"entropy", *(get_args(TextMetric) if wanted is None else wanted)}
    if key != "evaluation.texts.matched_temperature" or value:  # else nothing replaces the controls
        measured_again.add("matched")
    return [step for step in done if step.split("/")[1:2] not in [[metric] for metric in measured_again]]


def _made_with(key: str, values: tuple[Any, Any], done: list[str]) -> str | None:
    """A finished step that was made with the old value of a key."""
    section, _, rest = key.partition(".")
    if None in values and (section == "evaluation" or key in ("answers", "continuations")):
        return None  # added or left out
    if section == "systems":
        if None in values and any(isinstance(value, dict) for value in values):
            return None  # the system was added or left out
        trained = (step for step in done if f"train/{rest}.".startswith(f"{step}."))
        return max(trained, key=len, default=None)  # a name may begin with another one and a dot
    affects = Affects(*affected_steps(ExperimentConfig, key))
    return next((step for step in done if step in affects), None)


def _changed_judges(old: list[Any], new: list[Any], done: dict[str, Any]) -> Iterator[Change]:
    """What differs between judges of one card and model, and which come and go."""
    before, after = (
        {(judge.card, judge.model): judge for judge in map(JudgeOptions.model_validate, judges)}
        for judges in (old, new)
    )
    for card, model in {**before, **after}:
        name = f"judges ({card if model is None else f'{card}, {model}'})"
        one, two = before.get((card, model)), after.get((card, model))
        if one is None or two is None:
            yield Change(name, one and "a judge", two and "a judge", None)
            continue
        asked = {step: record["inputs"].get("judge", {}) for step, record in done.items() if step.startswith("judge/")}
        finished = [step for step, by in asked.items() if (by.get("card"), by.get("model")) == (card, model)]
        for key, *values in differences(one.model_dump(mode="json"), two.model_dump(mode="json")):
            step = _made_with(f"judges.0.{key}", (values[0], values[1]), finished)
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
