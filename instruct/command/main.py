"""The `instruct` command: it reads the call's flags, calls the verb's function and prints its result."""

from __future__ import annotations

import importlib
import os
import sys

from instruct.base.errors import InputError, one_line
from instruct.base.output import Result, run_guarded
from instruct.command.arguments import make_parser, parse_arguments
from instruct.command.completion import complete

# The function of each verb: it takes the call's arguments and returns its result.
VERBS = {
    "run": "experiments:run",
    "config": "experiments:config",
    "preview": "experiments:preview",
    "train": "experiments:train",
    "generate": "experiments:generate",
    "evaluate": "experiments:evaluate",
    "judge": "judging:judge",
    "validate": "judging:validate",
    "report": "reports:report",
    "compare": "reports:compare",
    "sample": "reports:sample",
    "export": "reports:export_verdicts",
    "import": "reports:import_verdicts",
    "merge": "models:merge",
    "push": "models:push",
    "list": "listing:list_cards_or_runs",
    "doctor": "doctor:doctor",
}


def main() -> int:
    """The entry point of the console script."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    arguments = parse_arguments(parser, sys.argv[1:])

    def work() -> Result:
        if arguments.verb not in ("run", "train") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError(
                "only `run` and `train` work on several processes; run this verb without `accelerate launch`"
            )
        module, function = VERBS[arguments.verb].split(":")
        if arguments.overrides and module != "experiments":
            raise InputError(f"unexpected argument {one_line(arguments.overrides[0], 80)!r}; see --help")
        result: Result = getattr(importlib.import_module(f"instruct.command.{module}"), function)(arguments)
        return result

    return run_guarded(work, arguments.json, arguments.quiet)


if __name__ == "__main__":
    sys.exit(main())
