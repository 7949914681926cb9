"""The verbs that tell results: report, compare, power."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import GateError, InputError, counted
from instruct.base.output import Result, say
from instruct.command import call, flags

if TYPE_CHECKING:
    from instruct.logs.source import Columns


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    _add_report(verb)
    _add_compare_and_power(verb)


def _add_report(verb: flags.AddVerb) -> None:
    sub = verb(
        report,
        "write the report of a run, or of verdicts made elsewhere",
        "The run's report/exports has the claims for other tools: claims.csv, and leaderboard-*.csv for AlpacaEval.",
    )
    flags.run_argument(sub, "verdicts")
    text = "verdicts of AlpacaEval, Arena-Hard or MT-Bench"
    sub.add_argument("--annotations", metavar="FILE", help=text)
    text = "the run to create for --annotations"
    sub.add_argument("--output", metavar="DIR", help=text)
    text = "write the verdicts of --judge as AlpacaEval's annotations.json"
    sub.add_argument("--export", metavar="FILE", help=text)
    sub.add_argument("--outputs", metavar="FILE", help="the candidate's answers, if --annotations lacks them")
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, if the annotations lack them")
    flags.add_answer_form_flags(sub)
    text = "a column with one value for rows that depend on each other (default: `cluster`, else the prompt)"
    sub.add_argument("--cluster-column", metavar="NAME", help=text)
    text = "AlpacaEval's instruction difficulties, for its length-controlled win rate"
    sub.add_argument("--instruction-difficulty", metavar="FILE", help=text)
    text = "the prompts in the order of that file, if it has none"
    sub.add_argument("--difficulty-prompts", metavar="FILE", help=text)
    sub.add_argument(
        "--human",
        metavar="FILE",
        help="people's labels on some pairs: a filled-in sample of `instruct validate`; kept in the run",
    )
    sub.add_argument("--fail-under", type=float, metavar="X", help="exit 4 if a win rate is below X percent")
    sub.add_argument(
        "--metric",
        choices=["win_rate", "win_rate_low"],
        help="for --fail-under: the win rate (default), or its interval's lower end with missing verdicts lost; from "
        "50 on, that also takes a claim",
    )
    sub.add_argument("--allow-weak-judge", action="store_true", help="for --fail-under: take a weak judge, too")
    for flag, use, field in (
        ("judge", "for --fail-under and --export: only this judge", "annotator"),
        ("candidate", "for --fail-under and --export: only this system", "generator_2"),
        ("baseline", "for --export: the system that it was compared with", "generator_1"),
    ):
        text = f"{use}; for --annotations: its name (default: {field})"
        sub.add_argument(f"--{flag}", metavar="NAME", help=text)


def _add_compare_and_power(verb: flags.AddVerb) -> None:
    sub = verb(
        compare,
        "compare systems on logs of evaluations, of other tools or of runs: paired, unit by unit",
        "Logs are those of lm-eval, Inspect, AlpacaEval and others (docs/compare_logs.md): files, or folders that are "
        "searched. Of run directories, their judges' verdicts and their tasks are compared; of a bench alone, all "
        "that it measured.",
    )
    text = "logs or run directories, NAME=PATH to name the system; the first is the baseline"
    sub.add_argument("paths", nargs="+", metavar="PATH", help=text)
    text = "write to FILE.html, FILE.md, FILE.csv or FILE.json; repeatable"
    sub.add_argument("--output", action="append", metavar="FILE", help=text)
    logs = sub.add_argument_group("what is compared")
    logs.add_argument(
        "--baseline", metavar="NAME", help="the system that others are compared with (default: the first)"
    )
    text = "a metric to compare, the main one first; repeatable (default: all, the main one being the tool's first)"
    logs.add_argument("--metric", action="append", metavar="NAME", help=text)
    _add_log_flags(logs)
    logs.add_argument("--pairs", action="store_true", help="compare every two systems, with ranks")
    _add_column_flags(sub)
    shown = sub.add_argument_group("what is printed")
    text = "exit 4 if a difference of a main metric is below X points"
    shown.add_argument("--fail-under", type=float, metavar="X", help=text)

    sub = verb(power, "plan a comparison: how many units, samples or seeds detect a difference, from a pilot's logs")
    text = "logs or run directories as for compare, of one system, or of several: each is planned for beside the first"
    sub.add_argument("--from", dest="paths", nargs="+", required=True, metavar="PATH", help=text)
    text = "the true difference to detect, in points where the metric is from 0 to 1"
    sub.add_argument("--difference", type=float, required=True, metavar="X", help=text)
    sub.add_argument("--metric", metavar="NAME", help="the metric (default: the main one of each task)")
    sub.add_argument(
        "--claims", type=int, default=1, metavar="N", help="how many claims are made together (default: 1)"
    )
    _add_log_flags(sub)
    _add_column_flags(sub)


def _add_log_flags(sub: argparse._ActionsContainer) -> None:
    """How logs of several trainings, and with other prompts, are read."""
    text = "logs whose paths differ only in the group `seed` of this pattern are trainings of one system"
    sub.add_argument("--seeds", metavar="REGEX", help=text)
    text = "a setting in which the prompts may differ (template, shots, ...), or `prompt` for any; repeatable"
    sub.add_argument("--allow", action="append", default=[], metavar="NAME", help=text)


def _add_column_flags(sub: argparse.ArgumentParser) -> None:
    """How tables are read that no tool wrote."""
    tables = sub.add_argument_group("tables that no tool wrote (CSV, JSON lines, Parquet)")
    for flag, text in (
        ("unit", "that identifies a unit; --metric names those with values"),
        ("cluster", "with the same value in units that depend on each other"),
        ("system", "with the system's name (default: from the path)"),
        ("task", "with the task's name (default: one task, `table`)"),
        ("epoch", "that numbers the repeats of a unit"),
    ):
        tables.add_argument(f"--{flag}-column", metavar="NAME", help=f"the column {text}")


def report(arguments: argparse.Namespace) -> Result:
    from instruct.judging.interchange.exchange import export_from_run, importing
    from instruct.reporting.gate import check_gate, check_threshold
    from instruct.reporting.human_labels import keep_labels
    from instruct.reporting.report import print_written, written_report
    from instruct.run.directory import RunDirectory

    difficulty = call.named_difficulty(arguments)
    if arguments.fail_under is None:
        call.refuse_without("--fail-under", arguments, "metric", "allow_weak_judge")
    else:
        check_threshold(arguments.fail_under)  # before the work
    if arguments.export and not arguments.judge:
        raise InputError("--export requires --judge, whose verdicts are written; add it")
    names = {key: getattr(arguments, key) for key in ("judge", "candidate", "baseline")}
    if not (arguments.annotations or arguments.export):
        call.refuse_without("--annotations or --export", arguments, "baseline")
        if arguments.fail_under is None:
            call.refuse_without("--fail-under, --export or --annotations", arguments, *names)
    if arguments.annotations is None:
        call.refuse_without("--annotations", arguments, "output", "outputs", "reference", *call.FORM)
        evaluated = arguments.run and (Path(arguments.run) / "metrics.json").is_file() and not arguments.export
        run = call.named_run(arguments.run, "metrics.json" if evaluated else "judgments.sqlite")
        if arguments.human:
            keep_labels(run, arguments.human)
        folder, built = run.folder, written_report(run.folder, difficulty)
    else:
        if arguments.run or not arguments.output:
            raise InputError("--annotations requires --output DIR, the run directory to create, and takes no RUN")
        form = call.named_verdicts_form(arguments)
        given = names | {"outputs": arguments.outputs, "reference": arguments.reference, "form": form}
        with importing(arguments.annotations, arguments.output, **given) as run:  # a new run has its report, too
            if arguments.human:
                keep_labels(run, arguments.human)
            built = written_report(run.folder, difficulty)
        folder = Path(arguments.output)
    if arguments.export:
        count = export_from_run(RunDirectory(folder), path=arguments.export, **names)
        say(f"{arguments.export}: {counted(count, 'verdict')}")
    print_written(built, folder)
    if arguments.fail_under is None:
        return call.reported(built)
    selected = {key: getattr(arguments, key) for key in ("judge", "candidate", "allow_weak_judge")}
    try:
        passed = check_gate(built, arguments.fail_under, arguments.metric or "win_rate", **selected)
    except GateError as error:
        return call.reported(built, error)
    return Result(built, "\n".join([*call.short(built), passed]), passed)


# The columns of tables that no tool wrote.
_COLUMNS = ("unit", "cluster", "system", "task", "epoch")


def compare(arguments: argparse.Namespace) -> Result:
    from instruct.base.files import ending_of
    from instruct.reporting.compare_logs import ENDINGS, check_difference_gate, compare_logs
    from instruct.reporting.render.lines import render_terminal

    for path in arguments.output or ():
        ending_of(path, ENDINGS)  # before the work
    compared = compare_logs(
        call.named_paths(arguments.paths),
        baseline=arguments.baseline,
        metrics=arguments.metric or (),
        seeds=arguments.seeds,
        allow=arguments.allow,
        all_pairs=arguments.pairs,
        columns=_named_columns(arguments, arguments.metric or ()),
    )
    for path in arguments.output or ():
        compared.write(path)
    text = render_terminal(compared.document())
    text += "".join(f"written: {path}\n" for path in arguments.output or ())
    short = "\n".join(compared.headlines())
    if arguments.fail_under is None:
        return Result(compared.content(), short, text)
    try:
        passed = check_difference_gate(compared, arguments.fail_under)
    except GateError as error:
        return Result(compared.content(), short, text, error)
    return Result(compared.content(), f"{short}\n{passed}", text + passed)


def _named_columns(arguments: argparse.Namespace, metrics: Sequence[str]) -> Columns:
    """The columns that the call names."""
    from instruct.logs.source import Columns

    return Columns(metric=tuple(metrics), **{name: getattr(arguments, f"{name}_column") for name in _COLUMNS})


def power(arguments: argparse.Namespace) -> Result:
    from instruct.reporting.power import plan_units
    from instruct.reporting.render.lines import render_terminal

    plan = plan_units(
        call.named_paths(arguments.paths),
        arguments.difference,
        metric=arguments.metric,
        seeds=arguments.seeds,
        claims=arguments.claims,
        allow=arguments.allow,
        columns=_named_columns(arguments, [arguments.metric] if arguments.metric else []),
    )
    return call.shown(plan.content(), render_terminal(plan.document()))
