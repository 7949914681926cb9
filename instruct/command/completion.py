"""The names that a shell completes: judges, configs and runs. argcomplete asks for them while the user types."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

# As argcomplete calls it: with `prefix`, `action`, `parser` and `parsed_args`.
Completer = Callable[..., Sequence[str]]


def complete(parser: argparse.ArgumentParser, verbs: Iterable[argparse.ArgumentParser]) -> None:
    """Answer a shell that asks for completions, and exit; what an argument takes is known by its name in the help."""
    import argcomplete

    completers: dict[Any, Completer] = {"RUN": runs, "CONFIG": configs, "J": judges, "NAMES": tasks}
    for action in (action for verb in verbs for action in verb._actions if action.metavar in completers):
        action.completer = completers[action.metavar]  # type: ignore[attr-defined]  # where argcomplete looks for it
    argcomplete.autocomplete(parser, always_complete_options="long")


def judges(prefix: str, **_: Any) -> list[str]:
    """Names of judge cards, or paths once the user types one."""
    from instruct.base.cards import list_cards

    return [card.name for card in list_cards("judges")] + _paths(prefix)


def tasks(prefix: str, **_: Any) -> list[str]:
    """Names of task cards, after those that the user has typed."""
    from instruct.base.cards import list_cards

    typed = prefix[: prefix.rfind(",") + 1]
    return [typed + card.name for card in list_cards("data/tasks")]


def configs(prefix: str, **_: Any) -> list[str]:
    """Names of packaged configs, and YAML files."""
    from instruct.config import packaged_configs

    return [*packaged_configs(), *_paths(prefix, (".yaml", ".yml"))]


def runs(prefix: str, **_: Any) -> list[str]:
    """Run directories below ./runs, and paths."""
    return [str(path.parent) for path in sorted(Path("runs").glob("[!.]*/manifest.json"))] + _paths(prefix)


def _paths(prefix: str, endings: tuple[str, ...] = ()) -> list[str]:
    """Folders, and files with one of the endings (default: all), whose path begins with `prefix`."""
    place = Path(prefix) if prefix.endswith("/") else Path(prefix).parent
    paths = [path for path in sorted(place.glob("*")) if not path.name.startswith(".")] if place.is_dir() else []
    folders = [f"{path}/" for path in paths if path.is_dir()]
    return folders + [str(path) for path in paths if path.is_file() and (not endings or path.suffix in endings)]
