"""AlpacaEval's annotations.json: read into verdicts, checked row by row, and written."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import EXCHANGED, IDENTICAL, PREFERENCES, UNKNOWN_ORDER, candidate_is_second
from instruct.base.errors import InputError, one_line
from instruct.base.replies import Completion
from instruct.data.evaluation import AnswerForm, load_answers
from instruct.data.formats import check_storable, text_field, with_cluster
from instruct.data.prompts import EvalPrompt, identity, missing_prompts, pair_ids, read_prompt
from instruct.data.sources import RawRow, read_file
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.contents import Contents
from instruct.judging.presentations import Answers
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import read_verdict
from instruct.run.replies import completion_key

# The field of the judge's reply: its current name, and the one in the published files.
RAW_FIELDS = ("preference_raw_completion", "raw_completion")


@dataclass(frozen=True)
class Annotation:
    """One row.

    `preference` is 1 if the baseline is better, 2 if the candidate is, 1.5 for neither, None without a verdict.
    `output_1` is the baseline's answer, `output_2` the candidate's; None if the file leaves it out. `identity` is that
    of the row's pair.
    """

    identity: str
    prompt: EvalPrompt
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
            repeats without ids, no column with clusters, clusters without answers, prompts that only the file or only
            the answers have, answers that differ from the file's, or one name for two systems.
    """
    path = Path(path).expanduser()
    rows = form.rows_of(path) if form else list(read_file(path))
    if form and (not (outputs or reference) or any(form.cluster in row.fields for row in rows)):
        rows, form = [with_cluster(row, form.cluster) for row in rows], replace(form, cluster=None)
    annotations = annotations_of(rows)
    if reference is not None:
        annotations = _with_answers(path, annotations, "output_1", Path(reference), form)
    if outputs is not None:
        annotations = _with_answers(path, annotations, "output_2", Path(outputs), form)
    if not any(row.output_1 or row.output_2 for row in annotations) and any(row.prompt.cluster for row in annotations):
        raise InputError(f"{path}: has clusters but no answers, which hold them in a run; give those of a side, too")
    comparison = ComparisonKey(
        judge=judge or _one_name(rows, "annotator", "`judge`"),
        candidate=candidate or _one_name(rows, "generator_2", "`candidate`"),
        baseline=baseline or _one_name(rows, "generator_1", "`baseline`"),
    )
    if comparison.candidate == comparison.baseline:
        _check_same_system(rows, comparison.candidate, annotations)
    return AnnotationFile(path, comparison, annotations)


def annotations_of(rows: Sequence[RawRow]) -> list[Annotation]:
    """The annotations in the rows of one comparison by one judge.

    Raises:
        InputError: an invalid row (file, row and field), or an instruction that repeats without ids.
    """
    prompts = [read_prompt(row, "unknown") for row in rows]
    return [
        Annotation(
            id or prompt.request,
            prompt,
            _output(row, "output_1"),
            _output(row, "output_2"),
            read_preference(row),
            _completion(row),
        )
        for row, prompt, id in zip(rows, prompts, pair_ids(rows, prompts), strict=True)
    ]


def _check_same_system(rows: list[RawRow], name: str, annotations: list[Annotation]) -> None:
    """Refuse one name for two systems: only a system compared with itself has it twice, and then all answers agree."""
    for row, annotation in zip(rows, annotations, strict=True):
        if annotation.output_1 is None or annotation.output_1 != annotation.output_2:
            raise InputError(
                f"{row.place}: generator_1 and generator_2 are both {one_line(name, 60)!r}, and the answers differ or "
                "are missing; give one of them another name with `instruct report` (`candidate`)"
            )


def _with_answers(
    path: Path, annotations: list[Annotation], field: str, file: Path, form: AnswerForm | None
) -> list[Annotation]:
    """The rows with a file's answers as `output_1` or `output_2`; both must have the same prompts."""
    rows = load_answers(file, form)
    answers = {identity(row): row["output"] for row in rows}
    clusters = {identity(row): row.get("cluster", "") for row in rows}
    prompts = [row.identity for row in annotations]
    for place, ours, theirs in ((file, prompts, answers), (path, list(answers), dict.fromkeys(prompts))):
        if missing := [prompt for prompt in ours if prompt not in theirs]:
            wanted = missing_prompts(missing, theirs)
            raise InputError(f"{place}: {wanted}; give the answers to the prompts that were judged")
    for row in annotations:
        if getattr(row, field) not in (None, answers[row.identity]):
            raise InputError(
                f"{path}: {field}: the answer to {one_line(row.prompt.request, 60)!r} differs from the one in {file}; "
                f"give the {'baseline' if field == 'output_1' else 'candidate'}'s answers that were judged, or none"
            )
    joined = []
    for row in annotations:
        prompt = replace(row.prompt, cluster=row.prompt.cluster or clusters[row.identity])
        joined.append(replace(row, prompt=prompt, **{field: answers[row.identity]}))
    return joined


def _one_name(rows: list[RawRow], field: str, key: str) -> str:
    first = text_field(rows[0], field, optional=True)
    if not first:
        raise InputError(f"{rows[0].place}: {field}: is missing; give the name with `instruct report` ({key})")
    for row in rows:
        if text_field(row, field, optional=True) != first:
            raise InputError(
                f"{row.place}: {field}: is not {one_line(first, 60)!r} as in row {rows[0].row}; "
                "put each judge and each system into a file of its own"
            )
    return first


def _output(row: RawRow, field: str) -> str | None:
    return text_field(row, field) if row.fields.get(field) is not None else None


def read_preference(row: RawRow) -> float | None:
    """AlpacaEval's `preference` of a row: 1 to 2, 1.5 for a draw; None if it is missing.

    Raises:
        InputError: it is another value, or the row has none.
    """
    if "preference" not in row.fields:
        raise InputError(f"{row.place}: preference: is missing; give 1, 2, 1.5, a number between, or null")
    value = row.fields["preference"]
    if isinstance(value, str):  # a cell of CSV
        with contextlib.suppress(ValueError):
            value = float(value) if value.strip() else None
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


def annotated_contents(file: AnnotationFile) -> Contents:
    """The verdicts of annotations, see `read_contents`."""
    weighted = any(row.preference not in (None, *PREFERENCES.values()) for row in file.rows)
    card = _card_of(file)
    contents = Contents([], {file.comparison.judge: {}}, _answers(file))
    for pair, row in enumerate(file.rows):
        key = ""
        if row.completion is not None:
            asked = {"imported": row.completion.record(), "instruction": row.prompt.instruction, "of": file.comparison}
            key = completion_key(asked)
            contents.replies[file.comparison.judge][key] = row.completion
        confirmed = _position(card, row)
        position = confirmed or ("second" if candidate_is_second(row.prompt.instruction) else "first")
        shown = row.preference if row.preference is None or position == "second" else 3 - row.preference
        verdict, reason = verdict_of(row, shown)
        if verdict in EXCHANGED and confirmed is None:
            reason = UNKNOWN_ORDER
        preference = shown if weighted else None
        about = (*file.comparison, pair, row.identity, row.prompt.dataset, position, key)
        contents.judgments.append(Judgment(*about, verdict, reason, preference))
    return contents


def _card_of(file: AnnotationFile) -> JudgeCard | None:
    """The card that reads the file's replies; None without replies or a card of a judge that is shown both answers."""
    if all(row.completion is None for row in file.rows):
        return None
    try:
        card = load_judge_card(file.comparison.judge, by_path=False)
    except InputError:
        return None
    return card if card.protocol == "pairwise" else None


def _position(card: JudgeCard | None, row: Annotation) -> str | None:
    """Where the candidate was shown, if the judge's reply and the row's preference agree in one order alone."""
    if card is None or row.completion is None or row.preference is None:
        return None
    reading = read_verdict(card, row.completion)
    shown = reading.preference or PREFERENCES.get(reading.verdict)
    if shown is None:
        return None
    baseline_first = math.isclose(row.preference, shown, abs_tol=1e-6)
    if baseline_first == math.isclose(3 - row.preference, shown, abs_tol=1e-6):
        return None
    return "second" if baseline_first else "first"


def verdict_of(row: Annotation, shown: float | None) -> tuple[str, str | None]:
    """The verdict of a preference in the order shown, and the reason if there is none."""
    if shown is None:
        if row.completion is not None:
            return "unparsed", "the file has the judge's reply and no preference"
        return "failed", "the file has neither a reply of the judge nor a preference"
    if shown == 1.5:
        same = row.completion is None and row.output_1 is not None and row.output_1 == row.output_2
        return "tie", IDENTICAL if same else None
    return ("first" if shown < 1.5 else "second"), None


def _answers(file: AnnotationFile) -> dict[str, list[dict[str, Any]]]:
    sides = {
        file.comparison.baseline: [row.output_1 for row in file.rows],
        file.comparison.candidate: [row.output_2 for row in file.rows],
    }
    return {
        name: [
            row.prompt.row(
                str(output),
                name,
                **({} if row.identity == row.prompt.request else {"id": row.identity}),
            )
            for row, output in zip(file.rows, outputs, strict=True)
        ]
        for name, outputs in sides.items()
        if None not in outputs
    }


def annotation_rows(store: JudgmentStore, judge: str, candidate: Answers, baseline: Answers) -> list[dict[str, Any]]:
    """A comparison's verdicts in AlpacaEval's schema: `preference` is 1 for the baseline, 2 for the candidate.

    AlpacaEval has one order per pair: for a pair shown in both orders, the row is that of the order drawn by its seed
    rule. A pair without a readable verdict has the preference None, which the package's metrics skip. Answers missing
    from `candidate` or `baseline` are left out.
    """
    judgments = store.seen_judgments(ComparisonKey(judge, candidate.name, baseline.name))
    orders = Counter(judgment.instruction for judgment in judgments)
    drawn = [
        judgment
        for judgment in judgments
        if orders[judgment.instruction] == 1
        or judgment.position == ("second" if candidate_is_second(judgment.instruction) else "first")
    ]
    completions = store.completions(judgment.key for judgment in drawn if judgment.key)
    answers = {number: {identity(row): row for row in side.rows} for number, side in ((1, baseline), (2, candidate))}
    rows = []
    for judgment in drawn:
        shown = PREFERENCES.get(judgment.verdict)
        if shown is not None and judgment.preference is not None:
            shown = judgment.preference
        reply = completions.get(judgment.key)
        pair = {n: side[judgment.instruction] for n, side in answers.items() if judgment.instruction in side}
        row: dict[str, Any] = next(iter(pair.values()), {"instruction": judgment.instruction})
        rows.append(
            {"instruction": row["instruction"], "dataset": judgment.dataset}
            | {name: row[name] for name in ("id", "input", "system") if name in row}
            | {"generator_1": baseline.name, "generator_2": candidate.name, "annotator": judge}
            | {f"output_{n}": answer["output"] for n, answer in pair.items()}
            | {"preference": shown if shown is None or judgment.position == "second" else 3 - shown}
            | {RAW_FIELDS[0]: reply and (reply.choice or reply.text)}
        )
    return rows
