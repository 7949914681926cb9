"""Steps of an experiment: which options each was made with, and whether a run goes on with a changed config."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from instruct.base.errors import InputError, InputErrors, one_line
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.judging.asking import Judge
from instruct.judging.comparison import ComparisonKey
from instruct.run.directory import RunDirectory, differences


def step_options(config: ExperimentConfig, run: RunDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
    """By the name of each step of a run that a config asks for, the part of its inputs that the config has."""
    manifest = run.manifest()
    for name in config.trained:
        yield f"train/{name}", {"options": config.trained_with(name)}
    if config.answers:
        yield "answers", {"options": config.answered_with()}
    for step in manifest["steps"] if config.continuations else ():
        if step.startswith("continuations/"):
            yield step, {"options": config.continued_with()}
    for options in config.judges:
        with contextlib.suppress(InputError):  # whoever asks the judge says what is wrong with it
            judge = Judge(options, where=config.cluster)
            for pair in options.comparisons or config.compared:
                names = (run.answers_path(name).stem for name in pair)
                step = ComparisonKey(judge.card.name, *names).step("judge", manifest)
                if step in manifest["steps"]:
                    judge.settle_dtype(run)
                    yield step, {"judge": judge.options.made_with()}


def refusals(run: RunDirectory, config: ExperimentConfig, redo: Collection[str] = ()) -> list[str]:
    """Why a run cannot be continued with this config: a line for each option that a finished step was made with.

    Args:
        redo: the steps, by the beginnings of their names, that may be made again.
    """
    if not run.manifest_path.is_file():
        return []
    finished: dict[str, list[str]] = {}
    steps = run.manifest()["steps"]
    for name, options in step_options(config, run):
        inputs = steps.get(name, {}).get("inputs", {})
        made_with = {part: inputs.get(part) for part in options}
        if steps.get(name, {}).get("status") == "done" and made_with != options and not is_named(name, redo):
            for words in changed_options(_sections(made_with), _sections(options)):
                finished.setdefault(words, []).append(name)
    if not config.text_metrics.matched_temperature:
        controls = [name for name in steps if name.startswith("evaluate/matched/") and not is_named(name, redo)]
        words = "evaluation.texts.matched_temperature was true and is false now"
        finished |= {words: controls} if controls else {}
    lines = []
    for words, names in finished.items():
        again = " ".join(f"--redo {kind}" for kind in dict.fromkeys(name.partition("/")[0] for name in names))
        remedy = f"choose another name (--name), restore the value, or replace what was made ({again})"
        lines.append(f"{run.folder / 'config.yaml'}: {words}, but {names[0]} is finished; {remedy}")
    return lines


def is_named(step: str, names: Collection[str]) -> bool:
    """Whether a step has one of these names, or begins with one and a slash."""
    return any(step == name or step.startswith(f"{name}/") for name in names)


def _sections(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A step's options as a part of a config."""
    return {"judges": [inputs["judge"]]} if "judge" in inputs else dict(inputs["options"] or {})


def changed_options(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    """What differs between two configs, or parts of them: a few words for each key."""
    with contextlib.suppress(ValidationError):  # with the defaults of options that are newer than a run
        old = _with_defaults(old)
    for key, one, two in differences(old, _with_defaults(new)):
        if one is None and two is None:  # one of a library's keys, whose default is not null
            yield f"{key} changed between null and unset"
        else:
            yield f"{key} was {_value(one)} and is {_value(two)} now"


def _with_defaults(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a config, or of a part of one, with defaults, and judges by their names."""
    content = ExperimentConfig.model_validate({"name": "run", **content}).model_dump(mode="json")
    judges = {", ".join(filter(None, (judge["card"], judge["model"]))): judge for judge in content.pop("judges")}
    return content | {f"judges ({name})": judge for name, judge in judges.items()}


def _value(value: Any) -> str:
    return "not set" if value is None else one_line(json.dumps(value, ensure_ascii=False), 60)


def start_or_continue(run: RunDirectory, config: ExperimentConfig, redo: Collection[str] = ()) -> None:
    """Create the run directory, or continue the run that is there, whose config.yaml becomes this config.

    Args:
        redo: steps to make again, as in `refusals`.

    Raises:
        InputErrors: a finished step was made with another value of an option.
        InputError: there is no step to make again.
    """
    if reasons := refusals(run, config, redo):
        raise InputErrors(reasons)
    content = config.model_dump(mode="json")
    if (run.folder / "config.yaml").is_file():
        for words in changed_options(run.config(), content):
            say(f"changed   {words}")
        run.write_config(content)
    run.start(content)
    for name in redo:
        _replace(run, name)


def _replace(run: RunDirectory, name: str) -> None:
    """Forget that steps were made, and say what they took."""
    steps = {step: record for step, record in run.manifest()["steps"].items() if is_named(step, [name])}
    if not steps:
        known = ", ".join(dict.fromkeys(step.partition("/")[0] for step in run.manifest()["steps"])) or "none"
        raise InputError(f"{run.folder}: has no step {one_line(name, 60)}; its steps: {known}")
    for step, record in steps.items():
        cost = f", {usd:.2f} USD" if (usd := (record.get("results") or {}).get("usd")) else ""
        say(f"redo      {step}: took {record.get('minutes') or 0:g} min{cost}")
        run.record(step, {**record, "status": "stopped"})
