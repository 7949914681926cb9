"""The configuration of an experiment: YAML files, overridden by flags, checked key by key."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, model_validator

from instruct.base.cards import nearest, packaged_folder, read_yaml, validated
from instruct.base.errors import InputError, Problems, one_line
from instruct.base.files import cache_folder, valid_name, write_atomically
from instruct.base.machine import versions
from instruct.base.options import Options, flag_value, key_type, kinds_of
from instruct.engines.cluster import Where
from instruct.generation.options import AnswerOptions, ContinuationOptions
from instruct.judging.options import JudgeOptions
from instruct.measuring.options import TaskOptions, TextMetricOptions
from instruct.training.options import (
    LORA_KEYS,
    TRAIN_KEYS,
    LoraOptions,
    SystemOptions,
    TrainingOptions,
    control_name,
    own_lora_names,
    seed_name,
)


def _named_judges(value: Any) -> Any:
    """A judge may be given by its card's name alone, and a single one without a list."""
    judges = value if isinstance(value, list) else [value]
    return [{"card": judge} if isinstance(judge, str) else judge for judge in judges]


def _one_pair(value: Any) -> Any:
    """A single comparison may be given without a list around it."""
    return [value] if isinstance(value, list) and value and all(isinstance(name, str) for name in value) else value


class EvaluationOptions(Options):
    """What `instruct evaluate` computes."""

    texts: TextMetricOptions | None = None
    """Metrics of held-out text and of continuations."""
    tasks: TaskOptions | None = None
    """Tasks."""


class ExperimentConfig(TrainingOptions):
    """A whole experiment: training, answers, judges, comparisons.

    In `comparisons`, `baseline` means the evaluation set's own answers. `seeds` stand for a system per seed, such as
    `emo-seed1`, and for the comparisons of each seed; they are expanded when the config is read.
    """

    answers: AnswerOptions | None = AnswerOptions()
    """What the systems answer (default: the starter set; null, and the default with continuations: nothing)."""
    continuations: ContinuationOptions | None = None
    """The prefixes of texts that the systems continue."""
    evaluation: EvaluationOptions | None = None
    """Text metrics and tasks: what is measured without a judge."""
    judges: Annotated[list[JudgeOptions], BeforeValidator(_named_judges)] = []
    """Who compares the answers."""
    comparisons: Annotated[list[tuple[str, str]], BeforeValidator(_one_pair)] = []
    """Pairs of candidate and baseline, each a system, `baseline`, or a model_outputs.json."""
    seeds: list[int] | None = Field(default=None, min_length=1)
    """Train every system once with each of these seeds."""
    cluster: Where = None
    """A Ray cluster for answers and judges on local models (`cluster: ray`; default: this machine)."""

    @property
    def compared(self) -> list[tuple[str, str]]:
        """What judges compare that name no pairs of their own: `comparisons`, else every system with `baseline`."""
        return self.comparisons or [(name, "baseline") for name in self.systems]

    def answered_with(self) -> dict[str, Any]:
        """The options that answers are made with, by section."""
        return self._written_with("answers", data=("chat_template", "chat_template_kwargs"))

    def continued_with(self) -> dict[str, Any]:
        """The options that continuations are made with, by section."""
        return self._written_with("continuations")

    def _written_with(self, section: str, data: Sequence[str] = ()) -> dict[str, Any]:
        content = self.made_with()
        template = {key: value for key, value in content.get("data", {}).items() if key in data}
        return {name: content[name] for name in ("model", section) if name in content} | {"data": template}

    @property
    def text_metrics(self) -> TextMetricOptions:
        """The options of numbers about texts, or their defaults."""
        return (self.evaluation.texts if self.evaluation else None) or TextMetricOptions()

    @model_validator(mode="before")
    @classmethod
    def _continues_instead_of_answering(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("continuations") and "answers" not in content:
            return {**content, "answers": None}
        return content

    @model_validator(mode="after")
    def _judges_have_answers(self) -> ExperimentConfig:
        if self.judges and self.answers is None:
            raise ValueError("judges compare answers, and there are none; add answers or remove judges")
        return self

    @model_validator(mode="after")
    def _seeds_are_systems(self) -> ExperimentConfig:
        own = [name for name, system in self.trained.items() if system.seed is not None]
        if (own or self.seeds) and "seed" in self.train:
            raise ValueError("train.seed: the systems have seeds of their own; remove train.seed")
        if self.seeds and own:
            raise ValueError(f"seeds: system {own[0]} has a seed of its own; remove one of the two")
        if self.seeds and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is given twice; remove one")
        trainings = {name: self._trainings(name) for name in self.systems}
        self.seeds = None
        names = [name for systems in trainings.values() for name in systems]
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise ValueError(f"systems: {twice[0]} is also the name of a training of another system; rename one")
        if list(trainings) == names:
            return self
        comparisons = [*self.comparisons, *(pair for judge in self.judges for pair in judge.comparisons or [])]
        for pair in comparisons:
            self._check_names(pair)
        self.comparisons = _of_each_training(self.comparisons, trainings)
        for judge in self.judges:
            judge.comparisons = judge.comparisons and _of_each_training(judge.comparisons, trainings)
        self.systems = {name: system for systems in trainings.values() for name, system in systems.items()}
        return self

    def _trainings(self, name: str) -> dict[str, SystemOptions]:
        """A system once for each seed, or for each of several adapters; else itself."""
        system = self.systems[name]
        content = system.model_dump()
        adapters = system.adapter or []
        if len(adapters) > 1:
            each = [{**content, "seed": seed, "adapter": [path]} for seed, path in enumerate(adapters, 1)]
        elif self.seeds and name in self.trained:
            each = [{**content, "seed": seed} for seed in self.seeds]
        else:
            return {name: system}
        return {seed_name(name, one["seed"]): SystemOptions.model_validate(one) for one in each}

    def _check_names(self, pair: tuple[str, str]) -> None:
        known = {*self.systems, "baseline"}
        for name in pair:
            if name not in known and not Path(name).suffix == ".json":
                raise ValueError(f"comparisons: unknown system {name!r}; known: {', '.join(sorted(known))}")

    @model_validator(mode="after")
    def _names_are_known(self) -> ExperimentConfig:
        for name in [self.name, *self.systems]:
            valid_name(name)
        if taken := {*self.systems} & {*map(control_name, self.systems)}:
            raise ValueError(f"systems: {min(taken)} is the name of another system's control; rename it")
        if "baseline" in self.systems:
            raise ValueError("a system cannot be called 'baseline': that name means the evaluation set's answers")
        for pair in itertools.chain(self.comparisons, *(judge.comparisons or [] for judge in self.judges)):
            self._check_names(pair)
        return self


def _of_each_training(
    comparisons: Sequence[tuple[str, str]], trainings: Mapping[str, Mapping[str, SystemOptions]]
) -> list[tuple[str, str]]:
    """Each comparison once per training: first with first, or with a system that is one, or a file."""
    pairs: list[tuple[str, str]] = []
    for pair in comparisons:
        first, second = ([*trainings.get(name, [name])] for name in pair)
        if 1 in (len(first), len(second)):
            pairs += itertools.product(first, second)
        else:
            pairs += zip(first, second, strict=False)
    return pairs


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> ExperimentConfig:
    """The experiment in a YAML file, with `section.key value` overrides.

    A file with `extends: FILE` starts from that file, whose path is relative to its own: mappings are merged, other
    values replaced.

    Args:
        path: a YAML file, or the name of a packaged config (`demo`).
        overrides: flags as typed, e.g. `["--train.learning_rate", "1e-4", "--data.files", "a.jsonl"]`.

    Raises:
        InputError: a missing file, a cycle of `extends`, an unknown key (with the nearest), a value of the wrong type.
    """
    file = find_config(path)
    files: list[Path] = []
    content = _read_extended(file, files)
    bases = ", ".join(map(str, files[1:]))
    where = f"{file} (extends {bases})" if bases else file
    answers = content.get("answers")
    if isinstance(answers, dict) and answers.get("files") and answers.get("eval_set"):
        raise InputError(f"{where}: answers: {_ONE_SOURCE}")
    return make_config(content, overrides, where)


# Sections that are also a file, several, or else the name of a card under this key.
_SHORT = {"data": "card", "answers": "eval_set"}
_ONE_SOURCE = "files and eval_set exclude each other; remove one of them"


def _long_key(section: str, value: Any) -> str:
    """The key that a section's value is of: `data: x.csv` is data.files, `data: alpaca_gpt4` data.card."""
    if section not in _SHORT or not isinstance(value, str | list):
        return section
    is_file = isinstance(value, list) or Path(value).suffix or Path(value).exists()
    return f"{section}.{'files' if is_file else _SHORT[section]}"


def _read_extended(path: Path, files: list[Path]) -> dict[str, Any]:
    """The content of a config file merged over that of the file that it extends; `files` collects those read."""
    files.append(path)
    try:
        content = read_yaml(path)
    except InputError as error:
        if path.suffix.lower() in (".yaml", ".yml"):
            raise
        raise InputError(
            f"{error}, or give several data files as data.files: [a{path.suffix}, b{path.suffix}]"
        ) from None
    short = {section: key for section in _SHORT if (key := _long_key(section, content.get(section))) != section}
    for section, key in short.items():
        content[section] = {key.partition(".")[2]: content[section]}
    if isinstance(content.get("lora"), dict):  # before it is merged
        try:
            content["lora"] = own_lora_names(content["lora"])
        except ValueError as error:
            raise InputError(f"{path}: lora: {error}") from None
    base = content.pop("extends", None)
    if base is None:
        return content
    if not isinstance(base, str):
        raise InputError(f"{path}: extends: must be the path of a YAML file (given: {one_line(repr(base), 80)})")
    base_path = path.parent / base
    if not base_path.is_file():
        raise InputError(f"{path}: extends: {base_path} does not exist; give a YAML file's path relative to this file")
    if base_path.resolve() in [file.resolve() for file in files]:
        raise InputError(f"{path}: extends: {base_path} extends this file in turn; remove one of the two")
    extended = _read_extended(base_path, files)
    if "answers" in short:
        extended["answers"] = _without_source(extended.get("answers"))
    return _merged(extended, content)


def _without_source(answers: Any) -> Any:
    """The options of answers without their files and evaluation set, which another source replaces."""
    if not isinstance(answers, dict):
        return answers
    return {key: value for key, value in answers.items() if key not in ("files", "eval_set")}


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with the values of `over`: mappings are merged key by key, everything else is replaced."""
    both = {
        key: _merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in over.items()
    }
    return {**base, **both}


def find_config(path: str | Path) -> Path:
    """The YAML file of a config, by path or by packaged name."""
    if Path(path).is_file():
        return Path(path)
    packaged = packaged_configs()
    if str(path) in packaged:
        return packaged[str(path)]
    names = ", ".join(name for name, file in packaged.items() if file.stem != "base")
    raise InputError(f"{path}: no such config; give the path of a YAML file, or one of {names}")


def packaged_configs() -> dict[str, Path]:
    """The files of the packaged configs by name, such as `demo` and `paper/llama2_7b`."""
    in_wheel, in_clone = packaged_folder("configs"), packaged_folder("recipes") / "configs"
    folder = in_wheel if in_wheel.is_dir() else in_clone
    files = (file for file in folder.rglob("*.yaml") if file.parent.name != "accelerate")
    return {str(file.relative_to(folder).with_suffix("")): file for file in sorted(files)}


def make_config(content: dict[str, Any], overrides: Sequence[str], where: object) -> ExperimentConfig:
    """A config from a mapping and overrides; `where` names the source in errors.

    Raises:
        InputError: an unknown key (with the nearest), or a value of the wrong type.
    """
    content = dict(content)
    flags = dict(parse_overrides(overrides))
    sources = [name for name in ("files", "eval_set") if flags.get(f"answers.{name}")]
    if len(sources) == 2:
        raise InputError(f"command line: answers: {_ONE_SOURCE}")
    if sources:  # a flag replaces the config's other source
        content["answers"] = _without_source(content.get("answers"))
    numbered = any(key.startswith("judges.") and key.split(".")[1].isdigit() for key in flags)
    if numbered:  # judges.0.base_url
        content["judges"] = {
            str(number): judge for number, judge in enumerate(_named_judges(content.get("judges", [])))
        }
    for key, value in flags.items():
        if key in ("lora.lora_alpha", "lora.lora_dropout"):
            key = key.replace("lora_", "")
        _set(content, key.split("."), value)
    if numbered:
        content["judges"] = list(content["judges"].values())
    config = validated(ExperimentConfig, content, where, whole=True)
    check_train_arguments(config.train, where)
    check_lora_arguments(config.lora, where)
    return config


def parse_overrides(flags: Sequence[str]) -> list[tuple[str, Any]]:
    """`["--data.limit", "1", "--data=x.csv"]` as `[("data.limit", 1), ("data.files", "x.csv")]`.

    Values are read by the type of their key, as `flag_value` does; `--data` and `--answers` take a file, or a card.

    Raises:
        InputError: something that is not a flag, or a flag without a value.
    """
    pairs: list[tuple[str, Any]] = []
    tokens = iter(flags)
    for flag in tokens:
        if not flag.startswith("--"):
            shown = one_line(flag, 80)
            raise InputError(f"unexpected argument {shown!r}; overrides look like --train.learning_rate 1e-4")
        key, equals, text = flag[2:].partition("=")
        if key == f"train.{_TOKEN}":
            raise InputError(_no_token("command line"))  # before a message could show its value
        if not equals and (text := next(tokens, "--")).startswith("--"):
            raise InputError(f"{flag} has no value; write {flag} VALUE")
        _check_free_key(key)
        try:
            value = flag_value(text, key_type(ExperimentConfig, key))
        except yaml.YAMLError:
            raise InputError(f"{flag}: {one_line(text, 80)!r} is not valid YAML; quote the value") from None
        pairs.append((_long_key(key, value), value))
    return pairs


def _check_free_key(key: str) -> None:
    """Refuse a key of `train` or `lora` that nothing has, before the library that would say so is imported."""
    section, _, name = key.partition(".")
    if section not in ("train", "lora") or not name:
        return
    known = TRAIN_KEYS.names() if section == "train" else LORA_KEYS.names() | {*LoraOptions.model_fields}
    if name.partition(".")[0] not in known:
        raise InputError(f"command line: unknown key {key!r}{nearest(name, known)}; remove or rename it")


def _set(content: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        if not isinstance(content.get(key), dict):
            content[key] = {}
        content[key] = dict(content[key])
        content = content[key]
    content[keys[-1]] = value


_TOKEN = "hub_token"
_HUB_KEYS = ("push_to_hub", "hub_model_id", "hub_private_repo", "hub_strategy", "hub_always_push", "hub_revision")
_MASK = (
    "has no effect on rows that this package tokenizes; use train.train_on (assistant_turns, last_turn or all_tokens)"
)
# Arguments of EMOConfig that are for rows, models and checkpoints in Python.
_IN_PYTHON = {
    **dict.fromkeys(_HUB_KEYS, ": a run uploads nothing; remove it, and upload a trained system with `hf upload`"),
    **dict.fromkeys(("assistant_only_loss", "completion_only_loss"), f" {_MASK}"),
    **{key: f" is set elsewhere; set data.{key}" for key in ("on_bad_row", "empty_thinking")},
    "trust_remote_code": " is set elsewhere; set model.trust_remote_code",
    "dataset_text_field": " has no effect on rows that this package reads; rename the column to text",
    "dataset_kwargs": " has no effect on rows that this package tokenizes; remove it",
    "length_column_name": " has no effect on rows that this package tokenizes; remove it",
    "resume_from_checkpoint": ": a run goes on from its last checkpoint by itself; remove it",
    **dict.fromkeys(("do_train", "do_eval", "do_predict", "local_rank"), " has no effect on a run; remove it"),
}


def _no_token(where: object) -> str:
    return (
        f"{where}: train.{_TOKEN} would be written into the run's config.yaml and manifest.json; remove it, and set "
        "HF_TOKEN or run `hf auth login` instead"
    )


def check_train_arguments(arguments: dict[str, Any], where: object) -> None:
    """Refuse a key of `train` that EMOConfig does not have, and those that this package sets itself."""
    if _TOKEN in arguments:
        raise InputError(_no_token(where))
    # Importing TRL takes seconds, and answering needs only that what a training began with is still the same.
    content = json.dumps([arguments, versions()], sort_keys=True, default=str)
    passed = cache_folder() / "passed_arguments" / hashlib.sha256(content.encode()).hexdigest()
    if not arguments or passed.is_file():
        return
    known = TRAIN_KEYS.types()
    ours = {"output_dir", "model_init_kwargs", *SystemOptions(objective="mle").emo_config()}
    problems = Problems()
    for key, value in arguments.items():
        if key in _IN_PYTHON:
            problem = f"train.{key}{_IN_PYTHON[key]}"
        elif key in ours:
            problem = f"train.{key} is set elsewhere (by systems, model or name); remove it"
        elif key not in known:
            problem = f"unknown key 'train.{key}'{nearest(key, known)}; remove or rename it"
        else:
            kinds = kinds_of(known[key])
            is_number = bool(kinds & {int, float})
            if isinstance(value, str) and is_number:  # YAML 1.1 takes 1e-4 for a text
                with contextlib.suppress(yaml.YAMLError):
                    value = arguments[key] = flag_value(value, known[key])
            if not (is_number and isinstance(value, bool | str) and type(value) not in kinds):
                continue
            problem = f"train.{key}: is {one_line(json.dumps(value), 80)}, not a number; give one"
        problems.found.append(f"{where}: {problem}")
    problems.refuse()
    if json.dumps([arguments, versions()], sort_keys=True, default=str) == content:  # no text was read as a number
        with contextlib.suppress(InputError):
            write_atomically(passed, "")


def check_lora_arguments(lora: LoraOptions | None, where: object) -> None:
    """Refuse a key of `lora` that LoraConfig does not have, those that this package sets itself, and wrong values."""
    if lora is None or not lora.model_extra:  # importing PEFT takes seconds
        return
    from peft import LoraConfig, PeftConfig

    known = {*LORA_KEYS.types(), *LoraOptions.model_fields}
    ours = {field.name for field in dataclasses.fields(PeftConfig)}
    problems = Problems()
    for key in lora.model_extra:
        if key in ours:
            problems.found.append(f"{where}: lora.{key} is set elsewhere (by model); remove it")
        elif key not in known:
            problems.found.append(f"{where}: unknown key 'lora.{key}'{nearest(key, known)}; remove or rename it")
    problems.refuse()
    try:
        LoraConfig(**lora.lora_config())
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: lora: {one_line(error)}") from None
