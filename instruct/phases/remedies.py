"""Errors of a model that a config names: what they call `--base-url` has another flag in a verb that reads a config."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator

from instruct.base.errors import InputErrors, InstructError
from instruct.config import ExperimentConfig
from instruct.generation.options import EngineConfig
from instruct.judging.options import JudgeOptions

_FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]*)(?![\w.-])")


@contextlib.contextmanager
def judge_flags(config: ExperimentConfig, number: int | None = None) -> Iterator[None]:
    """Let errors about a config's judge name the flag of its key: `--judges.0.base_url`.

    Args:
        number: the judge's place in the config; None: that of the judge that the error names.
    """
    try:
        yield
    except InstructError as error:
        raise renamed(error, config, number) from error.__cause__


def renamed(error: InstructError, config: ExperimentConfig, number: int | None = None) -> InstructError:
    """The error about a config's judge with the flags of the judge's keys; another error as it is."""
    names = [options.card for options in config.judges]
    if number is None:
        about = re.search(r"\bjudge ([\w.-]+)", str(error))
        number = names.index(about[1]) if about and about[1] in names else 0 if len(names) == 1 else None
    return error if number is None else _with_keys(error, f"judges.{number}", JudgeOptions.model_fields)


@contextlib.contextmanager
def generation_flags(section: str, options: EngineConfig) -> Iterator[None]:
    """Let errors about the model that answers name the flags of its keys: `--answers.generation.base_url`."""
    try:
        yield
    except InstructError as error:
        raise _with_keys(error, f"{section}.generation", type(options).model_fields) from error.__cause__


def _with_keys(error: InstructError, section: str, keys: Collection[str]) -> InstructError:
    def key_flag(match: re.Match[str]) -> str:
        key = {"judge-model": "model"}.get(match[1], match[1].replace("-", "_"))
        return f"--{section}.{key}" if key in keys else match[0]

    if isinstance(error, InputErrors):
        error.problems = [_FLAG.sub(key_flag, problem) for problem in error.problems]
    error.args = (_FLAG.sub(key_flag, str(error)),)
    return error
