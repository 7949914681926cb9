"""A step of an experiment: made with what, how it is checked and made.

A run goes on with a changed config unless a step that is finished or has checkpoints was made with another value of
an option.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import ValidationError

from instruct.base.errors import InputErrors, InstructError, Problems, one_line
from instruct.base.output import say
from instruct.config import ExperimentConfig
from instruct.judging.work import JudgingMode
from instruct.run.directory import RunDirectory, differences


@dataclass
class Step:
    """A phase of an experiment, but for the report: its systems share the rows, an engine or a judge.

    Attributes:
        mode: what judges are asked again; what failed, of answers too.
    """

    name: ClassVar[str]
    config: ExperimentConfig
    mode: JudgingMode = field(default_factory=JudgingMode)

    def inputs(self, run: RunDirectory) -> Iterator[tuple[str, dict[str, Any]]]:
        """By the name of each record that the step makes in a run, the part of its inputs that the config has."""
        yield from ()

    def has_checkpoints(self, run: RunDirectory, name: str) -> bool:
        """Whether a record that is not finished has checkpoints, which other options would waste."""
        return False

    def check(self, run: RunDirectory, phases: Collection[str]) -> Any:
        """Read what `make` needs, and say what will be done; nothing is written.

        Args:
            phases: those that will run. What only later calls need must be valid, but need not be available yet.

        Raises:
            InputError: what is wrong.
        """

    def make(self, run: RunDirectory, read: Any) -> InstructError | None:
        """Make what is not made yet from what `check` read; what stopped or refused a judge."""
        raise NotImplementedError


def check_steps(
    steps: Iterable[Step], run: RunDirectory, phases: Collection[str], redo: Collection[str] = ()
) -> dict[str, Any]:
    """Check everything that the phases need before any of them begins, and print what they will do.

    Args:
        phases: those that will run, of instruct.phases.PHASES.
        redo: finished steps that may be made again.

    Returns:
        What each step read.

    Raises:
        InputErrors: everything that is wrong, each on a line; nothing has been written.
    """
    problems, read = Problems(), {}
    problems.found += refusals(run, steps, redo)
    for step in steps:
        if step.name not in phases and run.manifest_path.is_file():
            names = [name for name, _ in step.inputs(run) if is_named(name, redo)]
            problems.found += [f"{name}: is not made again by this call, which does not {step.name}" for name in names]
        with problems.collected():
            read[step.name] = step.check(run, phases)
    problems.refuse()
    return read


def refusals(run: RunDirectory, steps: Iterable[Step], redo: Collection[str] = ()) -> list[str]:
    """Why a run cannot be continued with a config: a line for each option that was another when something was made.

    Args:
        redo: the records, by the beginnings of their names, that may be replaced; one that is not there is refused.
    """
    begun = run.manifest_path.is_file()
    records = run.manifest()["steps"] if begun else {}
    kinds = ", ".join(dict.fromkeys(name.partition("/")[0] for name in records)) or "none"
    lines = [
        f"{run.folder}: has no step {one_line(name, 60)} to make again; its steps: {kinds}"
        for name in redo
        if not any(is_named(step, [name]) for step in records)
    ]
    made: dict[str, list[str]] = {}
    for step, (name, options) in ((each, inputs) for each in steps if begun for inputs in each.inputs(run)):
        record = records.get(name)
        if record is None or is_named(name, redo):
            continue
        made_with = {part: record["inputs"].get(part) for part in options}
        if made_with != options and (record["status"] == "done" or step.has_checkpoints(run, name)):
            changes = [*changed_options(_sections(made_with), _sections(options))]
            for words in changes or ["the default of an option has changed"]:
                made.setdefault(words, []).append(name)
    for words, names in made.items():
        state = "is finished" if records[names[0]]["status"] == "done" else "has checkpoints"
        again = " and ".join(f"`redo` {kind}" for kind in dict.fromkeys(name.partition("/")[0] for name in names))
        remedy = f"choose another `name`, restore the value, or replace what was made with {again}"
        lines.append(f"{run.folder / 'config.yaml'}: {words}, but {names[0]} {state}; {remedy}")
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


def start_or_continue(
    run: RunDirectory, content: dict[str, Any], steps: Iterable[Step], redo: Collection[str] = ()
) -> None:
    """Create the run directory, or continue the run that is there, whose config.yaml becomes this config.

    Args:
        content: the config's.
        steps: those of the config.
        redo: records of finished ones to make again, as in `refusals`.

    Raises:
        InputErrors: a step that is finished or has checkpoints was made with another value of an option, or there is
            none to make again.
    """
    if reasons := refusals(run, steps, redo):
        raise InputErrors(reasons)
    if (run.folder / "config.yaml").is_file():
        for words in changed_options(run.config(), content):
            say(f"changed   {words}")
        run.write_config(content)
    run.start(content)
    make_again(run, redo)


def make_again(run: RunDirectory, redo: Collection[str]) -> None:
    """Let finished steps be made again, named as in `refusals`."""
    for name, record in run.manifest()["steps"].items():
        if is_named(name, redo):
            cost = f", {usd:.2f} USD" if (usd := (record.get("results") or {}).get("usd")) else ""
            say(f"redo      {name}: took {record.get('minutes') or 0:g} min{cost}")
            run.record(name, {**record, "status": "stopped"})
