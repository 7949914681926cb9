"""Reading AlpacaEval's annotations.json, checked row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, counted, one_line
from instruct.base.replies import Completion
from instruct.data.evaluation import AnswerForm, identity, load_answers, pair_ids
from instruct.data.formats import check_storable, text_field
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import ComparisonKey

# The field of the judge's reply: its current name, and the one in the published files.
RAW_FIELDS = ("preference_raw_completion", "raw_completion")


@dataclass(frozen=True)
class Annotation:
    """One row.

    `preference` is 1 if the baseline is better, 2 if the candidate is, 1.5 for neither, None without a verdict.
    `output_1` is the baseline's answer, `output_2` the candidate's; None if the file leaves it out. `identity` is the
    row's `id` if its instruction repeats, else the instruction.
    """

    identity: str
    instruction: str
    dataset: str
    output_1: str | None
    output_2: str | None
    preference: float | None
    completion: Completion | None


@dataclass(frozen=True)
class AnnotationFile:
    """The rows of one comparison by one judge."""

    path: Path
    comparison: ComparisonKey
    rows: list[Annotation]


def read_annotations(
    path: str | Path,
    *,
    judge: str | None = None,
    candidate: str | None = None,
    baseline: str | None = None,
    outputs: str | Path | None = None,
    reference: str | Path | None = None,
    form: AnswerForm | None = None,
) -> AnnotationFile:
    """An annotations.json as AlpacaEval writes and publishes it.

    Args:
        judge, candidate, baseline: names to use instead of the file's `annotator`, `generator_2` and `generator_1`.
        outputs: a model_outputs.json with the candidate's answers, for a file that leaves `output_2` out.
        reference: the same with the baseline's answers, for a file that leaves `output_1` out.
        form: how the files are written.

    Raises:
        InputError: an invalid row (file, row and field), several judges or systems in one file, an instruction that
            repeats without ids, prompts that only the file or only the answers have, answers that differ from the
            file's, or one name for two systems.
    """
    path = Path(path).expanduser()
    rows = form.rows_of(path) if form else list(read_file(path))
    annotations = [
        Annotation(
            id or row.fields["instruction"],
            row.fields["instruction"],
            text_field(row, "dataset", optional=True) or "unknown",
            _output(row, "output_1"),
            _output(row, "output_2"),
            _preference(row),
            _completion(row),
        )
        for row, id in zip(rows, pair_ids(rows), strict=True)
    ]
    if reference is not None:
        annotations = _with_answers(path, annotations, "output_1", Path(reference), form)
    if outputs is not None:
        annotations = _with_answers(path, annotations, "output_2", Path(outputs), form)
    comparison = ComparisonKey(
        judge=judge or _one_name(rows, "annotator", "--judge"),
        candidate=candidate or _one_name(rows, "generator_2", "--candidate"),
        baseline=baseline or _one_name(rows, "generator_1", "--baseline"),
    )
    if comparison.candidate == comparison.baseline:
        _check_same_system(rows, comparison.candidate, annotations)
    return AnnotationFile(path, comparison, annotations)


def _check_same_system(rows: list[RawRow], name: str, annotations: list[Annotation]) -> None:
    """Refuse one name for two systems: only a system compared with itself has it twice, and then all answers agree."""
    for row, annotation in zip(rows, annotations, strict=True):
        if annotation.output_1 is None or annotation.output_1 != annotation.output_2:
            raise InputError(
                f"{row.place}: generator_1 and generator_2 are both {one_line(name, 60)!r}, and the answers differ or "
                f"are missing; give one of them another name with `instruct import … --candidate NAME`"
            )


def _with_answers(
    path: Path, annotations: list[Annotation], field: str, given: Path, form: AnswerForm | None
) -> list[Annotation]:
    """The rows with a file's answers as `output_1` or `output_2`; both must have the same prompts."""
    answers = {identity(row): row["output"] for row in load_answers(given, form)}
    prompts = {row.identity for row in annotations}
    for place, missing in (
        (given, [row.identity for row in annotations if row.identity not in answers]),
        (path, [prompt for prompt in answers if prompt not in prompts]),
    ):
        if missing:
            raise InputError(
                f"{place}: {counted(len(missing), 'prompt')} of the other file missing, first "
                f"{one_line(missing[0], 60)!r}; give the answers to the prompts that were judged"
            )
    for row in annotations:
        if getattr(row, field) not in (None, answers[row.identity]):
            raise InputError(
                f"{path}: {field}: the answer to {one_line(row.instruction, 60)!r} differs from the one in {given}; "
                f"give the {'baseline' if field == 'output_1' else 'candidate'}'s answers that were judged, or none"
            )
    return [Annotation(**vars(row) | {field: answers[row.identity]}) for row in annotations]


def _one_name(rows: list[RawRow], field: str, flag: str) -> str:
    first = text_field(rows[0], field, optional=True)
    if not first:
        raise InputError(f"{rows[0].place}: {field}: is missing; give the name with `instruct import … {flag} NAME`")
    for row in rows:
        if text_field(row, field, optional=True) != first:
            raise InputError(
                f"{row.place}: {field}: is not {one_line(first, 60)!r} as in row {rows[0].row}; "
                "put each judge and each system into a file of its own"
            )
    return first


def _output(row: RawRow, field: str) -> str | None:
    return text_field(row, field) if row.fields.get(field) is not None else None


def _preference(row: RawRow) -> float | None:
    if "preference" not in row.fields:
        raise InputError(f"{row.place}: preference: is missing; give 1, 2, 1.5, a number between, or null")
    value = row.fields["preference"]
    # -1 is a missing preference in the package's own cache.
    if value is None or value == -1 or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value == 0 or 1 <= value <= 2):
        raise InputError(
            f"{row.place}: preference: {one_line(repr(value), 40)} is not a preference; give 1 (the baseline), "
            "2 (the candidate), 1.5 (neither), a number between, or null"
        )
    return float(value) or 1.5  # older files write a draw as 0


def _completion(row: RawRow) -> Completion | None:
    field = next((name for name in RAW_FIELDS if row.fields.get(name) is not None), None)
    if field is None:
        return None
    raw = row.fields[field]
    if isinstance(raw, str):
        return Completion(text_field(row, field))
    if not isinstance(raw, dict):
        raise InputError(f"{row.place}: {field}: is neither the reply's text nor the server's choice")
    check_storable(row, field, raw)
    message: Any = raw.get("message")
    text = message.get("content") if isinstance(message, dict) else raw.get("text")
    finish = raw.get("finish_reason")
    return Completion(
        text if isinstance(text, str) else "", finish_reason=finish if isinstance(finish, str) else None, choice=raw
    )
