"""The verbs and flags of the `instruct` command, and the flags of a recipe. It imports nothing slow."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from importlib import metadata

from instruct.command import completion
from instruct.command.flags import add_option_flags, config_schema, option_help
from instruct.phases import PHASES
from instruct.training.objective_names import OBJECTIVES

# The config's sections, whose flags need no dot; these four are flags of their own, or none.
SECTIONS = tuple(name for name in config_schema()["properties"] if name not in ("name", "model", "cluster", "extends"))
OVERRIDES = (
    "Any config key can be set by a flag: --train.learning_rate 1e-4, --data.files my.jsonl, --lora.r 32. "
    "A list is YAML: --data.files '[a.txt, b.txt]'."
)
RUN = "a run directory (default: the newest with {})"


def split_overrides(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """`argv` without the flags that override the config, and those flags with their values.

    An override has a dot (`--train.max_steps 40`) or is a section's name (`--lora null`). argparse alone would take
    the value of an unknown flag for a positional argument.
    """
    rest, overrides = [], []
    tokens = iter(argv)
    for token in tokens:
        name = token.partition("=")[0]
        if name.startswith("--") and ("." in name or name[2:] in SECTIONS):
            overrides.append(token)
            if "=" not in token:
                overrides += itertools.islice(tokens, 1)
        else:
            rest.append(token)
    return rest, overrides


def parse_arguments(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The call's arguments; `overrides` are the flags that override the config.

    An unknown flag ends the command, which names the nearest flags.
    """
    rest, overrides = split_overrides(argv)
    arguments, unknown = parser.parse_known_args(rest)
    arguments.overrides = overrides
    if unknown:
        hint = ""
        if unknown[0].startswith("--"):
            from instruct.base.cards import nearest  # imports pydantic

            known = [*arguments.known_flags, *(f"--{name}" for name in SECTIONS)]
            hint = nearest(unknown[0].partition("=")[0], known)
            hint = hint if hint.startswith(" (nearest") else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return arguments


def recipe_arguments(argv: Sequence[str], description: str | None) -> tuple[argparse.Namespace, list[str]]:
    """A recipe's arguments (`config`, `dry_run`, `first`, `last`) and its overrides of the config, with `--name`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="a YAML file, or the name of one in recipes/configs")
    parser.add_argument("--name", help="the run's name: results go to runs/NAME (default: the config's name)")
    add_phase_flags(parser)
    rest, overrides = split_overrides(argv)
    arguments = parser.parse_args(rest)
    return arguments, overrides + (["--name", arguments.name] if arguments.name else [])


def add_phase_flags(parser: argparse.ArgumentParser) -> None:
    """Which phases of an experiment to run."""
    parser.add_argument("--dry-run", action="store_true", help="check access, memory and disk, print the plan and stop")
    parser.add_argument("--from", choices=PHASES, default=PHASES[0], dest="first", help="the first phase to run")
    parser.add_argument("--until", choices=PHASES, default=PHASES[-1], dest="last", help="the last phase to run")


def make_parser() -> argparse.ArgumentParser:
    """The command's parser; `verb` is the verb that was called."""
    parser = argparse.ArgumentParser(
        prog="instruct",
        description="Instruction-tune a model with an objective beyond cross-entropy and measure whether it improved.",
    )
    parser.add_argument("--version", action="version", version=f"instruct {metadata.version('emo-instruct')}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(name: str, text: str, epilog: str | None = None) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text, epilog=epilog, allow_abbrev=False)
        sub.add_argument("--json", action="store_true", help="print one JSON document; progress goes to stderr")
        sub.add_argument("--quiet", "-q", action="store_true", help="print errors and the result only")
        return sub

    for name, text in [
        ("run", "the whole experiment of a config: train, answer, evaluate, judge, report; rerun it to resume"),
        ("config", "print every key of a config with its default, or a config with its flags resolved"),
        ("preview", "show what training would see: rows, loss mask, lengths, memory, one step"),
        ("train", "train every system of a config (or a single one, with flags alone)"),
    ]:
        sub = verb(name, text, OVERRIDES)
        _config_argument(sub)
        sub.add_argument("--model", metavar="M", help="the base model: a hub id or a local folder")
        sub.add_argument("--objective", choices=OBJECTIVES, help="train with this objective only")
        sub.add_argument("--name", help="the run's name: results go to runs/NAME")
        if name == "run":
            add_phase_flags(sub)
            _add_retry_flag(sub)
            _add_cluster_flags(sub)
        if name == "config":
            sub.add_argument("--schema", action="store_true", help="print the path of the JSON Schema for editors")
        if name == "preview":
            sub.add_argument("--rows", type=int, default=3, metavar="N", help="number of rows to show (default: 3)")

    sub = verb("generate", "answer prompts or continue prefixes with every system of a run", OVERRIDES)
    help_text = RUN.format("trained systems") + ", or a YAML file whose only system is the base"
    _run_argument(sub, help_text)
    _add_cluster_flags(sub)

    text = "measure without a judge: perplexity, MAUVE and other text metrics, few-shot tasks"
    sub = verb("evaluate", text, f"Held-out text: --evaluation.texts.held_out.files FILE. {OVERRIDES}")
    _run_argument(sub, help_text)
    text = "few-shot tasks, separated by commas: see `instruct list tasks`"
    _completes(sub.add_argument("--tasks", metavar="NAMES", help=text), completion.tasks)
    text = "tasks of lm-evaluation-harness, separated by commas (requires the extra lm-eval)"
    sub.add_argument("--lm-eval", metavar="NAMES", help=text)
    text = "write the tasks of --tasks to this folder for lm-evaluation-harness, and run no model"
    sub.add_argument("--export-tasks", metavar="DIR", help=text)

    sub = verb("judge", "compare answers with a judge and write the report")
    _run_argument(sub, RUN.format("answers"))
    text = "a judge; repeatable (a panel) (default: those of the run's config)"
    _completes(sub.add_argument("--judge", action="append", metavar="J", help=text), completion.judges)
    sub.add_argument("--candidate", metavar="A", help="a system of the run, or a model_outputs.json")
    sub.add_argument("--baseline", metavar="B", help="a system of the run, `baseline`, or a model_outputs.json")
    sub.add_argument(
        "--output", metavar="DIR", help="create this run from two files: --candidate A.json --baseline B.json"
    )
    sub.add_argument("--replay", metavar="FILE", help="read replies from a JSON lines export; send no requests")
    sub.add_argument("--reparse", action="store_true", help="parse the stored replies again; send no requests")
    add_option_flags(sub, "JudgeOptions", "orders", "stop_when")
    _add_request_flags(sub)
    _add_length_control_flags(sub)

    sub = verb("validate", "test a judge against human labels, or against the verdicts of another judge")
    text = "a judge: see `instruct list judges`; not needed with --replay"
    _completes(sub.add_argument("--judge", metavar="J", help=text), completion.judges)
    sub.add_argument(
        "--against",
        required=True,
        nargs="+",
        metavar="SET",
        help="pandalm, autoj, a file of labeled pairs, or one or several models' annotations.json",
    )
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, if the annotations lack them")
    sub.add_argument("--replay", nargs="+", metavar="FILE", help="score these verdicts; send no requests")
    sub.add_argument("--replay-swapped", metavar="FILE", help="the verdicts with the second answer shown first")
    sub.add_argument("--limit", type=int, metavar="N", help="use only the first N pairs")
    sub.add_argument("--output", metavar="DIR", help="where the files go (default: runs/validate-JUDGE-SET)")
    sub.add_argument("--write-card", action="store_true", help="write the agreement into the judge's card")
    _add_request_flags(sub)

    sub = verb(
        "report",
        "write the report of a run, or of verdicts made elsewhere",
        "The run's report/exports has the same figures for other tools: figures.csv, tables.tex (LaTeX), "
        "leaderboard-*.csv (AlpacaEval) and model-card-*.md (Hugging Face Hub).",
    )
    _run_argument(sub, RUN.format("verdicts"))
    sub.add_argument("--annotations", metavar="FILE", help="verdicts made elsewhere: AlpacaEval's annotations.json")
    sub.add_argument("--output", metavar="DIR", help="the run directory to create (requires --annotations)")
    _add_answer_file_flags(sub)
    _add_length_control_flags(sub)
    sub.add_argument(
        "--human",
        metavar="FILE",
        help="people's labels on some pairs: what the form of `instruct sample` exports; kept in the run",
    )
    sub.add_argument("--fail-under", type=float, metavar="X", help="exit 4 if a win rate is below X percent")
    sub.add_argument(
        "--metric",
        choices=["win_rate", "win_rate_low"],
        help="for --fail-under: the win rate (default) or the lower end of its interval",
    )
    sub.add_argument("--judge", metavar="J", help="for --fail-under: only this judge (default: all)")
    sub.add_argument("--candidate", metavar="A", help="for --fail-under: only this system (default: all)")

    sub = verb("compare", "rank the systems of one run or several, and check that their figures are comparable")
    runs = sub.add_argument("runs", nargs="+", metavar="RUN", help="run directories; the first is the reference")
    _completes(runs, completion.runs)
    sub.add_argument(
        "--output", action="append", metavar="FILE", help="write to FILE.md, FILE.csv or FILE.html; repeatable"
    )

    sub = verb("sample", "draw pairs at random for people to label, as an HTML form that works offline")
    _run_argument(sub, RUN.format("answers"))
    sub.add_argument("-n", type=int, default=100, metavar="N", help="how many pairs (default: 100)")
    sub.add_argument("--candidate", metavar="A", help="a system of the run, or a model_outputs.json")
    sub.add_argument("--baseline", metavar="B", help="a system of the run, `baseline`, or a model_outputs.json")
    sub.add_argument("--output", metavar="FILE", help="the form (default: RUN/label.html)")
    sub.add_argument("--seed", type=int, default=0, metavar="S", help="draw other pairs (default: 0)")

    sub = verb("export", "export a judge's verdicts as AlpacaEval's annotations.json or as JSON lines")
    _run_argument(sub, RUN.format("verdicts"))
    sub.add_argument("--judge", required=True, metavar="J", help="the judge's name in the report")
    sub.add_argument("--format", choices=["annotations", "jsonl"], default="annotations", help="default: annotations")
    sub.add_argument("--output", required=True, metavar="FILE", help="the file to write")
    sub.add_argument("--candidate", metavar="A", help="selects the comparison, if the judge made several")
    sub.add_argument("--baseline", metavar="B", help="selects the comparison, if the judge made several")

    sub = verb("import", "import verdicts made elsewhere into a run directory")
    sub.add_argument("file", metavar="FILE", help="AlpacaEval's annotations.json, or JSON lines from `export`")
    sub.add_argument("--output", required=True, metavar="RUN", help="the run directory, created if missing")
    _add_answer_file_flags(sub)
    for flag, field in [("judge", "annotator"), ("candidate", "generator_2"), ("baseline", "generator_1")]:
        sub.add_argument(f"--{flag}", metavar="NAME", help=f"name of the {flag} (default: the file's {field})")

    sub = verb("merge", "merge a run's adapters into their base model")
    _run_argument(sub, RUN.format("adapters"))
    sub.add_argument("--system", metavar="NAME", help="merge only this system")

    sub = verb("push", "upload a run's trained systems to the Hugging Face Hub, with the report's evaluation")
    _run_argument(sub, RUN.format("trained systems"))
    sub.add_argument(
        "--repo-id", metavar="ID", help="USER/NAME; -SYSTEM is added for several (default: the run's name)"
    )
    sub.add_argument("--system", metavar="NAME", help="upload only this system")
    sub.add_argument("--private", action="store_true", help="create private repositories")

    sub = verb("list", "list the available data sets, judges, tasks or runs and where each was found")
    sub.add_argument("what", choices=["data", "judges", "tasks", "runs"])

    verb("doctor", "check the installation: packages, GPU, memory, disk, network, keys")
    for sub in verbs.choices.values():
        sub.set_defaults(known_flags=[*sub._option_string_actions])
    return parser


def _config_argument(sub: argparse.ArgumentParser) -> None:
    config = sub.add_argument(
        "config", nargs="?", metavar="CONFIG", help="a YAML file, or the name of a packaged config"
    )
    _completes(config, completion.configs)


def _run_argument(sub: argparse.ArgumentParser, text: str) -> None:
    _completes(sub.add_argument("run", nargs="?", metavar="RUN", help=text), completion.runs)


def _completes(action: argparse.Action, completer: completion.Completer) -> None:
    """What a shell completes the argument with; argcomplete looks for this attribute."""
    action.completer = completer  # type: ignore[attr-defined]


def _add_request_flags(sub: argparse.ArgumentParser) -> None:
    text = f"{option_help('JudgeOptions', 'base_url')}; repeatable: servers of one model, asked in turn"
    sub.add_argument("--base-url", action="append", metavar="URL", help=text)
    add_option_flags(sub, "JudgeOptions", "model", model="judge_model")
    add_option_flags(sub, "JudgeOptions", "engine", "concurrency", "trim", "budget_usd")
    add_option_flags(sub, "JudgeOptions", "dtype", "quantization", "tensor_parallel_size")
    sub.add_argument("--yes", action="store_true", help="use a judge that costs money without a budget")
    _add_retry_flag(sub)
    _add_cluster_flags(sub)


def _add_retry_flag(sub: argparse.ArgumentParser) -> None:
    text = "send all failed requests again, also those that were refused or have been sent again twice"
    sub.add_argument("--retry-failed", action="store_true", help=text)


def _add_cluster_flags(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--cluster", choices=["ray"], help="use the machines of a Ray cluster (docs/cluster.md)")
    add_option_flags(sub, "ClusterOptions")


def _add_answer_file_flags(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--outputs", metavar="FILE", help="the candidate's answers, if the annotations lack them")
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, if the annotations lack them")


def _add_length_control_flags(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--instruction-difficulty",
        metavar="FILE",
        help="AlpacaEval's instruction difficulties, for its length-controlled win rate",
    )
    sub.add_argument(
        "--difficulty-prompts",
        metavar="FILE",
        help="the prompts in the order of that file, if it identifies them only by position",
    )
