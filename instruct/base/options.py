"""Options: parts of a configuration, what depends on each, and the values of flags by the type of their key."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict

from instruct.base.parsing import parse_yaml


class Affects:
    """The steps that are made with an option, by the beginnings of their names; none: it changes no result.

    An option without it affects the steps that the section around it affects.
    """

    def __init__(self, *steps: str) -> None:
        self.steps = steps

    def __contains__(self, step: str) -> bool:
        return any(step == name or step.startswith(f"{name}/") for name in self.steps)


@dataclass(frozen=True)
class FreeKeys:
    """The keys of a section that a library defines: their types, and those that change no result."""

    types: Callable[[], Mapping[str, Any]]
    no_result: frozenset[str]

    def type_of(self, name: str) -> Any:
        """The type of a key; None if there is no such key."""
        return self.types().get(name)


class Options(BaseModel):
    """A part of a configuration; an unknown key is an error. The docstring below a field is its help."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), use_attribute_docstrings=True)
    free_keys: ClassVar[FreeKeys | None] = None

    @classmethod
    def unused(cls, content: Mapping[str, Any]) -> set[str]:
        """Options that change nothing, given the others."""
        return set()

    def affecting(self, step: str) -> dict[str, Any]:
        """The options that a step is made with, as JSON data."""
        return _affecting(type(self), step, self.model_dump(mode="json"))


# A list of texts; a single one need not be written as a list.
Texts = Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)]


def recorded_inputs(step: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A step's inputs as JSON data; of options, what the step is made with."""
    return {name: value.affecting(step) if isinstance(value, Options) else value for name, value in inputs.items()}


def same_inputs(step: str, recorded: Mapping[str, Any], inputs: Mapping[str, Any]) -> bool:
    """Whether a step was made from these inputs: an option that is not recorded, because it is newer, has its default.

    What was recorded of an option that changes no result is not compared.
    """
    earlier = {
        name: _affecting(type(inputs[name]), step, value) if isinstance(inputs.get(name), Options) else value
        for name, value in recorded.items()
    }
    return earlier == recorded_inputs(step, inputs)


def _affecting(model: type[Options], step: str, content: Any) -> Any:
    """The content of a section without keys that do not affect a step, and with the defaults of those that it lacks."""
    if not isinstance(content, dict):
        return content
    made_with = {}
    unused = model.unused(content)
    for name, field in model.model_fields.items():
        if name in unused or not all(step in affects for affects in field.metadata if isinstance(affects, Affects)):
            continue
        if name in content:
            inner = options_in(field.annotation)
            made_with[name] = _affecting(inner, step, content[name]) if inner else content[name]
        elif not field.is_required():
            default = field.get_default(call_default_factory=True)
            made_with[name] = default.affecting(step) if isinstance(default, Options) else default
    if model.free_keys:
        known = {*model.model_fields, *model.free_keys.no_result}
        made_with |= {name: value for name, value in content.items() if name not in known}
    return made_with


def affected_steps(model: type[Options], key: str) -> tuple[str, ...]:
    """The beginnings of the names of the steps that are made with a key such as `data.limit`."""
    steps: tuple[str, ...] = ()
    for metadata, _ in _along(model, key):
        steps = next((affects.steps for affects in metadata if isinstance(affects, Affects)), steps)
    return steps


def key_type(model: type[Options], key: str) -> Any:
    """The type of a key such as `data.limit`; None if there is no such key."""
    parts = list(_along(model, key))
    if len(parts) <= key.count("."):
        return None
    annotation = parts[-1][1]
    return annotation() if isinstance(annotation, partial) else annotation


def _along(model: type[Options], key: str) -> Iterator[tuple[Sequence[Any], Any]]:
    """The metadata and the type of each part of a key; that of a library's key is a function, which may be slow."""
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
            metadata, annotation = [Affects()] if name in free.no_result else (), partial(free.type_of, name)
        else:
            return
        yield metadata, annotation


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
