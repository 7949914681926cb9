"""The `instruct` command: it reads the call's flags, calls the verb's function and prints its result."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.output import Result, prepare_streams, run_guarded
from instruct.command import experiments, judging, reports, tools
from instruct.command.flags import OVERRIDES, SECTIONS, VERBOSE, split_overrides

# The verbs in the order of the work.
GROUPS = {
    "train": ("run", "config", "preview", "train", "bench", "check", "merge"),
    "judge and compare": ("generate", "evaluate", "judge", "validate", "report", "compare", "power"),
    "look": ("list", "doctor"),
}


class _Help(argparse.HelpFormatter):
    """A verb's help, whose usage names what a call must have."""

    def add_usage(self, usage: Any, actions: Any, groups: Any, prefix: Any = None) -> None:
        super().add_usage(usage, [it for it in actions if it.required or not it.option_strings], (), prefix)


def make_parser() -> argparse.ArgumentParser:
    """The command's parser; `verb` is the verb that was called, and `function` does its work."""
    parser = argparse.ArgumentParser(
        prog="instruct",
        usage="instruct [-h] [--version] VERB ...",
        description="Instruction-tune a model with an objective beyond cross-entropy and measure whether it improved.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"instruct {metadata.version('emo-instruct')}")
    verbs = parser.add_subparsers(prog="instruct", dest="verb", required=True, metavar="VERB", help=argparse.SUPPRESS)

    def verb(function: Any, text: str, epilog: str | None = None) -> argparse.ArgumentParser:
        name = function.__name__.partition("_")[0]
        sub = verbs.add_parser(
            name, help=text, description=text, epilog=epilog, formatter_class=_Help, allow_abbrev=False
        )
        sub.set_defaults(function=function, takes_overrides=OVERRIDES in (epilog or ""), verbs=verbs.choices)
        sub.add_argument("--json", action="store_true", help="print one JSON document; progress goes to stderr")
        detail = sub.add_mutually_exclusive_group()
        detail.add_argument("--quiet", "-q", action="store_true", help="print errors and the result only")
        detail.add_argument("--verbose", action="store_true", help=VERBOSE)
        return sub

    for group in (experiments, judging, reports, tools):
        group.add_verbs(verb)
    lines = [parser.description or ""]
    for title, names in GROUPS.items():
        lines += ["", f"{title}:"]
        for name in names:
            text = f"{name:<9} {verbs.choices[name].description}"
            lines += textwrap.wrap(text, 90, initial_indent="  ", subsequent_indent=" " * 12)
    parser.description = "\n".join(lines)
    return parser


def verbs_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of the verbs, by name."""
    return next(action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The call's arguments; `overrides` are the flags that override the config.

    An unknown flag ends the command, which names the nearest flags.
    """
    verbs = verbs_of(parser)
    verb = next((verbs[token] for token in argv if token in verbs), None)
    rest, overrides = split_overrides(argv, verb._option_string_actions if verb else ())
    arguments, unknown = parser.parse_known_args(rest)
    arguments.overrides = overrides
    if unknown:
        hint = _hint(arguments, unknown[0].partition("=")[0]) if unknown[0].startswith("--") else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return arguments


def _hint(arguments: argparse.Namespace, flag: str) -> str:
    """This verb's flags of which an unknown one is a part, else the verbs that have it, else this verb's nearest."""
    from instruct.base.cards import nearest  # imports pydantic

    sections = [f"--{name}" for name in SECTIONS] if arguments.takes_overrides else []
    hint = nearest(flag, [*arguments.verbs[arguments.verb]._option_string_actions, *sections])
    others = [verb for verb, sub in arguments.verbs.items() if flag in sub._option_string_actions]
    if others and flag not in hint:
        return f" (a flag of {', '.join(others)})"
    return hint if hint.startswith(" (nearest") else ""


def with_flags(text: str, verb: str, verbs: Mapping[str, argparse.ArgumentParser]) -> str:
    """A message with flags for the keys that it names, as in "set `base_url`": the called verb's, or those of another
    verb that it names, as in "with `instruct report` (`judge`)". A key without a flag is left as it is, and so are
    quotations, such as a model's reply.
    """
    named = [verb, *(other for other in re.findall(r"`instruct (\w+)", text) if other in verbs)]
    actions = [action for name in named for action in verbs[name]._actions if action.option_strings]
    flags = {action.dest: action.option_strings[0] for action in actions}
    return re.sub(r'"[^"]*"|`(\w+)`', lambda key: flags.get(key[1], key[0]), text)


def main() -> int:
    """Do what the process's arguments say; returns its exit code."""
    prepare_streams()
    parser = make_parser()
    arguments = parse_arguments(parser, sys.argv[1:])

    def work() -> Result:
        if arguments.verb not in ("run", "train") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError(
                "only `run` and `train` work on several processes; run this verb without `accelerate launch`"
            )
        if arguments.overrides and not arguments.takes_overrides:
            raise InputError(f"unexpected argument {one_line(arguments.overrides[0], 80)!r}; see --help")
        result: Result = arguments.function(arguments)
        return result

    def word(text: str) -> str:
        return with_flags(text, arguments.verb, arguments.verbs)

    return run_guarded(work, arguments.json, arguments.quiet, word, arguments.verbose)


if __name__ == "__main__":
    sys.exit(main())
