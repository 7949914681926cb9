"""The configuration of an experiment: YAML, overridden by flags, checked key by key."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import model_validator

from instruct.cards import packaged_folder, read_yaml, validated
from instruct.errors import InputError, one_line
from instruct.generation.options import AnswerOptions
from instruct.judging.options import JudgeOptions
from instruct.training.options import SystemOptions, TrainingOptions


class ExperimentConfig(TrainingOptions):
    """A whole experiment: training, answers, judges, comparisons.

    In `comparisons`, `baseline` stands for the evaluation set's own answers.
    """

    answers: AnswerOptions = AnswerOptions()
    judges: list[JudgeOptions] = []
    comparisons: list[tuple[str, str]] = []

    @model_validator(mode="after")
    def _names_are_known(self) -> ExperimentConfig:
        for name in [self.name, *self.systems]:
            if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
                raise ValueError(f"{one_line(name, 60)!r} is no usable name; use letters, digits, '-', '_' and '.'")
        known = {*self.systems, "baseline"}
        if "baseline" in self.systems:
            raise ValueError("a system may not be called 'baseline': that names the evaluation set's answers")
        for pair in itertools.chain(self.comparisons, *(judge.comparisons or [] for judge in self.judges)):
            for name in pair:
                if name not in known and not Path(name).suffix == ".json":
                    raise ValueError(f"comparisons names {name!r}; known are {', '.join(sorted(known))}")
        return self


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The experiment in a YAML file, with `section.key value` overrides.

    Args:
        path: a YAML file, or the name of a config that the installation carries (`demo`).
        overrides: flags as typed, e.g. `["--train.learning_rate", "1e-4", "--data.files", "a.jsonl"]`.

    Raises:
        InputError: a missing file, an unknown key (with the nearest), a value of the wrong type.
    """
    found = find_config(path)
    return make_config(read_yaml(found), overrides, found)


def find_config(path: str | Path) -> Path:
    """The YAML file of a config, by path or by packaged name."""
    if Path(path).is_file():
        return Path(path)
    in_wheel, in_clone = packaged_folder("configs"), packaged_folder("recipes") / "configs"
    folder = in_wheel if in_wheel.is_dir() else in_clone
    by_name = folder / f"{path}.yaml"
    if not Path(path).is_absolute() and ".." not in Path(path).parts and by_name.is_file():
        return by_name
    experiments = (file for file in folder.rglob("*.yaml") if file.parent.name != "accelerate")  # its own configs
    names = ", ".join(sorted(str(file.relative_to(folder).with_suffix("")) for file in experiments))
    raise InputError(f"{path}: no such config file; give a YAML file's path or one of {names}")


def make_config(content: dict[str, Any], overrides: Sequence[str], where: object) -> ExperimentConfig:
    """A config from a mapping and overrides; `where` names the source in errors."""
    content = dict(content)
    for key, value in parse_overrides(overrides):
        _set(content, key.split("."), value)
    config = validated(ExperimentConfig, content, where)
    check_train_arguments(config.train, where)
    return config


def parse_overrides(flags: Sequence[str]) -> list[tuple[str, Any]]:
    """`["--a.b", "1", "--c=[x]"]` as `[("a.b", 1), ("c", ["x"])]`; values are YAML.

    Raises:
        InputError: something that is not a flag, or a flag without a value.
    """
    pairs: list[tuple[str, Any]] = []
    index = 0
    while index < len(flags):
        flag = flags[index]
        if not flag.startswith("--"):
            raise InputError(
                f"unexpected argument {one_line(flag, 80)!r}; overrides look like --train.learning_rate 1e-4"
            )
        key, equals, text = flag[2:].partition("=")
        if not equals:
            index += 1
            if index == len(flags) or flags[index].startswith("--"):
                raise InputError(f"{flag} has no value; write {flag} VALUE")
            text = flags[index]
        index += 1
        pairs.append((key, _number(yaml.safe_load(text))))
    return pairs


def _number(value: Any) -> Any:
    # YAML 1.1 reads 1e-4 as a string: no dot, no number. Everybody who types it means a number.
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def _set(content: dict[str, Any], keys: list[str], value: Any) -> None:
    if keys[-1] == "files" and isinstance(value, str):
        value = [value]
    for key in keys[:-1]:
        if not isinstance(content.get(key), dict):
            content[key] = {}
        content[key] = dict(content[key])
        content = content[key]
    content[keys[-1]] = value


def check_train_arguments(arguments: dict[str, Any], where: object) -> None:
    """Refuse a key of `train` that EMOConfig does not have, and those that this package sets itself."""
    import dataclasses

    from instruct.cards import nearest

    # Read off the class only when there is something to check: TRL takes seconds to import.
    if not arguments:
        return
    from instruct.training.emo_config import EMOConfig

    known = {field.name for field in dataclasses.fields(EMOConfig) if field.init}
    ours = {"output_dir", "model_init_kwargs", *SystemOptions(objective="mle").emo_config()}
    for key, value in arguments.items():
        if key in ours:
            raise InputError(f"{where}: train.{key} is set elsewhere (systems, model, --out); remove it")
        if key not in known:
            raise InputError(f"{where}: unknown key 'train.{key}'{nearest(key, known)}; remove or rename it")
        arguments[key] = _number(value)


def dump_config(config: ExperimentConfig) -> str:
    """The resolved config as YAML."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
