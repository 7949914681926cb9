"""AlpacaEval's annotations as the labels of a set: how well does a judge stand in for the one that made them?"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from instruct.analysis.outcomes import outcome_of_score, pair_results
from instruct.base.errors import InputError, counted, one_line
from instruct.base.files import sha256_of
from instruct.data.prompts import identity, read_prompt
from instruct.data.sources import RawRow, read_file
from instruct.judging.interchange.annotation_files import read_annotations
from instruct.judging.interchange.exchange import answers_in
from instruct.judging.interchange.labels import read_labels
from instruct.run.directory import RunDirectory
from instruct.validation.human_sets import FILE_TYPES, HumanPair, HumanSet, load_human_set


def load_labels(against: Sequence[str], reference: str | None = None) -> HumanSet:
    """The set that a call names: one with human labels, or annotations of one judge for one model or several.

    Args:
        against: the name, card or file of a set with human labels, files of annotations, or a run with labels.
        reference: the baseline's answers, for annotations that leave `output_1` out.

    Raises:
        InputError: as `load_human_set`, or files of annotations that do not belong together.
    """
    if len(against) == 1 and (run := RunDirectory(Path(against[0]).expanduser())).manifest_path.is_file():
        return _labeled_run(run)
    paths = [Path(file).expanduser() for file in against]
    if all(path.suffix.lower() in FILE_TYPES for path in paths):
        columns = [next(iter(read_file(path))).fields.keys() for path in paths]
        if all({"preference", "output_2"} <= names and not {"label", "annotator1"} & names for names in columns):
            return _annotated(paths, reference)
    if len(against) > 1 or reference:
        what = "`reference`" if reference else "several files"
        raise InputError(
            f"{against[0]}: {what} can only be given with AlpacaEval's annotations; give one set of labels"
        )
    return load_human_set(against[0])


def _labeled_run(run: RunDirectory) -> HumanSet:
    """The labeled pairs of a run; the candidate's answer is the first one."""
    if not run.labels.is_file():
        raise InputError(
            f"{run.folder}: has no labels; draw pairs with `instruct validate` (`sample`), and add the labels with "
            f"`instruct report {run.folder}` (`human`)"
        )
    labels = read_labels(run.labels)
    pairs: list[HumanPair] = []
    for (candidate, baseline), scores in labels.scores.items():
        ours, theirs = ({identity(row): row for row in answers_in(run, name)} for name in (candidate, baseline))
        for pair, score in scores.items():
            if pair not in ours or pair not in theirs:
                missing = candidate if pair not in ours else baseline
                raise InputError(
                    f"{run.labels}: the run has no answer of {one_line(missing, 60)} to {one_line(pair, 60)!r}; remove "
                    "the label"
                )
            rows = (theirs[pair] | ours[pair], theirs[pair])
            prompt, other = (read_prompt(RawRow(str(run.labels), len(pairs) + 1, row), "") for row in rows)
            answers = ours[pair]["output"], theirs[pair]["output"]
            group = f"{candidate} against {baseline}"
            pairs.append(HumanPair(prompt, *answers, (_label(score),), group, earlier=other.earlier))
    content = json.dumps([asdict(pair) for pair in pairs])
    digest = hashlib.sha256(content.encode()).hexdigest()
    name = f"{run.folder.resolve().name}-labels"
    return HumanSet(name, pairs, ("people",), run.labels, digest)


def _label(score: float) -> str:
    """The label of the first answer's score, 0 to 1."""
    return {"win": "first", "loss": "second"}.get(outcome := outcome_of_score(score), outcome)


def _annotated(paths: list[Path], reference: str | None) -> HumanSet:
    """The pairs of all files that have a preference; each model, a `generator_2`, is a group."""
    files = [read_annotations(path, reference=reference) for path in paths]
    firsts = [verdicts[0].judgment for verdicts in files]
    models = [first.candidate for first in firsts]
    one = (firsts[0].judge, firsts[0].baseline)
    for path, first in zip(paths, firsts, strict=True):
        if (first.judge, first.baseline) != one:
            raise InputError(
                f"{path}: has verdicts of {one_line(first.judge, 60)} against {one_line(first.baseline, 60)}, but "
                f"{paths[0]} has those of {one_line(one[0], 60)} against {one_line(one[1], 60)}; give files of one "
                "judge and one baseline"
            )
        if models.count(first.candidate) > 1:
            raise InputError(
                f"{path}: {one_line(first.candidate, 60)} is in several of the files; give one for each model"
            )
    pairs: list[HumanPair] = []
    for verdicts in files:
        results = pair_results([verdict.judgment for verdict in verdicts], "single")
        for verdict, result in zip(verdicts, results, strict=True):
            ours, theirs = verdict.answers
            if verdict.prompt is None or ours is None or theirs is None:
                missing = "output_1" if theirs is None else "output_2"
                advice = "give the baseline's answers as `reference`" if missing == "output_1" else "add it"
                raise InputError(f"{verdict.place}: has no {missing}; {advice}")
            if result.score is not None:
                labels, model = (_label(1 - result.score),), verdict.judgment.candidate
                pairs.append(HumanPair(verdict.prompt, theirs, ours, labels, model, result.score))
    if not pairs:
        raise InputError(f"{paths[0]}: has no preferences; give annotations with verdicts")
    used = [*paths, *([Path(reference).expanduser()] if reference else [])]
    unlabeled = sum(map(len, files)) - len(pairs)
    return HumanSet(
        f"{one[0]}-{models[0]}" if len(models) == 1 else f"{one[0]}-{len(models)}-models",
        pairs,
        (one[0],),
        paths[0],
        hashlib.sha256("".join(map(sha256_of, used)).encode()).hexdigest(),
        labels_by=one[0],
        notes=(f"left out: {counted(unlabeled, 'row')} without a preference",) if unlabeled else (),
    )
