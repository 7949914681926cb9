"""AlpacaEval's annotations.json: read into verdicts, checked row by row, and written."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import IDENTICAL, PREFERENCES, UNKNOWN_ORDER, candidate_is_second
from instruct.base.errors import InputError, one_line
from instruct.base.replies import Completion
from instruct.data.evaluation import AnswerForm, load_answers
from instruct.data.formats import check_storable, text_field, with_cluster
from instruct.data.prompts import conversations, identity, missing_prompts, pair_ids, read_prompt
from instruct.data.sources import RawRow, read_file
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.comparison import ComparisonKey
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.presentations import Answers
from instruct.judging.store import Judgment, JudgmentStore
from instruct.judging.verdicts import read_verdict
from instruct.run.replies import completion_key

# The field of the judge's reply: its current name, and the one in the published files.
RAW_FIELDS = ("preference_raw_completion", "raw_completion")


def read_annotations(
    path: str | Path,
    *,
    judge: str | None = None,
    candidate: str | None = None,
    baseline: str | None = None,
    outputs: str | Path | None = None,
    reference: str | Path | None = None,
    form: AnswerForm | None = None,
) -> list[FileVerdict]:
    """The verdicts of one judge on one comparison in an annotations.json as AlpacaEval writes and publishes it.

    Args:
        judge, candidate, baseline: names to use instead of the file's `annotator`, `generator_2` and `generator_1`.
        outputs: a model_outputs.json with the candidate's answers, for a file that leaves `output_2` out.
        reference: the same with the baseline's answers, for a file that leaves `output_1` out.
        form: how the files are written.

    Raises:
        InputError: as `annotations_of`, or several judges or systems in one file, no column with clusters, clusters
            without answers, prompts that only the file or only the answers have, answers that differ from the file's,
            or one name for two systems.
    """
    path = Path(path).expanduser()
    rows = list(read_file(path))
    if form and (not (outputs or reference) or any(form.cluster in row.fields for row in rows)):
        rows, form = [with_cluster(row, form.cluster) for row in rows], replace(form, cluster=None)
    for field, file in (("output_1", reference), ("output_2", outputs)):
        if file is not None:
            rows = _with_answers(path, rows, field, Path(file), form)
    comparison = ComparisonKey(
        judge=judge or _one_name(rows, "annotator", "`judge`"),
        candidate=candidate or _one_name(rows, "generator_2", "`candidate`"),
        baseline=baseline or _one_name(rows, "generator_1", "`baseline`"),
    )
    verdicts = annotations_of(rows, comparison)
    for row in verdicts if comparison.candidate == comparison.baseline else ():
        # Only a system compared with itself has its name twice, and then all answers agree.
        if row.answers[0] is None or row.answers[0] != row.answers[1]:
            raise InputError(
                f"{row.place}: generator_1 and generator_2 are both {one_line(comparison.candidate, 60)!r}, and the "
                "answers differ or are missing; give one of them another name with `instruct report` (`candidate`)"
            )
    if not any(any(row.answers) for row in verdicts) and any(row.prompt and row.prompt.cluster for row in verdicts):
        raise InputError(f"{path}: has clusters but no answers, which hold them in a run; give those of a side, too")
    return verdicts


def annotations_of(rows: Sequence[RawRow], comparison: ComparisonKey) -> list[FileVerdict]:
    """The verdicts in the rows of one comparison by one judge.

    `preference` is 1 if the baseline (`output_1`) is better, 2 if the candidate is, and 1.5 for neither. The order in
    which a pair was shown is not in the file. Where the judge's raw reply says it, that order is kept. All other
    verdicts get the package's seed rule and the reason UNKNOWN_ORDER, and no figure about positions counts them.

    Without a preference, a verdict is `unparsed` if the file has the judge's reply, else `failed`. If any preference is
    neither a win nor a draw nor a loss, the judge is a weighted one, and every judgment keeps its preference.

    Raises:
        InputError: an invalid row (file, row and field), or an instruction that repeats without ids.
    """
    prompts = [read_prompt(row, "unknown") for row in rows]
    ids = pair_ids(rows, prompts)
    preferences, replies = [read_preference(row) for row in rows], [_completion(row) for row in rows]
    weighted = not {*preferences} <= {None, *PREFERENCES.values()}
    card = _card_of(comparison.judge) if any(replies) else None
    verdicts = []
    for pair, (row, prompt, id, preference, reply) in enumerate(
        zip(rows, prompts, ids, preferences, replies, strict=True)
    ):
        ours, theirs = (
            text_field(row, field) if row.fields.get(field) is not None else None for field in ("output_2", "output_1")
        )
        key = ""
        if reply is not None:
            key = completion_key({"imported": reply.record(), "instruction": prompt.instruction, "of": comparison})
        confirmed = _position(card, reply, preference)
        position = confirmed or ("second" if candidate_is_second(prompt.instruction) else "first")
        shown = preference if preference is None or position == "second" else 3 - preference
        reason = None
        if shown is None:
            verdict = "failed" if reply is None else "unparsed"
            had = "neither a reply of the judge nor a" if reply is None else "the judge's reply and no"
            reason = f"the file has {had} preference"
        elif shown == 1.5:
            verdict, reason = "tie", IDENTICAL if reply is None and ours is not None and ours == theirs else None
        else:
            verdict, reason = "first" if shown < 1.5 else "second", None if confirmed else UNKNOWN_ORDER
        about = (*comparison, pair, id or prompt.request, prompt.dataset, position, key)
        judgment = Judgment(*about, verdict, reason, shown if weighted else None)
        verdicts.append(FileVerdict(judgment, row.place, prompt, (ours, theirs), {key: reply} if reply else {}))
    return verdicts


def _with_answers(path: Path, rows: list[RawRow], field: str, file: Path, form: AnswerForm | None) -> list[RawRow]:
    """The rows with a file's answers as `output_1` or `output_2`; both must have the same prompts."""
    prompts = [read_prompt(row, "unknown") for row in rows]
    pairs = [id or prompt.request for id, prompt in zip(pair_ids(rows, prompts), prompts, strict=True)]
    answers = {identity(row): row for row in load_answers(file, form)}
    for place, ours, theirs in ((file, pairs, answers), (path, list(answers), dict.fromkeys(pairs))):
        if missing := [pair for pair in ours if pair not in theirs]:
            wanted = missing_prompts(missing, theirs)
            raise InputError(f"{place}: {wanted}; give the answers to the prompts that were judged")
    joined = []
    for row, pair, prompt in zip(rows, pairs, prompts, strict=True):
        answer = answers[pair]
        if row.fields.get(field) not in (None, answer["output"]):
            raise InputError(
                f"{path}: {field}: the answer to {one_line(prompt.request, 60)!r} differs from the one in {file}; "
                f"give the {'baseline' if field == 'output_1' else 'candidate'}'s answers that were judged, or none"
            )
        told = {field: answer["output"], "cluster": prompt.cluster or answer.get("cluster")}
        joined.append(replace(row, fields=row.fields | told))
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


def _card_of(judge: str) -> JudgeCard | None:
    """The card that reads a judge's replies; None without a card of a judge that is shown both answers."""
    try:
        card = load_judge_card(judge, by_path=False)
    except InputError:
        return None
    return card if card.protocol == "pairwise" else None


def _position(card: JudgeCard | None, reply: Completion | None, preference: float | None) -> str | None:
    """Where the candidate was shown, if the judge's reply and the row's preference agree in one order alone."""
    if card is None or reply is None or preference is None:
        return None
    reading = read_verdict(card, reply)
    shown = reading.preference or PREFERENCES.get(reading.verdict)
    if shown is None:
        return None
    baseline_first = math.isclose(preference, shown, abs_tol=1e-6)
    if baseline_first == math.isclose(3 - preference, shown, abs_tol=1e-6):
        return None
    return "second" if baseline_first else "first"


def annotation_rows(store: JudgmentStore, judge: str, candidate: Answers, baseline: Answers) -> list[dict[str, Any]]:
    """A comparison's verdicts in AlpacaEval's schema: `preference` is 1 for the baseline, 2 for the candidate.

    AlpacaEval has one order per pair: for a pair shown in both orders, the row is that of the order drawn by its seed
    rule. A pair without a readable verdict has the preference None, which the package's metrics skip. Answers missing
    from `candidate` or `baseline` are left out. Turns of a conversation have a `cluster`, which the package ignores.
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
    together = conversations([*candidate.rows, *baseline.rows])
    rows = []
    for judgment in drawn:
        shown = PREFERENCES.get(judgment.verdict)
        if shown is not None and judgment.preference is not None:
            shown = judgment.preference
        reply = completions.get(judgment.key)
        cluster = together.get(judgment.instruction, "").removeprefix("cluster ")
        pair = {n: side[judgment.instruction] for n, side in answers.items() if judgment.instruction in side}
        row: dict[str, Any] = next(iter(pair.values()), {"instruction": judgment.instruction})
        rows.append(
            {"instruction": row["instruction"], "dataset": judgment.dataset}
            | {name: row[name] for name in ("id", "input", "system") if name in row}
            | ({"cluster": cluster} if cluster else {})
            | {"generator_1": baseline.name, "generator_2": candidate.name, "annotator": judge}
            | {f"output_{n}": answer["output"] for n, answer in pair.items()}
            | {"preference": shown if shown is None or judgment.position == "second" else 3 - shown}
            | {RAW_FIELDS[0]: reply and (reply.choice or reply.text)}
        )
    return rows
