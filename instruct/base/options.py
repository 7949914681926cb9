"""Options: parts of a configuration, which of them change results, and the values of flags by the type of their key."""

from __future__ import annotations

import ast
import importlib.util
import math
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from instruct.base.parsing import parse_yaml

_EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")


@dataclass(frozen=True)
class FreeKeys:
    """The keys of a section that a library defines: their types, those that change no result, and the library's files
    that define them."""

    types: Callable[[], Mapping[str, Any]]
    no_result: frozenset[str]
    files: tuple[str, ...]

    def names(self) -> set[str]:
        """The keys, and maybe more, from the source alone: importing the library takes seconds."""
        names = set()
        for file in self.files:
            package = importlib.util.find_spec(file.partition("/")[0])
            if package is None or not package.origin:
                raise ModuleNotFoundError(f"No module named {file.partition('/')[0]!r}", name=file.partition("/")[0])
            tree = ast.parse((Path(package.origin).parents[1] / file).read_text(encoding="utf-8"))
            fields = (part for part in ast.walk(tree) if isinstance(part, ast.AnnAssign))
            names |= {field.target.id for field in fields if isinstance(field.target, ast.Name)}
        return names

    def type_of(self, name: str) -> Any:
        """The type of a key; None if there is no such key."""
        return self.types().get(name)


class Options(BaseModel):
    """A part of a configuration; an unknown key is an error. The docstring below a field is its help."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)
    free_keys: ClassVar[FreeKeys | None] = None
    no_result: ClassVar[frozenset[str]] = frozenset()

    def made_with(self) -> dict[str, Any]:
        """The options that change a result, as JSON data without defaults: a new option leaves what is done as it is.

        `no_result` names the others: memory, waiting, logging.
        """
        content = self.model_dump(mode="json", exclude_defaults=True, exclude={*self.no_result})
        for name in list(content):
            value = getattr(self, name)
            if isinstance(value, Options):
                content[name] = value.made_with()
                default = type(self).model_fields[name].get_default(call_default_factory=True)
                if isinstance(default, Options) and content[name] == default.made_with():
                    del content[name]
        return content


# A list of texts; a single one need not be written as a list.
Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


def key_type(model: type[Options], key: str) -> Any:
    """The type of a key such as `data.limit`; None if there is no such key."""
    parts = list(_along(model, key))
    if len(parts) <= key.count("."):
        return None
    return parts[-1]() if isinstance(parts[-1], partial) else parts[-1]


def _along(model: type[Options], key: str) -> Iterator[Any]:
    """The type of each part of a key; that of a library's key is a function, which may be slow."""
    annotation: Any = model
    metadata: Sequence[Any] = ()
    for name in key.split("."):
        inner = options_in(annotation)
        container = next((kind for kind in _alternatives(annotation) if get_origin(kind) in (dict, list)), None)
        declared = inner.free_keys if inner else None
        free = next((keys for keys in metadata if isinstance(keys, FreeKeys)), declared)
        if inner and container:
            metadata, annotation = (), inner
        elif inner and name in inner.model_fields:
            field = inner.model_fields[name]
            metadata, annotation = field.metadata, field.annotation
        elif free:
            metadata, annotation = (), partial(free.type_of, name)
        else:
            return
        yield annotation


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types of which a value may have any."""
    if get_origin(annotation) in (Union, types.UnionType):
        for argument in get_args(annotation):
            yield from _alternatives(argument)
    elif get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    else:
        yield annotation


def kinds_of(annotation: Any) -> set[type]:
    """What a key takes in YAML: of str, int, float, bool, list, dict and NoneType; a list of texts takes one, too."""
    kinds: set[type] = set()
    for kind in _alternatives(annotation):
        origin = get_origin(kind) or kind
        if origin is Literal:
            kinds |= set(map(type, get_args(kind)))
        elif isinstance(origin, type):
            known = (bool, int, float, str, list, dict, types.NoneType)
            kinds.add(next((base for base in known if issubclass(origin, base)), list if origin is tuple else dict))
        if origin is list and get_args(kind) == (str,):
            kinds.add(str)
    return kinds


def options_in(annotation: Any) -> type[Options] | None:
    """The options that a field's type names, as in `Options | None` and `dict[str, Options]`."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return annotation
    return next(filter(None, map(options_in, get_args(annotation))), None)


def with_numbers(value: Any) -> Any:
    """A value whose nested texts such as 1e-6 are numbers; YAML 1.1 takes them for texts."""
    if isinstance(value, dict):
        return {key: with_numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [with_numbers(part) for part in value]
    return float(value) if isinstance(value, str) and _EXPONENT.fullmatch(value) else value


def flag_value(text: str, annotation: Any) -> Any:
    """The value of a flag for a key of this type (None: unknown).

    A text is taken as it was typed, without quotes around it; a number is read as one; the rest is YAML.

    Raises:
        yaml.YAMLError: it is not valid YAML.
    """
    kinds = kinds_of(annotation)
    if str in kinds and text[:1] not in ("'", '"') and not (text[:1] in ("[", "{") and kinds & {list, dict}):
        try:
            value = parse_yaml(text)
        except yaml.YAMLError:
            return text
        is_null = value is None and text.strip().lower() in ("", "~", "null")
        return value if type(value) in kinds - {str, types.NoneType} or is_null else text
    if not kinds or kinds & {int, float}:
        return number(text, whole=int in kinds and float not in kinds)
    return parse_yaml(text)


def number(text: str, whole: bool = False) -> Any:
    """The number that a text gives, else its value as YAML, which takes 1e-4 for a text and 010 for eight."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return int(value) if whole and math.isfinite(value) and value == int(value) else value
    return parse_yaml(text)
