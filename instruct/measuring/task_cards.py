"""The YAML files of tasks, in lm-eval's format: found, read once, and compared by what they and their files contain."""

from __future__ import annotations

import glob
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from instruct.base.cards import find_card
from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of
from instruct.base.parsing import UniqueKeyLoader, invalid_yaml


@dataclass(frozen=True)
class TaskFile:
    """A task in a YAML file; `content` includes that of the files it includes."""

    path: Path
    content: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The task's name in results."""
        return str(self.content["task"])

    @property
    def about(self) -> Mapping[str, Any]:
        """What the file says to people."""
        about = self.content.get("metadata")
        return about if isinstance(about, dict) else {}

    def sha256(self) -> str:
        """Of the YAML content and the files that it names, in the current folder or beside it."""
        digest = hashlib.sha256(json.dumps(self.content, sort_keys=True, default=str).encode())
        for text in _texts(self.content):
            places = [text, glob.escape(str(self.path.parent / f"{text.rpartition('.')[0].replace('.', '/')}.py"))]
            for file in sorted({match for place in places for match in glob.glob(place)}):
                digest.update(sha256_of(Path(file)).encode() if Path(file).is_file() else b"")
        return digest.hexdigest()


def read_task(name: str, trusted: bool = False) -> TaskFile:
    """A task by its YAML file, or by the name of its card.

    Args:
        trusted: code that the file names, or one that it includes, may run.

    Raises:
        InputError: the file cannot be read, is not a task, or names code that is not trusted.
    """
    path = find_card("data/tasks", name)
    content = _content(path, trusted)
    if not isinstance(content.get("task"), str):
        raise InputError(f"{path}: is no task of lm-eval; it needs the key task")
    if not re.fullmatch(r"\w[\w.-]*", content["task"]):
        raise InputError(f"{path}: task: is part of file names; use letters, digits, '-', '_' and '.'")
    return TaskFile(path, content)


def _content(path: Path, trusted: bool, within: tuple[Path, ...] = ()) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path}: cannot be read; give a task of lm-eval, or the YAML file of one") from None
    try:
        loader = _Lenient(text)
        content = loader.get_single_data()
        included = content.pop("include", [])
        metrics = [str(each.get("metric")) for each in content.get("metric_list") or ()]
    except yaml.YAMLError as error:
        raise invalid_yaml(path, error) from None
    except (AttributeError, TypeError):
        raise InputError(f"{path}: is no task of lm-eval; it needs the key task") from None
    code = [*loader.functions, *(str(content[key]) for key in ("class",) if key in content)]
    # A metric that lm-eval does not know is a script, in a folder or on the hub.
    code += [name for name in metrics if "/" in name or Path(name).exists()]
    if code and not trusted:
        raise InputError(
            f"{path}: runs code of its own ({one_line(code[0], 60)}); read it, then set "
            "evaluation.tasks.trust_task_code: true"
        )
    merged: dict[str, Any] = {}
    for name in [included] if isinstance(included, str) else included:
        if (other := (path.parent / name).resolve()) not in within:
            merged |= _content(other, trusted, (*within, other))
    return merged | content


def _texts(value: Any) -> Iterator[str]:
    """The texts in a YAML value that can name a file or a function of one: a bare `*` matches whatever is here."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
    elif isinstance(value, str) and re.search(r"\.\w", value):
        yield value


class _Lenient(UniqueKeyLoader):
    """Reads lm-eval's own tag, `!function`, as text; `functions`: all of them, however the tag is written."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.functions: list[str] = []

    def _function(self, node: Any) -> str:
        self.functions.append(str(self.construct_scalar(node)))
        return self.functions[-1]


_Lenient.add_constructor("!function", _Lenient._function)
