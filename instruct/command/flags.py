"""Flags that override the config, and flags that set options, with the help, type and default of their fields.

They are read from config.schema.json, which is written from the options: importing these would slow `--help` down.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from instruct.phases import PHASES

# Adds a verb: its name, its function, its help and what follows its flags.
AddVerb = Callable[..., argparse.ArgumentParser]
_TYPES: dict[str, Any] = {"integer": int, "number": float, "string": str}
_METAVARS = {"integer": "N", "number": "X"}


@functools.cache
def config_schema() -> dict[str, Any]:
    """The JSON Schema of a config."""
    path = Path(__file__).resolve().parents[1] / "config.schema.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


# The config's sections, whose flags need no dot; these four are flags of their own, or none.
SECTIONS = tuple(name for name in config_schema()["properties"] if name not in ("name", "model", "cluster", "extends"))
OVERRIDES = (
    "Any config key can be set by a flag: --train.learning_rate 1e-4, --lora.r 32. "
    "A list is YAML: --data.files '[a.txt, b.txt]'."
)

VERBOSE = "also print what libraries print (see log.txt)"


def split_overrides(argv: Sequence[str], own: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """`argv` without the flags that override the config, and those flags with their values.

    An override has a dot (`--train.max_steps 40`) or is a section's name (`--lora null`), unless the verb has a flag of
    its `own` with that name. argparse alone would take the value of an unknown flag for a positional argument.
    """
    rest, overrides = [], []
    tokens = iter(argv)
    for token in tokens:
        name = token.partition("=")[0]
        if name.startswith("--") and ("." in name or (name[2:] in SECTIONS and name not in own)):
            overrides.append(token)
            if "=" not in token:
                overrides += itertools.islice(tokens, 1)
        else:
            rest.append(token)
    return rest, overrides


def _fields(section: str) -> dict[str, dict[str, Any]]:
    return dict(config_schema()["$defs"][section]["properties"])


def add_option_flags(sub: argparse.ArgumentParser, section: str, *keys: str, **renamed: str) -> None:
    """A flag for each of the section's keys (default: all); one that is not given is None.

    Args:
        section: the name of the options' class.
        renamed: the flags of keys that are not called like their key.
    """
    fields = _fields(section)
    for key in keys or fields:
        field = fields[key]
        kind = next((kind for kind in field.get("anyOf", ()) if kind["type"] != "null"), field)
        choices = kind.get("enum") or ([kind["const"]] if "const" in kind else None)
        flag = f"--{renamed.get(key, key).replace('_', '-')}"
        text = _help(field)
        if kind["type"] == "boolean":
            sub.add_argument(flag, dest=key, action="store_const", const=True, help=text)
        elif kind["type"] == "array":
            sub.add_argument(flag, dest=key, type=lambda text: text.split(","), metavar="A,B", help=text)
        else:
            metavar = None if choices else _METAVARS.get(kind["type"], "TEXT")
            sub.add_argument(flag, dest=key, type=_TYPES[kind["type"]], choices=choices, metavar=metavar, help=text)


def option_help(section: str, key: str) -> str:
    """The help of a key."""
    return _help(_fields(section)[key])


def _help(field: dict[str, Any]) -> str:
    text = field["description"].removesuffix(".").replace("%", "%%")
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    said = field.get("default") in (None, False, []) or "(default: " in text
    return text if said else f"{text} (default: {field['default']})"


def options_given(arguments: argparse.Namespace, section: str) -> dict[str, Any]:
    """The options of a section that the call's flags set."""
    return {key: value for key in _fields(section) if (value := getattr(arguments, key, None)) is not None}


def add_phase_flags(parser: argparse.ArgumentParser) -> None:
    """Which phases of an experiment to run."""
    parser.add_argument("--dry-run", action="store_true", help="check access, memory and disk, print the plan and stop")
    parser.add_argument("--from", choices=PHASES, default=PHASES[0], dest="first", help="the first phase to run")
    parser.add_argument("--until", choices=PHASES, default=PHASES[-1], dest="last", help="the last phase to run")


def run_argument(sub: argparse.ArgumentParser, needs: str, more: str = "") -> None:
    """The run that a verb works on: by default the newest that has what it needs."""
    sub.add_argument("run", nargs="?", metavar="RUN", help=f"a run directory (default: the newest with {needs}){more}")


def add_retry_flag(sub: argparse.ArgumentParser) -> None:
    """`--retry-failed`."""
    text = "send all failed requests again, also refused ones"
    sub.add_argument("--retry-failed", action="store_true", help=text)


def add_cluster_flag(sub: argparse.ArgumentParser) -> None:
    """`--cluster`."""
    sub.add_argument("--cluster", choices=["ray"], help="use the machines of a Ray cluster (docs/cluster.md)")


def add_answer_form_flags(sub: argparse.ArgumentParser) -> None:
    """How files of answers from elsewhere are read."""
    for flag, field in (("--prompt-column", "instruction"), ("--response-column", "output")):
        sub.add_argument(flag, metavar="NAME", help=f"a column of files of answers, as `{field}`")
    text = "the question.jsonl of MT-Bench or Arena-Hard, if answers have ids alone"
    sub.add_argument("--questions", metavar="FILE", help=text)


def add_pair_flags(sub: argparse.ArgumentParser) -> None:
    """The pair of systems to compare."""
    text = "a system of the run, or a model_outputs.json (default: the run's comparisons, else all with `baseline`)"
    sub.add_argument("--candidate", metavar="A", help=text)
    sub.add_argument("--baseline", metavar="B", help="a system of the run, `baseline`, or a model_outputs.json")
