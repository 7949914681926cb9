"""What a call names: the run, the comparisons, the cluster; and what it shows."""

from __future__ import annotations

import argparse
import glob
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError, InstructError, counted, one_line
from instruct.base.output import Result, say

if TYPE_CHECKING:
    from instruct.config import ExperimentConfig
    from instruct.data.evaluation import AnswerForm
    from instruct.judging.work import JudgingMode
    from instruct.reporting.length_control import Difficulty
    from instruct.reporting.report import Report
    from instruct.run.directory import RunDirectory


def named_run(path: str | None, needs: str) -> RunDirectory:
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


def run_config(
    run: RunDirectory, overrides: list[str], sections: Sequence[str], remedy: str = "each as --KEY VALUE"
) -> ExperimentConfig:
    """The config of a run, with the call's overrides on top.

    Args:
        sections: those that the call acts on.
        remedy: the call's flags that say the same, if they are not called like the keys.

    Raises:
        InputError: they ask for what only the user may allow (`instruct.run.consent`), and the call does not.
    """
    from instruct.config import make_config, parse_overrides
    from instruct.run.consent import not_agreed

    config = make_config(run.config(), overrides, run.folder / "config.yaml")
    typed = tuple(f"{key}." for key, _ in parse_overrides(overrides))
    asked = not_agreed(run, config.model_dump(mode="json", include={*sections}))
    if named := ", ".join(f"{key} {value}" for key, value in asked if not f"{key}.".startswith(typed)):
        raise InputError(
            f"{run.folder}: its config sets {one_line(named, 400)}; it may be another's, so add {remedy} to allow that"
        )
    return config


def named_comparisons(run: RunDirectory, arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """The pair of systems that the call names, else those of the run's config, else those judged before, else every
    system against the evaluation set's own answers."""
    if (arguments.candidate is None) != (arguments.baseline is None):
        raise InputError(
            "--candidate requires --baseline and vice versa; give both, or neither for the run's comparisons"
        )
    from instruct.judging.comparison import file_comparisons, judged_comparisons, system_name

    manifest = run.manifest()
    judged = [*file_comparisons(manifest), *(comparison[1:] for comparison, _ in judged_comparisons(manifest))]
    if arguments.candidate:
        pair = arguments.candidate, arguments.baseline
        candidate, baseline = map(system_name, pair)
        # What was judged from the other side is the same comparison.
        swapped = (baseline, candidate) in judged and (candidate, baseline) not in judged
        return [(pair[1], pair[0]) if swapped else pair]
    remedy = "--candidate and --baseline"
    config = run_config(run, [], ["comparisons"], remedy)
    comparisons = config.comparisons or list(dict.fromkeys(judged))
    for name in itertools.chain(*judged):
        if run.answers_path(name).parent != run.outputs:
            raise InputError(
                f"{run.manifest_path}: compares {one_line(name, 100)}, which is not in the run; add {remedy}"
            )
    if not comparisons and (run.outputs / "baseline.json").is_file():
        comparisons = config.compared
        say(f"comparisons: {', '.join(name for name, _ in comparisons)} against the evaluation set's own answers")
    if not comparisons:
        raise InputError(f"{run.folder / 'config.yaml'}: has no comparisons; give --candidate and --baseline")
    return comparisons


FORM = ("prompt_column", "response_column", "questions", "cluster_column")  # the flags of an AnswerForm


def refuse_without(needed: str, arguments: argparse.Namespace, *names: str) -> None:
    """Refuse flags in a call without the one that they belong to."""
    for name in names:
        value = getattr(arguments, name)
        if value is not None and value is not False:
            raise InputError(f"`{name}` requires {needed}; add it or drop `{name}`")


def named_paths(tokens: Sequence[str]) -> dict[str, list[str]] | list[str]:
    """The paths of a call, by the names that NAME=PATH gives; a PATH may be a pattern, which no shell has expanded.

    Raises:
        InputError: some paths have names, and others have none; a pattern that nothing matches.
    """
    named: dict[str, list[str]] = {}
    for token in tokens:
        name, equals, path = token.partition("=")
        if Path(token).exists() or not equals or "/" in name:
            continue
        found = [path] if Path(path).expanduser().exists() else sorted(glob.glob(os.path.expanduser(path)))
        if not found:
            raise InputError(f"{token}: no such file or folder {one_line(path, 100)}; give the logs of {name}")
        named.setdefault(name, []).extend(found)
    if not named:
        return list(tokens)
    if nameless := [token for token in tokens if token.partition("=")[0] not in named]:
        raise InputError(f"{nameless[0]}: has no name, unlike others; write NAME=PATH for all, or for none")
    return named


def named_form(arguments: argparse.Namespace) -> AnswerForm:
    """How the call says that files of answers are read."""
    from instruct.data.evaluation import AnswerForm

    return AnswerForm(*(getattr(arguments, name, None) for name in FORM))


def named_verdicts_form(arguments: argparse.Namespace) -> AnswerForm:
    """The same of verdicts, which may come without files of answers."""
    if not (arguments.outputs or arguments.reference):
        needed = "--outputs or --reference, files of answers"
        refuse_without(needed, arguments, "prompt_column", "response_column", "questions")
    return named_form(arguments)


def named_mode(arguments: argparse.Namespace) -> JudgingMode:
    """What the call lets judges be asked again, or does without."""
    from instruct.judging.work import JudgingMode

    return JudgingMode(**{name: getattr(arguments, name, False) for name in ("yes", "retry_failed")})


def cluster_override(arguments: argparse.Namespace) -> list[str]:
    """The override of `cluster` that the call's flag gives."""
    return ["--cluster", "{}"] if arguments.cluster else []


def named_difficulty(arguments: argparse.Namespace) -> Difficulty | None:
    """The instruction difficulties that the call names."""
    from instruct.reporting.length_control import Difficulty

    if arguments.instruction_difficulty is None:
        if arguments.difficulty_prompts:
            raise InputError("--difficulty-prompts requires --instruction-difficulty; give both or neither")
        return None
    return Difficulty(arguments.instruction_difficulty, arguments.difficulty_prompts)


def shown(data: Any, text: str) -> Result:
    """The result of a verb whose text is its purpose."""
    return Result(data, text, text)


def reported(report: Report, failure: InstructError | None = None) -> Result:
    """The result of a verb that writes a report."""
    return Result(report, "\n".join(short(report)), "", failure)


def short(report: Report) -> list[str]:
    """Who won, and how many warnings change that claim: the report has them in full."""
    warnings = len(report.warnings())
    return [*report.headlines(), *([f"WARNING: {counted(warnings, 'warning')} in report.md"] if warnings else [])]
