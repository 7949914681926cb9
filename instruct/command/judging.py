"""The verbs that ask judges: judge, validate."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from instruct.base.errors import InputError, counted
from instruct.base.output import Result, say
from instruct.command import call, flags

if TYPE_CHECKING:
    from instruct.engines.cluster import ClusterOptions
    from instruct.judging.asking import Judge
    from instruct.judging.options import JudgeOptions
    from instruct.run.directory import RunDirectory


# The flags of judge that belong to files of answers.
_OF_FILES = ("files", "common_prompts", "prompt_column", "response_column", "questions")


def add_verbs(verb: flags.AddVerb) -> None:
    """The verbs of this file, with their flags."""
    sub = verb(judge, "compare answers with a judge and write the report")
    flags.run_argument(sub, "answers", ", or two files of answers, the baseline's first")
    sub.add_argument("file", nargs="?", metavar="FILE", help=argparse.SUPPRESS)
    text = "a judge, or J=URL; repeatable (default: those of the config; with --judge-model: pairwise)"
    sub.add_argument("--judge", action="append", metavar="J", help=text)
    flags.add_pair_flags(sub)
    sub.add_argument(
        "--files",
        nargs="+",
        metavar="FILE",
        help="files of answers, each compared with --baseline FILE, else with each other",
    )
    sub.add_argument(
        "--output",
        metavar="DIR",
        help="the run to create from files of answers (default: runs/CANDIDATE_vs_BASELINE)",
    )
    text = "compare on the prompts that all files have"
    sub.add_argument("--common-prompts", action="store_true", help=text)
    flags.add_answer_form_flags(sub)
    flags.add_option_flags(sub, "JudgeOptions", "orders")
    _add_request_flags(sub)

    sub = verb(validate, "test a judge against human labels, or against the verdicts of another judge")
    text = "a judge: see `instruct list judges`; not needed with --replay (default with --judge-model: pairwise)"
    sub.add_argument("--judge", metavar="J", help=text)
    sub.add_argument(
        "--against",
        required=True,
        nargs="+",
        metavar="SET",
        help="pandalm, autoj, a file of labeled pairs, a run with labels, or one or several models' annotations.json",
    )
    sub.add_argument("--reference", metavar="FILE", help="the baseline's answers, if the annotations lack them")
    sub.add_argument("--replay", nargs="+", metavar="FILE", help="score these verdicts; send no requests")
    sub.add_argument("--replay-swapped", metavar="FILE", help="the verdicts with the second answer shown first")
    sub.add_argument("--limit", type=int, metavar="N", help="use only the first N pairs")
    sub.add_argument("--output", metavar="PATH", help="the folder of the files (default: runs/validate-JUDGE-SET)")
    text = "of a run: write N pairs drawn at random to a CSV (--output, default: RUN/sample.csv) for people to label"
    sub.add_argument("--sample", type=int, metavar="N", help=text)
    flags.add_pair_flags(sub)
    sub.add_argument("--write-card", action="store_true", help="write the agreement into the judge's card")
    _add_request_flags(sub)


def _add_request_flags(sub: argparse.ArgumentParser) -> None:
    text = f"{flags.option_help('JudgeOptions', 'base_url')}; repeatable: servers of one model, asked in turn"
    sub.add_argument("--base-url", action="append", metavar="URL", help=text)
    flags.add_option_flags(sub, "JudgeOptions", "model", model="judge_model")
    flags.add_option_flags(sub, "JudgeOptions", "engine", "criteria", "trim", "budget_usd")
    sub.add_argument("--yes", action="store_true", help="use a judge that costs money without a budget")
    flags.add_retry_flag(sub)
    flags.add_cluster_flag(sub)


def judge(arguments: argparse.Namespace) -> Result:
    from instruct.judging.asking import Judge
    from instruct.judging.options import GENERAL_JUDGE
    from instruct.phases.judge import judge_and_report
    from instruct.reporting.report import print_written

    if arguments.file:
        if arguments.candidate or arguments.baseline or arguments.files:
            raise InputError(
                "two files are the baseline's and the candidate's answers; drop --candidate, --baseline, --files"
            )
        arguments.run, arguments.baseline, arguments.candidate = None, arguments.run, arguments.file
    arguments.output = arguments.output or _output_of_files(arguments)
    if arguments.file and not arguments.output:
        raise InputError(
            f"{arguments.baseline}, {arguments.file}: are not two files of answers; give these, or one run"
        )
    arguments.judge = arguments.judge or ([GENERAL_JUDGE] if arguments.model else [])
    named = _named_judges(arguments.judge)
    if arguments.model and len(named) > 1:
        raise InputError("--judge-model takes a single --judge; judge once for each model")
    judges = []
    for name, addresses in named.items():  # a wrong name is reported first
        options = _judge_options(name, arguments, addresses)
        judges.append(Judge(options, where=_judges_cluster(arguments)))
        if arguments.run is None and not arguments.output and judges[-1].costs_money:
            raise InputError(f"judge {judges[-1].card.name} costs money; name the run to judge explicitly")
    if arguments.output:
        run, comparisons = _run_of_files(arguments, judges)
    else:
        needed = "--output DIR, the run to create from files of answers"
        call.refuse_without(needed, arguments, *_OF_FILES)
        run = call.named_run(arguments.run, "outputs/*.json")
        comparisons = call.named_comparisons(run, arguments)
    judges = judges or [
        Judge(options, where=_judges_cluster(arguments, run)) for options in _configured_judges(run, arguments)
    ]
    report, failure = judge_and_report(run, judges, comparisons, call.named_mode(arguments))
    print_written(report, run.folder)
    return call.reported(report, failure)


def _output_of_files(arguments: argparse.Namespace) -> str | None:
    """The run that compares two files of answers, in a call that names none."""
    from instruct.data.evaluation import answers_name

    files = [Path(name) for name in (arguments.candidate, arguments.baseline) if name]
    if arguments.run or len(files) < 2 or not all(file.suffix and file.is_file() for file in files):
        return None
    output = f"runs/{'_vs_'.join(map(answers_name, files))}"
    say(f"run: {output}")
    return output


def _named_judges(values: Iterable[str]) -> dict[str, list[str]]:
    """The judges of `--judge J` and `--judge J=URL`, each with the addresses that were given with its name."""
    judges: dict[str, list[str]] = {}
    for value in values:
        name, _, address = value.partition("=") if "://" in value else (value, "", "")
        judges.setdefault(name, []).extend(filter(None, [address]))
    return judges


def _run_of_files(arguments: argparse.Namespace, judges: list[Judge]) -> tuple[RunDirectory, list[tuple[str, str]]]:
    """A run with the files of answers that the call names, and the pairs to compare."""
    from instruct.judging.answer_files import run_of_answers

    one, several, baseline = arguments.candidate, arguments.files, arguments.baseline
    files = [*([one] if one else several or []), *([baseline] if baseline else [])]
    whole = bool(one) != bool(several) and (baseline or several) and all(Path(file).suffix for file in files)
    if arguments.run or not arguments.judge or not whole:
        raise InputError(
            "--output creates a run from files of answers: it takes --judge or --judge-model, --candidate FILE.json "
            "--baseline FILE.json, or --files FILE.json … (with or without --baseline FILE.json), and no RUN"
        )
    candidates = [file for file in ([one] if one else several) if one or not baseline or Path(file) != Path(baseline)]
    if len(candidates) + bool(baseline) < 2:
        raise InputError("--files: one file has nothing to be compared with; name another, or --baseline FILE")
    for judge in judges:
        judge.check()  # one that is not available leaves no run behind
    form = call.named_form(arguments)
    return run_of_answers(arguments.output, candidates, baseline, form, arguments.common_prompts)


def _configured_judges(run: RunDirectory, arguments: argparse.Namespace) -> list[JudgeOptions]:
    """The judges of the run's config, for a call that names none."""
    _refuse_judge_flags(arguments, advice="without it the config's judges are asked")
    remedy = "--judge, --base-url and --budget-usd"
    judges = call.run_config(run, [], ["judges"], remedy).judges
    if not judges:
        raise InputError(
            f"{run.folder / 'config.yaml'}: has no judges; give --judge (see `instruct list judges`), or --judge-model"
        )
    return judges


def _refuse_judge_flags(arguments: argparse.Namespace, *further: str, advice: str) -> None:
    """Refuse the flags of a judge, and `further` ones, in a call that names no judge."""
    options = _judge_options("none", arguments)  # refuses a wrong value first
    fields = options.model_fields_set - {"card", "replicas"}
    names = sorted(fields, key=[*type(options).model_fields].index)
    names += [name for name in further if getattr(arguments, name)]
    if names:
        raise InputError(f"`{names[0]}` requires --judge or --judge-model; {advice}")


def validate(arguments: argparse.Namespace) -> Result:
    from instruct.judging.options import GENERAL_JUDGE
    from instruct.validation.validate import validate as validate_judge

    if arguments.sample is not None:
        return _draw_sample(arguments)
    call.refuse_without("--sample", arguments, "candidate", "baseline")
    if arguments.model and not arguments.replay:
        arguments.judge = arguments.judge or GENERAL_JUDGE
    if not arguments.judge:
        _refuse_judge_flags(arguments, "yes", "retry_failed", "cluster", advice="without it nothing is asked")
    ((name, addresses),) = _named_judges([arguments.judge or ""]).items()
    return validate_judge(
        _judge_options(name, arguments, addresses, orders="both") if name else None,
        arguments.against,
        reference=arguments.reference,
        replay=arguments.replay,
        replay_swapped=arguments.replay_swapped,
        limit=arguments.limit,
        output=arguments.output,
        write_card=arguments.write_card,
        mode=call.named_mode(arguments),
        where=_judges_cluster(arguments) if arguments.judge else None,
    )


def _draw_sample(arguments: argparse.Namespace) -> Result:
    """Pairs of a run for people to label."""
    from instruct.reporting.human_labels import write_sample

    if arguments.judge or arguments.replay or len(arguments.against) > 1:
        raise InputError("--sample takes --against RUN alone, whose pairs people will label; no judge is asked")
    run = call.named_run(arguments.against[0], "outputs/*.json")
    comparisons = call.named_comparisons(run, arguments)
    if len(comparisons) > 1:
        names = ", ".join(" against ".join(pair) for pair in comparisons)
        raise InputError(f"{run.folder}: has several comparisons ({names}); choose with --candidate and --baseline")
    path = Path(arguments.output or run.folder / "sample.csv")
    drawn = write_sample(run, *comparisons[0], arguments.sample, path)
    after = f"write 1, 2 or tie into the column label, then\ninstruct report {run.folder} --human {path}"
    return Result({"sample": path, "pairs": drawn}, str(path), f"{path}: {counted(drawn, 'pair')} to label; {after}")


def _judge_options(
    name: str, arguments: argparse.Namespace, addresses: Sequence[str] = (), **fixed: str
) -> JudgeOptions:
    """The options of a judge that the call's flags set; its own addresses come before those of `--base-url`."""
    from instruct.base.cards import validated
    from instruct.judging.options import JudgeOptions

    values = flags.options_given(arguments, "JudgeOptions") | fixed
    if addresses := addresses or values.get("base_url") or ():
        values |= {"base_url": addresses[0], "replicas": addresses[1:]}
    return validated(JudgeOptions, {"card": name, **values}, "command line")


def _judges_cluster(arguments: argparse.Namespace, run: RunDirectory | None = None) -> ClusterOptions | None:
    """Where local judges run: on the cluster of this machine if the call says so, else on that of the run's config."""
    from instruct.engines.cluster import ClusterOptions

    if arguments.cluster is None:
        return call.run_config(run, [], ["cluster"], "--cluster ray").cluster if run else None
    if arguments.base_url:
        raise InputError("--cluster loads the judge's model, --base-url asks a server that has it; drop one of the two")
    return ClusterOptions()
