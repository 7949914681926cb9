"""Finding and reading cards: the YAML files that describe a data set or a judge."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from instruct.base.errors import InputError, Problems, one_line, problem_words
from instruct.base.files import read_text
from instruct.base.parsing import invalid_yaml, parse_yaml

Kind = Literal["data", "data/human", "data/tasks", "judges"]
Model = TypeVar("Model", bound=BaseModel)

PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class CardLocation:
    """Where a card was found: `path` is its YAML file; `hides` is a packaged card of the same name."""

    name: str
    path: Path
    origin: str
    hides: Path | None = None


def packaged_folder(name: str) -> Path:
    """The folder of the packaged cards: `instruct/_cards/NAME` in a wheel, `NAME` in a clone."""
    in_wheel = PACKAGE / "_cards" / name
    return in_wheel if in_wheel.is_dir() else PACKAGE.parent / name


def _cards_in(folder: Path, kind: Kind) -> dict[str, Path]:
    if kind == "judges":
        return {path.parent.name: path for path in sorted(folder.glob("*/judge.yaml"))}
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def list_cards(kind: Kind) -> list[CardLocation]:
    """Every card that can be found by name: those in `./data` or `./judges` first, then the packaged ones."""
    local, packaged = Path(kind), packaged_folder(kind)
    cards = {name: CardLocation(name, path, "installed") for name, path in _cards_in(packaged, kind).items()}
    if local.resolve() != packaged.resolve():
        for name, path in _cards_in(local, kind).items():
            hidden = cards.get(name)
            cards[name] = CardLocation(name, path, f"./{kind}", hidden.path if hidden else None)
    return sorted(cards.values(), key=lambda card: card.name)


def find_card(kind: Kind, name: str) -> Path:
    """The YAML file of a card, by path or by name.

    Raises:
        InputError: an unknown name; the message gives the nearest ones.
    """
    as_path = Path(name)
    if kind == "judges" and (as_path / "judge.yaml").is_file():
        return as_path / "judge.yaml"
    if as_path.suffix in {".yaml", ".yml"}:
        if as_path.is_file():
            return as_path
        raise InputError(f"{name}: no such file; give an existing card or a name from `instruct list {_listed(kind)}`")
    cards = {card.name: card.path for card in list_cards(kind)}
    if name in cards:
        return cards[name]
    raise InputError(
        f"unknown {kind} card {one_line(name, 80)!r}{nearest(name, cards)}; see `instruct list {_listed(kind)}`"
    )


def _listed(kind: Kind) -> str:
    """What `instruct list` calls a kind of card."""
    return {"data/human": "data", "data/tasks": "tasks"}.get(kind, kind)


MOST_KNOWN = 30  # names in a message


def nearest(name: str, known: Iterable[str]) -> str:
    """` (nearest: a, b)` or, if nothing is similar, ` (known: a, b, …)`; nothing if that is too many to read."""
    names = sorted(known)
    short = [other for other in names if name in other or name == "".join(part[:1] for part in other.split("_"))]
    if near := difflib.get_close_matches(name, names, n=3, cutoff=0.5) or (len(name) > 1 and short[:3]):
        return f" (nearest: {', '.join(near)})"
    return f" (known: {', '.join(names)})" if len(names) <= MOST_KNOWN else ""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: the file is missing, is not valid YAML, or is not a mapping.
    """
    try:
        content = parse_yaml(read_text(path))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of an existing YAML file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; give the YAML file inside it") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; save the YAML file as UTF-8") from None
    except yaml.YAMLError as error:
        raise invalid_yaml(path, error) from None
    if not isinstance(content, dict):
        raise InputError(f"{path}: is not a mapping; write `key: value` lines")
    return content


def validated(model: type[Model], content: dict[str, Any], where: object, whole: bool = False) -> Model:
    """`content` as a pydantic model that refuses unknown keys.

    Args:
        whole: report everything that is wrong at once.

    Raises:
        InputError: one line with the place (`where`), the field and the values that it accepts.
        InputErrors: a line for each field.
    """
    try:
        read = model.model_validate(content)
    except ValidationError as error:
        found = [_problem(model, detail) for detail in error.errors()]
    else:
        found = list(_booleans_as_numbers(content, read))
        if not found:
            return read
    Problems([f"{where}: {problem}" for problem in (found if whole else found[:1])]).refuse()
    raise AssertionError("pydantic names what it refuses")


def _booleans_as_numbers(given: Any, read: Any, place: str = "") -> Iterator[str]:
    """What is wrong where pydantic has read true as 1 or false as 0."""
    if isinstance(given, bool) and isinstance(read, int | float) and not isinstance(read, bool):
        yield f"{place}: is {str(given).lower()}, not a number; give one"
    elif isinstance(given, dict):
        values = dict(read) if isinstance(read, BaseModel | dict) else {}
        for key in given.keys() & values.keys():
            yield from _booleans_as_numbers(given[key], values[key], f"{place}.{key}" if place else str(key))
    elif isinstance(given, list) and isinstance(read, list | tuple) and len(given) == len(read):
        for number, pair in enumerate(zip(given, read, strict=True)):
            yield from _booleans_as_numbers(*pair, f"{place}.{number}")


def _problem(model: type[BaseModel], detail: ErrorDetails) -> str:
    """One of pydantic's errors in our words."""
    field = ".".join(str(part) for part in detail["loc"]) or "(top level)"
    if detail["type"] == "extra_forbidden":
        siblings: Any = model
        for part in detail["loc"][:-1]:
            if inner := siblings.model_fields.get(part):
                siblings = next(_models_in(inner.annotation), siblings)
        hint = nearest(str(detail["loc"][-1]), siblings.model_fields)
        return f"unknown key {field!r}{hint}; remove or rename it"
    if detail["type"] == "unexpected_keyword_argument":  # as above, of a dataclass
        return f"unknown key {one_line(field, 80)!r}; remove or rename it"
    if detail["type"] == "missing":
        return f"the key {field!r} is missing; add it"
    message = one_line(problem_words(detail))
    value = "" if detail["type"] == "value_error" else f" (given: {one_line(repr(detail.get('input')), 80)})"
    return f"{field}: {message}{value}"


def _models_in(annotation: Any) -> Iterator[Any]:
    """The pydantic models that a field's annotation names, as in `list[Model] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)
