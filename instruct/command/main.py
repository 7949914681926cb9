"""The `instruct` command: one short function per verb, which reads its arguments, calls the library and prints."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import GateError, InputError, InstructError, counted, one_line
from instruct.base.output import Result, run_guarded, say, warn
from instruct.command.arguments import make_parser, name_override, split_overrides
from instruct.command.completion import complete

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.engines.cluster_options import ClusterOptions
    from instruct.judging.asking import Judge
    from instruct.judging.options import JudgeOptions
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.report import Report
    from instruct.run.directory import RunDirectory


def _config(arguments: argparse.Namespace, overrides: list[str]) -> ExperimentConfig:
    """The config file, if one was given, with the flags on top."""
    from instruct.config import load_config, make_config

    flags = list(overrides)
    if arguments.model:
        flags += ["--model.name", arguments.model]
    if arguments.name:
        flags += name_override(arguments.name)
    if arguments.objective:
        if arguments.config:
            flags += _comparisons_left(load_config(arguments.config, flags).comparisons, arguments.objective)
        flags += ["--systems", f"{{{arguments.objective}: {{objective: {arguments.objective}}}}}"]
    if arguments.config:
        return load_config(arguments.config, flags)
    return make_config({"name": "train"}, flags, "command line")


def _comparisons_left(comparisons: list[tuple[str, str]], objective: str) -> list[str]:
    """The override of `comparisons` if the only system is `objective`; says what it leaves out."""
    left = [pair for pair in comparisons if {*pair} <= {objective, "baseline"}]
    if len(left) == len(comparisons):
        return []
    dropped = ", ".join(" against ".join(pair) for pair in comparisons if pair not in left)
    warn(f"note: comparisons left out, because {objective} is the only system: {dropped}")
    return ["--comparisons", json.dumps(left)]


def _cluster_given(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The cluster that the call's flags name."""
    names = ("address", "workers", "gpus_per_worker", "allow_mixed")
    given = {name: getattr(arguments, name) for name in names if getattr(arguments, name) not in (None, False)}
    if arguments.cluster is None:
        for name in given:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(f"{flag} requires --cluster ray; add it or drop {flag}")
        return None
    return given


def _cluster_override(arguments: argparse.Namespace) -> list[str]:
    given = _cluster_given(arguments)
    return [] if given is None else ["--cluster", json.dumps(given)]


def _judges_cluster(arguments: argparse.Namespace, run: RunDirectory | None = None) -> ClusterOptions | None:
    """Where local judges run: on the cluster that the call names, else on that of the run's config."""
    from instruct.base.cards import validated
    from instruct.engines.cluster_options import ClusterOptions

    given = _cluster_given(arguments)
    if given is None:
        return _run_config(run, []).cluster if run else None
    if arguments.base_url:
        raise InputError("--cluster loads the judge's model, --base-url asks a server that has it; drop one of the two")
    return validated(ClusterOptions, given, "command line")


def _difficulty(arguments: argparse.Namespace) -> Difficulty | None:
    from instruct.reporting.length_control import Difficulty

    if arguments.instruction_difficulty is None:
        if arguments.difficulty_prompts:
            raise InputError("--difficulty-prompts requires --instruction-difficulty; give both or neither")
        return None
    return Difficulty(arguments.instruction_difficulty, arguments.difficulty_prompts)


def run(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.experiment import run_experiment, run_folder

    config = _config(arguments, overrides + _cluster_override(arguments))
    report = run_experiment(
        config, arguments.dry_run, arguments.first, arguments.last, retry_failed=arguments.retry_failed
    )
    folder = str(run_folder(config))
    return Result({"run": folder, "report": report}, "\n".join(report.headlines()) if report else folder)


def config(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.command.reference import SCHEMA_PATH, config_keys, render_text

    if arguments.schema:
        return _shown({"schema": str(SCHEMA_PATH)}, str(SCHEMA_PATH))
    if arguments.config or arguments.model or arguments.objective or arguments.name or overrides:
        import yaml

        content = _config(arguments, overrides).model_dump(mode="json")
        return _shown(content, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    return _shown([key._asdict() for key in config_keys()], render_text())


def _shown(data: Any, text: str) -> Result:
    """The result of a verb whose text is its purpose."""
    return Result(data, text, text)


def preview(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.generation.prompts import evaluation_set
    from instruct.training.preview import print_preview

    config = _config(arguments, overrides)
    try:
        evaluated = evaluation_set(config.answers).prompts if config.answers else []
        prompts = [prompt.instruction for prompt in evaluated]
    except InputError as error:  # the rest of the preview does not need them
        say(f"note: overlap with the evaluation prompts not counted: {error}")
        prompts = []
    found = print_preview(config, shown=arguments.rows, prompts=prompts)
    return Result(found, found.step.words())


def train(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.experiment import open_run, run_folder
    from instruct.phases.preflight import check_experiment
    from instruct.phases.train import train_systems
    from instruct.phases.upload import upload
    from instruct.training.train import first_trained

    config = _config(arguments, overrides)
    first_trained(config)  # refuses a config that trains nothing
    data, _ = check_experiment(config, run_folder(config), ["train"])
    assert data
    run = open_run(config)
    train_systems(config, run, data)
    upload(config, run)
    return _files({name: run.adapters / name for name in config.trained})


def _files(found: dict[str, Path]) -> Result:
    """The result of a verb that makes something for each system."""
    return _shown(found, "\n".join(f"{name}: {path}" for name, path in found.items()))


def generate(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.answer import generate as generate_texts

    overrides = overrides + _cluster_override(arguments)
    config, run = _run_of_systems(arguments.run, overrides)
    return _files(generate_texts(config, run))


def evaluate(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.evaluate import evaluate_run, metrics_text

    flags = list(overrides)
    for name, key in (("tasks", "cards"), ("lm_eval", "lm_eval")):
        if given := getattr(arguments, name):
            flags += [f"--evaluation.tasks.{key}", json.dumps(given.split(","))]
    if arguments.export_tasks:
        return _exported_tasks(arguments, flags)
    config, run = _run_of_systems(arguments.run, flags)
    found = evaluate_run(config, run)
    return _shown(found, metrics_text(found, run))


def _exported_tasks(arguments: argparse.Namespace, flags: list[str]) -> Result:
    """Tasks for lm-evaluation-harness; without a run, those of the flags."""
    from instruct.config import make_config
    from instruct.measuring.tasks.answering import load_task
    from instruct.measuring.tasks.harness import export_tasks

    if arguments.run:
        config = _run_config(_run(arguments.run, "config.yaml"), flags)
    else:
        config = make_config({"name": "tasks"}, flags, "command line")
    options = config.evaluation.tasks if config.evaluation else None
    if options is None or not options.cards:
        raise InputError("--export-tasks requires --tasks; name the tasks to write")
    paths = export_tasks([load_task(name, options) for name in options.cards], Path(arguments.export_tasks))
    text = "\n".join(f"{path}: written" for path in paths)
    return Result([str(path) for path in paths], "\n".join(map(str, paths)), text)


def _run_of_systems(named: str | None, flags: list[str]) -> tuple[ExperimentConfig, RunDirectory]:
    """A run whose systems can be asked, and its config; a YAML file that trains nothing starts one."""
    if named and Path(named).suffix in (".yaml", ".yml"):
        from instruct.phases.experiment import open_run

        config = _untrained(named, flags)
        return config, open_run(config)
    run = _run(named, "config.yaml" if named else "adapters/*/*.safetensors")
    return _run_config(run, flags), run


def _untrained(path: str, overrides: list[str]) -> ExperimentConfig:
    """The config of a run that trains nothing: its only system is the base."""
    from instruct.config import load_config

    config = load_config(path, overrides)
    if config.trained:
        raise InputError(
            f"{path}: {', '.join(config.trained)} must be trained first: run instruct train {path}, then instruct "
            f"generate runs/{config.name}"
        )
    return config


def judge(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.judging.asking import Judge
    from instruct.judging.judge import JudgingMode
    from instruct.phases.judge import judge_and_report
    from instruct.phases.report import print_written

    _no_overrides(overrides)
    difficulty = _difficulty(arguments)
    if arguments.judge_model and len(arguments.judge or ()) > 1:
        raise InputError("--judge-model takes a single --judge; judge once for each model")
    judges = []
    for name in dict.fromkeys(arguments.judge or ()):  # a wrong name is reported first
        options = _judge_options(name, arguments, orders=arguments.orders, stop_when=arguments.stop_when)
        judges.append(Judge(options, replay=arguments.replay, cluster=_judges_cluster(arguments)))
        if arguments.run is None and not arguments.output and judges[-1].costs_money:
            raise InputError(f"judge {judges[-1].card.name} costs money; name the run to judge explicitly")
    if arguments.output:
        run = _run_of_files(arguments, judges)
    else:
        run = _run(arguments.run, "outputs/*.json")
    judges = judges or [
        Judge(options, cluster=_judges_cluster(arguments, run)) for options in _configured_judges(run, arguments)
    ]
    comparisons = _comparisons(run, arguments)
    mode = JudgingMode(yes=arguments.yes, retry_failed=arguments.retry_failed, reparse=arguments.reparse)
    report, failure = judge_and_report(run, judges, comparisons, mode, difficulty)
    print_written(report, run.folder)
    return _reported(report, failure)


def _reported(report: Report, failure: InstructError | None = None) -> Result:
    return Result(report, "\n".join(_short(report)), failure=failure)


def _short(report: Report) -> list[str]:
    """Who won, and what changes that claim."""
    return [*report.headlines(), *(f"WARNING: {warning}" for warning in report.warnings())]


def _run_of_files(arguments: argparse.Namespace, judges: list[Judge]) -> RunDirectory:
    """A run with the two files of answers that the call names; the call's flags then name its systems."""
    from instruct.judging.answer_files import run_of_answers

    sides = (arguments.candidate, arguments.baseline)
    if arguments.run or not arguments.judge or not all(side and side.endswith(".json") for side in sides):
        raise InputError(
            "--output creates a run from two files of answers: it takes --judge, --candidate FILE.json and --baseline "
            "FILE.json, and no RUN"
        )
    for judge in judges:
        judge.check()  # one that is not available leaves no run behind
    run, arguments.candidate, arguments.baseline = run_of_answers(arguments.output, *sides)
    return run


def _configured_judges(run: RunDirectory, arguments: argparse.Namespace) -> list[JudgeOptions]:
    """The judges of the run's config, for a call that names none."""
    flags = ("judge_model", "base_url", "engine", "trim", "budget_usd", "orders", "stop_when", "replay")
    for flag in flags:
        if getattr(arguments, flag):
            raise InputError(f"--{flag.replace('_', '-')} requires --judge; without it the config's judges are asked")
    judges = _run_config(run, []).judges
    if not judges:
        raise InputError(f"{run.folder / 'config.yaml'}: has no judges; give --judge (see `instruct list judges`)")
    return judges


def validate(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.validation.validate import validate as validate_judge

    _no_overrides(overrides)
    found = validate_judge(
        _judge_options(arguments.judge, arguments, orders="both") if arguments.judge else None,
        arguments.against,
        reference=arguments.reference,
        replay=arguments.replay,
        replay_swapped=arguments.replay_swapped,
        limit=arguments.limit,
        output=arguments.output,
        write_card=arguments.write_card,
        yes=arguments.yes,
        retry_failed=arguments.retry_failed,
        cluster=_judges_cluster(arguments) if arguments.judge else None,
    )
    return Result(found.content, found.headline, found.text, found.stopped)


def _judge_options(
    name: str, arguments: argparse.Namespace, orders: str | None, stop_when: str | None = None
) -> JudgeOptions:
    from instruct.base.cards import validated
    from instruct.judging.options import JudgeOptions

    given = {
        "card": name,
        "model": arguments.judge_model,
        "base_url": (arguments.base_url or [None])[0],
        "replicas": (arguments.base_url or [])[1:],
        "engine": arguments.engine,
        "concurrency": arguments.concurrency,
        "orders": orders,
        "trim": arguments.trim,
        "budget_usd": arguments.budget_usd,
        "stop_when": stop_when,
    }
    return validated(JudgeOptions, given, "command line")


def report(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.report import print_report, print_written
    from instruct.reporting.gate import check_gate, check_threshold
    from instruct.reporting.human_labels import keep_labels

    _no_overrides(overrides)
    difficulty = _difficulty(arguments)
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
        run = _run(arguments.run, "metrics.json" if evaluated else "judgments.sqlite")
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
        return _reported(built)
    names = {"judge": arguments.judge, "candidate": arguments.candidate}
    try:
        passed = check_gate(built, arguments.fail_under, arguments.metric or "win_rate", **names)
    except GateError as error:
        return _reported(built, error)
    return Result(built, "\n".join([*_short(built), passed]), passed)


def compare(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.reporting.compare_runs import check_ending, compare_runs, render_table, write_comparison

    _no_overrides(overrides)
    for path in arguments.output or ():
        check_ending(path)  # before the work
    found = compare_runs(arguments.runs)
    for path in arguments.output or ():
        write_comparison(found, path)
    written = "".join(f"written: {path}\n" for path in arguments.output or ())
    return Result(found.content(), render_table(found), render_table(found) + written)


def sample(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.reporting.labeling_form import write_form

    _no_overrides(overrides)
    run = _run(arguments.run, "outputs/*.json")
    comparisons = _comparisons(run, arguments)
    if len(comparisons) > 1:
        names = ", ".join(" against ".join(each) for each in comparisons)
        raise InputError(f"{run.folder}: has several comparisons ({names}); choose with --candidate and --baseline")
    path = Path(arguments.output or run.folder / "label.html")
    drawn = write_form(run, *comparisons[0], arguments.n, path, arguments.seed)
    after = f"open it in a browser, export, then\ninstruct report {run.folder} --human FILE"
    return Result({"form": path, "pairs": drawn}, str(path), f"{path}: {counted(drawn, 'pair')} to label; {after}")


def export_verdicts(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.judging.interchange.exchange import export_from_run
    from instruct.judging.interchange.json_lines import export_jsonl
    from instruct.judging.store import JudgmentStore

    _no_overrides(overrides)
    run = _run(arguments.run, "judgments.sqlite")
    if arguments.format == "jsonl":
        if arguments.candidate or arguments.baseline:
            raise InputError("--format jsonl exports every comparison; drop --candidate and --baseline")
        with JudgmentStore(run.store) as store:
            count = export_jsonl(store, arguments.output, arguments.judge)
    else:
        pair = {"candidate": arguments.candidate, "baseline": arguments.baseline}
        count = export_from_run(run, arguments.judge, arguments.output, **pair)
    return _shown({"file": arguments.output, "verdicts": count}, f"{arguments.output}: {counted(count, 'verdict')}")


def import_verdicts(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.judging.interchange.exchange import import_into_run

    _no_overrides(overrides)
    names = {name: getattr(arguments, name) for name in ("judge", "candidate", "baseline", "outputs", "reference")}
    run = import_into_run(arguments.file, arguments.output, **names)
    after = f"{run.folder}: imported; write its report with `instruct report {run.folder}`"
    return Result({"run": run.folder}, str(run.folder), after)


def merge(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.training.merge import merge_adapter

    _no_overrides(overrides)
    run = _run(arguments.run, "adapters/*/adapter_config.json")
    folders = merge_adapter(_run_config(run, []), run, arguments.system)
    return _shown({"merged": folders}, "\n".join(f"merged: {folder}" for folder in folders))


def push(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.phases.upload import check_write_access, push_systems, repositories

    _no_overrides(overrides)
    run = _run(arguments.run, "adapters/*/*.safetensors")
    systems = [arguments.system] if arguments.system else sorted(path.name for path in run.adapters.iterdir())
    default = run.folder.resolve().name
    # A system that was named is uploaded to the repository as it was named.
    names = repositories(arguments.repo_id or (f"{default}-{systems[0]}" if arguments.system else default), systems)
    check_write_access(names.values())
    uploaded = push_systems(run, names, arguments.private or None)
    return _shown({"uploaded": uploaded}, "\n".join(f"uploaded: {repository}" for repository in uploaded))


def list_cards_or_runs(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.command.listing import listed, render_names, render_text

    _no_overrides(overrides)
    found = listed(arguments.what)
    return Result([each.content() for each in found], render_names(found), render_text(found, arguments.what))


def doctor(arguments: argparse.Namespace, overrides: list[str]) -> Result:
    from instruct.command.doctor import failure, run_doctor

    _no_overrides(overrides)
    found = run_doctor()
    broken = failure(found)
    usable = "" if broken else "instruct can be used here"
    return Result([finding._asdict() for finding in found], usable, usable, broken)


def _run(path: str | None, needs: str) -> RunDirectory:
    """The run directory at `path`, else the newest that has `needs` (a glob)."""
    from instruct.run.directory import RunDirectory, newest_run

    if path is None:
        run = newest_run(needs)
        say(f"run: {run.folder} (the newest)")
        return run
    run = RunDirectory(path)
    run.manifest()
    if not any(run.folder.glob(needs)):
        raise InputError(f"{run.folder}: has no {needs}; run the previous phase first")
    return run


def _comparisons(run: RunDirectory, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The pair of systems that the call names, else those of the run's config, else those judged before."""
    if (arguments.candidate is None) != (arguments.baseline is None):
        raise InputError(
            "--candidate requires --baseline and vice versa; give both, or neither for the run's comparisons"
        )
    if arguments.candidate:
        return [(arguments.candidate, arguments.baseline)]
    from instruct.judging.comparison import judged_comparisons

    judged = [comparison[1:] for comparison, _ in judged_comparisons(run.manifest())]
    comparisons = _run_config(run, []).comparisons or list(dict.fromkeys(judged))
    if not comparisons:
        raise InputError(f"{run.folder / 'config.yaml'}: has no comparisons; give --candidate and --baseline")
    return comparisons


def _run_config(run: RunDirectory, overrides: list[str]) -> ExperimentConfig:
    from instruct.config import make_config

    return make_config(run.config(), overrides, run.folder / "config.yaml")


def _no_overrides(overrides: list[str]) -> None:
    if overrides:
        raise InputError(f"unexpected argument {one_line(overrides[0], 80)!r}; see --help")


VERBS: dict[str, Callable[[argparse.Namespace, list[str]], Result]] = {
    "run": run,
    "config": config,
    "preview": preview,
    "train": train,
    "generate": generate,
    "evaluate": evaluate,
    "judge": judge,
    "validate": validate,
    "report": report,
    "compare": compare,
    "sample": sample,
    "export": export_verdicts,
    "import": import_verdicts,
    "merge": merge,
    "push": push,
    "list": list_cards_or_runs,
    "doctor": doctor,
}


def main() -> int:
    """The entry point of the console script."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    rest, overrides = split_overrides(sys.argv[1:])
    arguments = parser.parse_args(rest)

    def work() -> Result:
        if arguments.verb not in ("run", "train") and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise InputError(
                "only `run` and `train` work on several processes; run this verb without `accelerate launch`"
            )
        return VERBS[arguments.verb](arguments, overrides)

    return run_guarded(work, arguments.json, arguments.quiet)


if __name__ == "__main__":
    sys.exit(main())
