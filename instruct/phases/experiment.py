"""An experiment from its configuration to its report: the phases in order. What is done is not done again."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, StoppedError
from instruct.base.files import sha256_of, write_atomically
from instruct.base.output import say
from instruct.config import ExperimentConfig, load_config
from instruct.data.cards import Template
from instruct.data.options import template_of
from instruct.data.rows import RowSet
from instruct.phases import PHASES
from instruct.phases.changes import start_or_continue
from instruct.phases.systems import system_folders, weights_identity
from instruct.run.directory import RunDirectory

if TYPE_CHECKING:
    from instruct.judging.asking import Judge
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.model import Report


def run_experiment(
    config: ExperimentConfig, dry_run: bool = False, first: str = PHASES[0], last: str = PHASES[-1]
) -> Report | None:
    """Train every system except the base, let each answer the prompts, evaluate, let the judges compare, report.

    A phase whose result exists is skipped, and an interrupted one resumes. Under `accelerate launch` it ends after
    training.

    Args:
        dry_run: check access, memory and disk, print the plan and stop.
        first, last: the phases to run, of PHASES; earlier ones must be done.

    Returns:
        The report, if it was written.

    Raises:
        InputError: the experiment cannot be run as configured; nothing has been written.
        StoppedError: a budget or too many failures stopped a judge.
    """
    from accelerate import PartialState

    from instruct.judging.judge import judge_answers
    from instruct.judging.lock import only_judging_process
    from instruct.phases.preflight import check_experiment
    from instruct.training.train import train_system

    phases = PHASES[PHASES.index(first) : PHASES.index(last) + 1]
    if not phases:
        raise InputError(f"--from {first} comes after --until {last}; the phases are {', '.join(PHASES)}")
    if first in ("evaluate", "judge", "report") and not (run_folder(config) / "manifest.json").is_file():
        raise InputError(f"{run_folder(config)}: no such run; drop --from to run the earlier phases")
    data, judges = check_experiment(config, run_folder(config), phases)
    if dry_run:
        return None
    run = open_run(config)
    if data:
        record_overlap(config, run, data.rows)
        for system in config.trained:
            train_system(config, system, run, data)
    if "train" in phases:
        upload(config, run)
    if PartialState().num_processes > 1:
        say(f"trained   continue without `accelerate launch`: python {' '.join(sys.argv)}")
        return None
    if "answer" in phases:
        generate(config, run)
    if "evaluate" in phases and config.evaluation:
        from instruct.phases.evaluate import evaluate_run, metrics_text

        say(metrics_text(evaluate_run(config, run), run))
    if "judge" in phases and judges:
        with only_judging_process(run):
            for judge in judges:
                judge_answers(run, judge, judge.options.comparisons or config.comparisons)
    elif "judge" in phases and config.answers is None:
        if config.continuations:
            say(f"continued {run.continuations}")
        if not config.evaluation:
            return None
    elif "judge" in phases:
        say(f"answered  judge the answers with `instruct judge {run.folder} --judge NAME`")
        if not config.evaluation:
            return None
    if "report" not in phases:
        return None
    report = print_report(run.folder)
    upload(config, run)  # the cards, now with the evaluation
    return report


def run_experiments(
    path: str | Path, points: Mapping[str, Sequence[str]], dry_run: bool, first: str, last: str
) -> tuple[dict[str, ExperimentConfig], list[str]]:
    """Run the experiment of a config once for each point; one that cannot be run does not keep the others from it.

    Args:
        path: of the config, or its name.
        points: the flags of each point, its `--name` among them.
        dry_run, first, last: as for `run_experiment`.

    Returns:
        The config of each point that was run (none of a dry run), and what is wrong with each of the others.
    """
    done: dict[str, ExperimentConfig] = {}
    refused: list[str] = []
    for point, flags in points.items():
        try:
            config = load_config(path, flags)
            run_experiment(config, dry_run=dry_run, first=first, last=last)
        except InputError as error:
            refused.append(f"{point}: {error}")
            continue
        if not dry_run:
            done[point] = config
    return done, refused


def judge_and_report(
    run: RunDirectory,
    judges: Iterable[Judge],
    comparisons: Sequence[tuple[str, str]],
    difficulty: Difficulty | None = None,
    **given: bool,
) -> tuple[Report, StoppedError | None]:
    """Let each judge compare a run's answers, and write the report.

    Args:
        comparisons: pairs of candidate and baseline, for judges that name none of their own.
        given: further arguments of judge_answers.

    Returns:
        The report, and what stopped the last judge that was stopped by its budget or too many failures.
    """
    from instruct.judging.judge import judge_answers
    from instruct.judging.lock import only_judging_process
    from instruct.reporting.report import write_report

    stopped: StoppedError | None = None
    with only_judging_process(run):
        for judge in judges:
            try:
                judge_answers(run, judge, judge.options.comparisons or comparisons, **given)
            except StoppedError as error:  # report what was judged, and let the other judges go on
                stopped = error
    return write_report(run.folder, difficulty).report, stopped


def upload(config: ExperimentConfig, run: RunDirectory) -> None:
    """Upload every trained system to the Hub if `train.push_to_hub` says so.

    Raises:
        InputError: no write access.
        InstructError: an upload failed.
    """
    from accelerate import PartialState

    from instruct.phases.upload import configured_repositories, push_systems

    names = configured_repositories(config)
    if names and PartialState().is_main_process:
        for repository in push_systems(run, names, config.train.get("hub_private_repo")):
            say(f"uploaded  {repository}")


def run_folder(config: ExperimentConfig) -> Path:
    """The directory of an experiment's run."""
    return Path("runs") / config.name


def open_run(config: ExperimentConfig) -> RunDirectory:
    """`runs/NAME/`, created or continued.

    Raises:
        InputError: the directory holds a run with a different config, or is not shared by all nodes of a training.
    """
    from instruct.phases.upload import configured_repositories, create_repositories
    from instruct.training.processes import from_main

    run = RunDirectory(run_folder(config))

    def start() -> str:
        # A token without write access is found out before training.
        create_repositories(configured_repositories(config).values(), config.train.get("hub_private_repo"))
        start_or_continue(run, config)
        return str(run.manifest()["created"])

    run.join(from_main(start))
    return run


def record_overlap(config: ExperimentConfig, run: RunDirectory, rows: RowSet) -> None:
    """Record and print how many prompts of the evaluation set are in the training data, unless that is recorded."""
    from accelerate import PartialState

    from instruct.data.overlap import find_overlap, overlap_text
    from instruct.generation.prompts import evaluation_set

    if not PartialState().is_main_process or config.answers is None:
        return
    try:
        evaluation = evaluation_set(config.answers)
    except InputError as error:  # training does not need the prompts
        say(f"overlap   not counted: {error}")
        return
    inputs = {"data": rows.sha256, "prompts": evaluation.sha256}
    if not run.is_done("overlap", inputs):
        with run.step("overlap", inputs) as results:
            results |= asdict(find_overlap([prompt.instruction for prompt in evaluation.prompts], rows))
    say(f"overlap   {overlap_text(run.manifest()['steps']['overlap']['results'])}")


def generate(config: ExperimentConfig, run: RunDirectory) -> dict[str, Path]:
    """Every system of the run answers prompts, continues prefixes, or both, as the config says.

    Prefixes are also continued by the controls: MLE at the temperatures that match the other systems' entropies.

    Returns:
        The file of each system's answers, or of its continuations; both if the config asks for both.

    Raises:
        InputError: a system is not trained yet, or the prompts or prefixes cannot be read.
    """
    files: dict[str, Path] = {}
    if config.answers:
        answer_prompts(config, run)
        files |= {name: run.outputs / f"{name}.json" for name in config.systems}
    if config.continuations:
        from instruct.phases.continuations import continue_prefixes
        from instruct.phases.controls import with_controls

        found = continue_prefixes(config, run, with_controls(config, run))
        files |= {f"{name} (continuations)" if config.answers else name: path for name, path in found.items()}
    return files


def answer_prompts(config: ExperimentConfig, run: RunDirectory) -> None:
    """Every system of the run answers the evaluation set, if the config has one; one engine serves all adapters.

    Raises:
        InputError: a system is not trained yet.
    """
    from instruct.generation.answers import generate_answers
    from instruct.generation.prompts import evaluation_set

    options = config.answers
    if options is None:
        return
    systems = system_folders(config, run)
    engine = options.generation.engine
    weights = {name: weights_identity(config, folder, engine) for name, folder in systems.items()}
    evaluation = evaluation_set(options)
    template = answer_template(config)
    answers = options.model_dump(mode="json")
    inputs: dict[str, Any] = {
        "weights": weights,
        "prompts": evaluation.sha256,
        "answers": options.made_from(),
        "template": template,
    }
    if config.model.dtype != "bfloat16" or config.model.quantization:
        inputs["model"] = {"dtype": config.model.dtype, "quantization": config.model.quantization}
    outputs = {name: run.outputs / f"{name}.json" for name in systems}
    if run.is_done("answers", inputs) and all(path.is_file() for path in outputs.values()):
        return
    baseline = run.outputs / "baseline.json"
    earlier = _keep_answers({**outputs, "baseline": baseline})
    baseline.unlink(missing_ok=True)  # it answers the earlier prompts
    if evaluation.baseline:
        text = json.dumps(evaluation.baseline, indent=1, ensure_ascii=False)
        write_atomically(baseline, text + "\n")
    ran_with = {
        **answers,
        "eval_set": evaluation.name,
        "prompts": len(evaluation.prompts),
        "baseline": evaluation.baseline_name,
        "template": template,
        "model": config.model.model_dump(mode="json"),
    }
    if config.cluster is not None:
        ran_with["cluster"] = config.cluster.model_dump(mode="json")
    with run.step("answers", inputs, config=ran_with) as results:
        stats = generate_answers(
            config.model,
            systems,
            evaluation.prompts,
            template,
            options.generation,
            run.outputs,
            config.cluster,
        )
        for name, path in outputs.items():
            about = vars(stats[name]) | {"sha256": sha256_of(path)}
            if not about["workers"]:  # nothing was asked on a cluster
                del about["workers"]
            results[name] = about
    for name, kept in earlier.items():
        path = run.outputs / f"{name}.json"
        if path.is_file() and sha256_of(kept) == sha256_of(path):
            kept.unlink()
        else:
            say(f"kept      {kept}: the earlier answers of {name}")
    with suppress(OSError):  # it is not empty, or not there
        (run.outputs / "earlier").rmdir()


def _keep_answers(outputs: dict[str, Path]) -> dict[str, Path]:
    """Copies of the answers that exist, as outputs/earlier/NAME-HASH.json: others are about to replace them."""
    kept = {}
    for name, path in outputs.items():
        if path.is_file():
            kept[name] = path.parent / "earlier" / f"{name}-{sha256_of(path)[:8]}.json"
            write_atomically(kept[name], path.read_bytes())
    return kept


def answer_template(config: ExperimentConfig) -> Template:
    """The template of the prompts: the one that the systems were trained with, unless the config names another."""
    if config.answers and config.answers.template:
        return config.answers.template
    templates = dict.fromkeys(template_of(source) for source in config.data.parts)
    if len(templates) > 1:
        raise InputError(
            f"data.mixture: its data sets have different templates ({', '.join(templates)}); set answers.template"
        )
    return next(iter(templates))


def print_report(folder: Path, difficulty: Difficulty | None = None) -> Report:
    """Write a run's report; print its summary and its path."""
    from instruct.reporting.report import write_report

    report = write_report(folder, difficulty).report
    print_written(report, folder)
    return report


def print_written(report: Report, folder: Path) -> None:
    """Print the summary of a run's report, and where it is."""
    from instruct.reporting.render.terminal import render_summary

    path = RunDirectory(folder).report / "report.md"
    say(render_summary(report))
    say(f"report: {path}")
    say(f"page: {path.with_suffix('.html')}")
