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

from instruct.arguments import make_parser
from instruct.errors import InputError, InstructError, StoppedError, one_line

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.judging.options import JudgeOptions
    from instruct.reporting.report import Difficulty
    from instruct.reporting.schema import Report

SECTIONS = ("needs_gpu", "data", "lora", "train", "systems", "answers", "judges", "comparisons")


def run_guarded(work: Callable[[], None]) -> int:
    """Run `work`; an error that the user can act on becomes one line on stderr and its exit code.

    Returns:
        The process's exit code: 0 done, 1 the work failed, 2 the call was wrong, 3 a budget or failures stopped it,
        4 a report is below `--fail-under`, 130 interrupted.
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


def print_report(folder: Path, difficulty: Difficulty | None = None) -> Report:
    """Write a run's report; print its first lines and where it is."""
    from instruct.reporting.render.terminal import render_summary
    from instruct.reporting.report import build_report, write_report

    built = build_report(folder, difficulty)
    path = write_report(folder, built)
    print(render_summary(built))
    print(f"report: {path}")
    print(f"page: {path.with_suffix('.html')}")
    return built


def _difficulty(arguments: argparse.Namespace) -> Difficulty | None:
    from instruct.reporting.report import Difficulty

    if arguments.instruction_difficulty is None:
        if arguments.difficulty_prompts:
            raise InputError("--difficulty-prompts goes with --instruction-difficulty; give both, or neither")
        return None
    return Difficulty(arguments.instruction_difficulty, arguments.difficulty_prompts)


def preview(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.training.preview import print_preview

    print_preview(_config(arguments, overrides), shown=arguments.rows)


def train(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.experiment import open_run, run_folder
    from instruct.preflight import check_training
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
    from instruct.judging.asking import costs_money
    from instruct.judging.cards import load_judge_card
    from instruct.judging.comparisons import judge_answers

    _no_overrides(overrides)
    difficulty = _difficulty(arguments)
    if arguments.judge_model and len(arguments.judge) > 1:
        raise InputError("--judge-model goes with one --judge; judge once for each model")
    for name in arguments.judge:  # a wrong name is told before anything else is looked for
        card = load_judge_card(name, arguments.judge_model)
        if arguments.run is None and costs_money(card, arguments.base_url, arguments.engine):
            raise InputError(f"judge {card.name} costs money: name the run that it is to judge")
    run = _run(arguments.run, "outputs/*.json")
    if (arguments.candidate is None) != (arguments.baseline is None):
        raise InputError("--candidate and --baseline go together; give both, or none to take the run's comparisons")
    comparisons = (
        [(arguments.candidate, arguments.baseline)] if arguments.candidate else _run_config(run, []).comparisons
    )
    if not comparisons:
        raise InputError(f"{run.folder / 'config.yaml'}: no comparisons; give --candidate and --baseline")
    stopped: StoppedError | None = None
    for name in dict.fromkeys(arguments.judge):
        section = _judge_section(name, arguments, orders=arguments.orders)
        try:
            judge_answers(
                run,
                section,
                comparisons,
                yes=arguments.yes,
                retry_failed=arguments.retry_failed,
                reparse=arguments.reparse,
                replay=Path(arguments.replay) if arguments.replay else None,
            )
        except StoppedError as error:  # what there is is reported, and the other judges are asked
            stopped = error
    print_report(run.folder, difficulty)
    if stopped:
        raise stopped


def validate(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.validation.validate import validate as validate_judge

    _no_overrides(overrides)
    text, stopped = validate_judge(
        _judge_section(arguments.judge, arguments, orders="both"),
        arguments.against,
        replay=arguments.replay,
        replay_swapped=arguments.replay_swapped,
        limit=arguments.limit,
        output=arguments.output,
        write_card=arguments.write_card,
        yes=arguments.yes,
        retry_failed=arguments.retry_failed,
    )
    print(text, end="")
    if stopped:
        raise stopped


def _judge_section(name: str, arguments: argparse.Namespace, orders: str | None) -> JudgeOptions:
    from instruct.cards import validated
    from instruct.judging.options import JudgeOptions

    given = {
        "card": name,
        "model": arguments.judge_model,
        "base_url": arguments.base_url,
        "engine": arguments.engine,
        "concurrency": arguments.concurrency,
        "orders": orders,
        "trim": arguments.trim,
        "budget_usd": arguments.budget_usd,
    }
    return validated(JudgeOptions, given, "command line")


def report(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.reporting.gate import check_gate, check_threshold

    _no_overrides(overrides)
    difficulty = _difficulty(arguments)
    if arguments.fail_under is None:
        for flag in ("metric", "judge", "candidate"):
            if getattr(arguments, flag):
                raise InputError(f"--{flag} goes with --fail-under, which it says more about; give that too")
    else:
        check_threshold(arguments.fail_under)  # before the work
    if arguments.annotations is None:
        if arguments.output or arguments.reference or arguments.outputs:
            raise InputError(
                "--output, --outputs and --reference go with --annotations, a file of verdicts; give that too"
            )
        run = _run(arguments.run, "judgments.sqlite")
    else:
        from instruct.judging.interchange.exchange import import_into_run

        if arguments.run or not arguments.output:
            raise InputError("--annotations takes no RUN but --output DIR, the run directory that is made of the file")
        answers = {"outputs": arguments.outputs, "reference": arguments.reference}
        run = import_into_run(arguments.annotations, arguments.output, **answers)
    built = print_report(run.folder, difficulty)
    if arguments.fail_under is not None:
        names = {"judge": arguments.judge, "candidate": arguments.candidate}
        print(check_gate(built, arguments.fail_under, arguments.metric or "win_rate", **names))


def compare(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.reporting.compare_runs import check_ending, compare_runs, render_table, write_comparison

    _no_overrides(overrides)
    for path in arguments.output or ():
        check_ending(path)  # before the work
    found = compare_runs(arguments.runs)
    for path in arguments.output or ():
        write_comparison(found, path)
    print(render_table(found), end="")
    for path in arguments.output or ():
        print(f"written: {path}")


def export_verdicts(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.judging.interchange.exchange import export_from_run
    from instruct.judging.interchange.json_lines import export_jsonl
    from instruct.judging.store import JudgmentStore

    _no_overrides(overrides)
    run = _run(arguments.run, "judgments.sqlite")
    if arguments.format == "jsonl":
        if arguments.candidate or arguments.baseline:
            raise InputError("--format jsonl writes every comparison; leave --candidate and --baseline out")
        with JudgmentStore(run.store) as store:
            count = export_jsonl(store, arguments.output, arguments.judge)
    else:
        pair = {"candidate": arguments.candidate, "baseline": arguments.baseline}
        count = export_from_run(run, arguments.judge, arguments.output, **pair)
    print(f"{arguments.output}: {count} verdicts")


def import_verdicts(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.judging.interchange.exchange import import_into_run

    _no_overrides(overrides)
    names = {name: getattr(arguments, name) for name in ("judge", "candidate", "baseline", "outputs", "reference")}
    run = import_into_run(arguments.file, arguments.output, **names)
    print(f"{run.folder}: imported; `instruct report {run.folder}` reports on it")


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


def doctor(arguments: argparse.Namespace, overrides: list[str]) -> None:
    from instruct.doctor import run_doctor

    _no_overrides(overrides)
    run_doctor()


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


VERBS: dict[str, Callable[[argparse.Namespace, list[str]], None]] = {
    "preview": preview,
    "train": train,
    "generate": generate,
    "judge": judge,
    "validate": validate,
    "report": report,
    "compare": compare,
    "export": export_verdicts,
    "import": import_verdicts,
    "merge": merge,
    "list": list_cards_or_runs,
    "doctor": doctor,
}


def main() -> int:
    """The console script's entry."""
    rest, overrides = split_overrides(sys.argv[1:])
    arguments = make_parser().parse_args(rest)

    def work() -> None:
        if arguments.verb != "train" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError("only training takes several processes; call this verb without `accelerate launch`")
        VERBS[arguments.verb](arguments, overrides)

    return run_guarded(work)


if __name__ == "__main__":
    sys.exit(main())
