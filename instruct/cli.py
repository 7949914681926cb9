"""The `instruct` command: one short function a verb; it parses, calls the library, prints."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.errors import InputError, InstructError, one_line

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig

SECTIONS = ("needs_gpu", "data", "lora", "train", "systems", "answers", "judges", "comparisons")
# Here again, since emo_config.py takes TRL's seconds to import; a test holds the two to each other.
OBJECTIVES = ("mle", "emo", "mixce", "tailr", "dft", "goldfish", "ent")
OVERRIDES = "Any key of the config is a flag: --train.learning_rate 1e-4, --data.files my.jsonl, --lora.r 32."


def run_guarded(work: Callable[[], None]) -> int:
    """Run `work`; an error that the user can act on becomes one line on stderr and its exit code.

    Returns:
        The process's exit code: 0 done, 1 the work failed, 2 the call was wrong, 130 interrupted.
    """
    # Nobody asked for telemetry, and libraries' chatter hides the lines that matter.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if os.environ.get("RANK", "0") != "0":  # beside others that train the same: the main process speaks
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        work()
    except InstructError as error:
        print(f"instruct: {one_line(error, 1000)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("instruct: interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def split_overrides(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """`argv` without the flags that override the config, and those flags with their values.

    A dot tells them (`--train.max_steps 40`), or a section's name (`--lora null`). argparse alone would take the value
    of a flag that it does not know for a positional argument.
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


def name_override(name: str) -> list[str]:
    """The flag that names the run; quoted, for a value is YAML and a name is text."""
    return ["--name", json.dumps(name)]


def _config(arguments: argparse.Namespace, overrides: list[str]) -> ExperimentConfig:
    """The config file, or none of it, under the call's flags."""
    from instruct.config import load_config, make_config

    flags = list(overrides)
    if arguments.model:
        flags += ["--model.name", arguments.model]
    if arguments.objective:
        flags += ["--systems", f"{{{arguments.objective}: {{objective: {arguments.objective}}}}}"]
    if arguments.name:
        flags += name_override(arguments.name)
    if arguments.config:
        return load_config(arguments.config, flags)
    return make_config({"name": "train"}, flags, "command line")


def print_report(folder: Path) -> None:
    """Write a run's report; print its first lines and where it is."""
    from instruct.reporting.report import build_report, write_report
    from instruct.reporting.terminal import render_summary

    built = build_report(folder)
    path = write_report(folder, built)
    print(render_summary(built))
    print(f"report: {path}")


def preview(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.preview import print_preview

    print_preview(_config(arguments, overrides), shown=arguments.rows)


def train(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.experiment import open_run, run_folder
    from instruct.plan import check_training
    from instruct.training.train import train_system

    config = _config(arguments, overrides)
    check_training(config, run_folder(config))
    run = open_run(config)
    for name in config.systems:
        train_system(config, name, run)
        print(f"{name}: {run.adapters / name}")


def generate(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.experiment import answer_prompts

    run = _run(arguments.run, "adapters/*/*.safetensors")
    config = _run_config(run, overrides)
    answer_prompts(config, run)
    for name in config.systems:
        print(f"{name}: {run.outputs / name}.json")


def judge(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.config import JudgeSection
    from instruct.experiment import judge_answers
    from instruct.judging.cards import load_judge_card
    from instruct.judging.engines import check_available

    _no_overrides(overrides)
    check_available(load_judge_card(arguments.judge), arguments.base_url)
    run = _run(arguments.run, "outputs/*.json")
    if (arguments.candidate is None) != (arguments.baseline is None):
        raise InputError("--candidate and --baseline go together; give both, or none to take the run's comparisons")
    comparisons = (
        [(arguments.candidate, arguments.baseline)] if arguments.candidate else _run_config(run, []).comparisons
    )
    if not comparisons:
        raise InputError(f"{run.folder / 'config.yaml'}: no comparisons; give --candidate and --baseline")
    judge_answers(
        run, JudgeSection(card=arguments.judge, base_url=arguments.base_url, orders=arguments.orders), comparisons
    )
    print_report(run.folder)


def report(arguments: argparse.Namespace, overrides: list[str]) -> None:
    _no_overrides(overrides)
    print_report(_run(arguments.run, "judgments.sqlite").folder)


def merge(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.training.merge import merge_adapter

    _no_overrides(overrides)
    run = _run(arguments.run, "adapters/*/adapter_config.json")
    for folder in merge_adapter(_run_config(run, []), run, arguments.system):
        print(f"merged: {folder}")


def list_cards_or_runs(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.listing import print_listing

    _no_overrides(overrides)
    print_listing(arguments.what)


def _run(path: str | None, needs: str):  # type: ignore[no-untyped-def]
    from instruct.runs import RunDirectory, newest_run

    if path is None:
        run = newest_run(needs)
        print(f"run: {run.folder} (the newest)")
        return run
    run = RunDirectory(path)
    run.manifest()
    if not any(run.folder.glob(needs)):
        raise InputError(f"{run.folder}: holds no {needs}; run the phase before this one first")
    return run


def _run_config(run, overrides: list[str]) -> ExperimentConfig:  # type: ignore[no-untyped-def]
    from instruct.config import make_config

    return make_config(run.config(), overrides, run.folder / "config.yaml")


def _no_overrides(overrides: list[str]) -> None:
    if overrides:
        raise InputError(f"unexpected argument {one_line(overrides[0], 80)!r}; see --help")


def make_parser() -> argparse.ArgumentParser:
    """The command's parser; every verb carries its function."""
    parser = argparse.ArgumentParser(
        prog="instruct",
        description="Instruction-tune a model with an objective beyond cross-entropy, and find out if it got better.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

    def verb(
        name: str, function: Callable[[argparse.Namespace, list[str]], None], text: str
    ) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(function=function)
        return sub

    for name, function, text in [
        ("preview", preview, "show what would be trained on: rows, the mask, lengths, memory, one step"),
        ("train", train, "train every system of a config (or one, by flags alone)"),
    ]:
        sub = verb(name, function, text)
        sub.epilog = OVERRIDES
        sub.add_argument("config", nargs="?", metavar="CONFIG", help="a YAML file, or the name of a packaged config")
        sub.add_argument("--model", metavar="M", help="the base model: a hub id or a local folder")
        sub.add_argument("--objective", choices=OBJECTIVES, help="train this one objective")
        sub.add_argument("--name", help="the run's name: results go to runs/NAME")
        if name == "preview":
            sub.add_argument("--rows", type=int, default=3, metavar="N", help="how many rows to show (default 3)")

    sub = verb("generate", generate, "answer the evaluation prompts with every system of a run")
    sub.epilog = OVERRIDES
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with trained systems)")

    sub = verb("judge", judge, "let a judge compare answers, and write the report")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with answers)")
    sub.add_argument("--judge", required=True, metavar="J", help="a judge card: see `instruct list judges`")
    sub.add_argument("--candidate", metavar="A", help="a system of the run, or a model_outputs.json")
    sub.add_argument("--baseline", metavar="B", help="a system of the run, `baseline`, or a model_outputs.json")
    sub.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server (key: OPENAI_API_KEY)")
    sub.add_argument("--orders", choices=["both", "one"], help="how often a pair is shown (default: the card's)")

    sub = verb("report", report, "write the report of a run again")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with verdicts)")

    sub = verb("merge", merge, "fold a run's adapters into their base model")
    sub.add_argument("run", nargs="?", metavar="RUN", help="a run directory (default: the newest with adapters)")
    sub.add_argument("--system", metavar="NAME", help="one system only")

    sub = verb("list", list_cards_or_runs, "list data sets, judges or runs, and where each was found")
    sub.add_argument("what", choices=["data", "judges", "runs"])
    return parser


def main() -> int:
    """The console script's entry."""
    rest, overrides = split_overrides(sys.argv[1:])
    arguments = make_parser().parse_args(rest)

    def work() -> None:
        if arguments.function is not train and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("only training takes several processes; call this verb without `accelerate launch`")
        arguments.function(arguments, overrides)

    return run_guarded(work)


if __name__ == "__main__":
    sys.exit(main())
