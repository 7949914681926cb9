"""The verbs that tell results: report, compare, sample, export, import."""

from __future__ import annotations

import argparse
from pathlib import Path

from instruct.base.errors import GateError, InputError, counted
from instruct.base.output import Result
from instruct.command.call import (
    named_comparisons,
    named_difficulty,
    named_run,
    reported,
    short,
    shown,
)


def report(arguments: argparse.Namespace) -> Result:
    from instruct.phases.report import print_report, print_written
    from instruct.reporting.gate import check_gate, check_threshold
    from instruct.reporting.human_labels import keep_labels

    difficulty = named_difficulty(arguments)
    if arguments.fail_under is None:
        for flag in ("metric", "judge", "candidate"):
            if getattr(arguments, flag):
                raise InputError(f"--{flag} requires --fail-under; add it or drop --{flag}")
    else:
        check_threshold(arguments.fail_under)  # before the work
    if arguments.annotations is None:
        if arguments.output or arguments.reference or arguments.outputs:
            raise InputError("--output, --outputs and --reference require --annotations; add it or drop them")
        evaluated = arguments.run and (Path(arguments.run) / "metrics.json").is_file()
        run = named_run(arguments.run, "metrics.json" if evaluated else "judgments.sqlite")
        if arguments.human:
            keep_labels(run, arguments.human)
        built = print_report(run.folder, difficulty)
    else:
        from instruct.judging.interchange.exchange import importing
        from instruct.reporting.report import write_report

        if arguments.run or not arguments.output:
            raise InputError("--annotations requires --output DIR, the run directory to create, and takes no RUN")
        answers = {"outputs": arguments.outputs, "reference": arguments.reference}
        with importing(arguments.annotations, arguments.output, **answers) as run:  # a new run has its report, too
            if arguments.human:
                keep_labels(run, arguments.human)
            built = write_report(run.folder, difficulty).report
        print_written(built, Path(arguments.output))
    if arguments.fail_under is None:
        return reported(built)
    names = {"judge": arguments.judge, "candidate": arguments.candidate}
    try:
        passed = check_gate(built, arguments.fail_under, arguments.metric or "win_rate", **names)
    except GateError as error:
        return reported(built, error)
    return Result(built, "\n".join([*short(built), passed]), passed)


def compare(arguments: argparse.Namespace) -> Result:
    from instruct.reporting.compare_runs import check_ending, compare_runs, render_table, write_comparison

    for path in arguments.output or ():
        check_ending(path)  # before the work
    found = compare_runs(arguments.runs)
    for path in arguments.output or ():
        write_comparison(found, path)
    written = "".join(f"written: {path}\n" for path in arguments.output or ())
    return Result(found.content(), render_table(found), render_table(found) + written)


def sample(arguments: argparse.Namespace) -> Result:
    from instruct.reporting.labeling_form import write_form

    run = named_run(arguments.run, "outputs/*.json")
    comparisons = named_comparisons(run, arguments)
    if len(comparisons) > 1:
        names = ", ".join(" against ".join(each) for each in comparisons)
        raise InputError(f"{run.folder}: has several comparisons ({names}); choose with --candidate and --baseline")
    path = Path(arguments.output or run.folder / "label.html")
    drawn = write_form(run, *comparisons[0], arguments.n, path, arguments.seed)
    after = f"open it in a browser, export, then\ninstruct report {run.folder} --human FILE"
    return Result({"form": path, "pairs": drawn}, str(path), f"{path}: {counted(drawn, 'pair')} to label; {after}")


def export_verdicts(arguments: argparse.Namespace) -> Result:
    from instruct.judging.interchange.exchange import export_from_run
    from instruct.judging.interchange.json_lines import export_jsonl
    from instruct.judging.store import JudgmentStore

    run = named_run(arguments.run, "judgments.sqlite")
    if arguments.format == "jsonl":
        if arguments.candidate or arguments.baseline:
            raise InputError("--format jsonl exports every comparison; drop --candidate and --baseline")
        with JudgmentStore(run.store) as store:
            count = export_jsonl(store, arguments.output, arguments.judge)
    else:
        pair = {"candidate": arguments.candidate, "baseline": arguments.baseline}
        count = export_from_run(run, arguments.judge, arguments.output, **pair)
    return shown({"file": arguments.output, "verdicts": count}, f"{arguments.output}: {counted(count, 'verdict')}")


def import_verdicts(arguments: argparse.Namespace) -> Result:
    from instruct.judging.interchange.exchange import import_into_run

    names = {name: getattr(arguments, name) for name in ("judge", "candidate", "baseline", "outputs", "reference")}
    run = import_into_run(arguments.file, arguments.output, **names)
    after = f"{run.folder}: imported; write its report with `instruct report {run.folder}`"
    return Result({"run": run.folder}, str(run.folder), after)
