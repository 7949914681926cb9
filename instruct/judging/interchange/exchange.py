"""Importing and exporting verdicts as AlpacaEval's annotations.json, to and from stores and runs."""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import EXCHANGED, IDENTICAL, PREFERENCES, UNKNOWN_ORDER, candidate_is_second
from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.base.replies import Completion
from instruct.data.evaluation import AnswerForm, identity, load_answers
from instruct.data.sources import read_file
from instruct.judging.cards import JudgeCard, load_judge_card
from instruct.judging.comparison import ComparisonKey, judged_comparisons, system_name
from instruct.judging.interchange.annotation_files import RAW_FIELDS, Annotation, AnnotationFile, read_annotations
from instruct.judging.interchange.contents import Contents, check_same
from instruct.judging.interchange.json_lines import contents_of_lines, read_lines
from instruct.judging.interchange.leaderboards import export_leaderboard, is_leaderboard, read_leaderboard
from instruct.judging.presentations import Answers
from instruct.judging.store import Judgment, JudgmentStore, open_store
from instruct.judging.verdicts import read_verdict
from instruct.run.directory import RunDirectory, whole_run
from instruct.run.lock import VERDICTS, only_process
from instruct.run.replies import completion_key


def import_into_run(path: str | Path, folder: str | Path, **given: Any) -> RunDirectory:
    """Import an annotations.json or JSON lines into a run directory, new or existing; arguments as for `importing`."""
    with importing(path, folder, **given):
        pass
    return RunDirectory(folder)


@contextlib.contextmanager
def importing(path: str | Path, folder: str | Path, **given: Any) -> Iterator[RunDirectory]:
    """Import an annotations.json or JSON lines into a run directory, new or existing, to report on them.

    Answers in the file go to outputs/. A new run appears at `folder` once the block has ended without an error.

    Args:
        given: as for `read_annotations`; None for JSON lines.

    Raises:
        InputError: an invalid file; the run has different verdicts on a comparison, or different answers under a
            system's name; a name that cannot be a file's; a folder that cannot be created.
    """
    path = Path(path).expanduser()
    contents = read_contents(path, **given)
    comparisons = list(dict.fromkeys(judgment.comparison for judgment in contents.judgments))
    lines = _are_lines(path)
    with whole_run(folder, {"systems": {}, "comparisons": []}) as run:
        for name, rows in contents.answers.items():
            _check_answers(run, name, rows)
        step = f"import/{path.name}" if lines else comparisons[0].step("import", run.manifest())
        names = [comparison._asdict() for comparison in comparisons]
        about: dict[str, Any] = {"comparisons": names} if lines else {"comparison": names[0]}
        with only_process(run, VERDICTS), open_store(run) as store:
            check_same(path, store, contents.judgments)  # before the step is begun
            with run.step(step, {"file": sha256_of(path)}, **about) as results:
                contents.store_in(path, store)
                results |= {"judgments": len(contents.judgments)} if lines else contents.verdicts
                for name, rows in contents.answers.items():
                    text = json.dumps(rows, indent=1, ensure_ascii=True)
                    write_atomically(run.outputs / f"{name}.json", text + "\n")
        yield run


def _are_lines(path: Path) -> bool:
    """Whether these are this project's own lines; AlpacaEval's annotations may be in a .jsonl file, too."""
    return path.suffix.lower() == ".jsonl" and "preference" not in next(iter(read_file(path))).fields


def read_contents(path: Path, **given: Any) -> Contents:
    """What JSON lines, an annotations.json of AlpacaEval or the judgments of Arena-Hard and MT-Bench hold.

    The latter does not say in which order a pair was shown. Where the judge's raw reply does, that order is kept. All
    other verdicts get the package's seed rule and the reason UNKNOWN_ORDER, and no figure about positions counts them.

    Without a preference, a verdict is `unparsed` if the file has the judge's reply, else `failed`. If any preference is
    neither a win nor a draw nor a loss, the judge is a weighted one, and every judgment keeps its preference.

    Args:
        given: as for `read_annotations`; None for JSON lines.

    Raises:
        InputError: an invalid file.
    """
    if _are_lines(path) and is_leaderboard(next(iter(read_file(path)))):
        return read_leaderboard(list(read_file(path)), given.get("baseline"))
    if not _are_lines(path):
        return _contents(read_annotations(path, **given))
    if any(value not in (None, AnswerForm()) for value in given.values()):
        raise InputError(f"{path}: JSON lines contain their own names; leave the flags out")
    return contents_of_lines(read_lines(path))


def export_from_run(
    run: RunDirectory,
    judge: str,
    path: str | Path,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
    leaderboard: bool = False,
) -> int:
    """Write a run's verdicts on one comparison as an annotations.json; returns the number of rows.

    Args:
        leaderboard: as Arena-Hard or MT-Bench write them instead.
        candidate, baseline: the comparison, if the judge made several; a system of the run, or a file of answers.

    Raises:
        InputError: the run has no such comparison, or several.
    """
    wanted = [name and system_name(name) for name in (candidate, baseline)]
    with open_store(run, migrate=False) as store:
        made = store.comparisons()
        found = [
            each
            for each in made
            if each.judge == judge and wanted[0] in (None, each.candidate) and wanted[1] in (None, each.baseline)
        ]
        if len(found) != 1:
            known = "; ".join(" ".join(f"{one_line(n, 60)!r}" for n in names) for names in found or made)
            raise InputError(
                f"{run.store}: has {len(found) or 'no'} such comparisons by {one_line(judge, 60)!r}; name one with "
                f"--judge, --candidate and --baseline (judge, candidate, baseline: {known or 'none'})"
            )
        if leaderboard:
            return export_leaderboard(store, path, found[0], _ids_in(run, found[0].candidate))
        ours, theirs = (Answers(name, answers_in(run, name)) for name in found[0][1:])
        return export_annotations(store, judge, ours, theirs, path)


def _ids_in(run: RunDirectory, name: str) -> dict[str, str]:
    """The ids that a benchmark's questions have in a system's answers, by what identifies the row here."""
    path = run.outputs / f"{name}.json"
    raw = list(read_file(path)) if path.is_file() else []
    rows = zip(raw, load_answers(path) if raw else [], strict=True)
    return {identity(row): str(own.fields["id"]) for own, row in rows if own.fields.get("id")}


def answers_in(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """A system's answers, from the run or from the file that it was judged from; [] if there are none."""
    given = [
        Path(file)
        for _, record in judged_comparisons(run.manifest())
        for file in record["inputs"].get("answers", {})
        if file.endswith(".json") and Path(file).stem == name
    ]
    for path in (run.outputs / f"{name}.json", *given):
        if path.is_file():
            return load_answers(path)
    return []


def _contents(file: AnnotationFile) -> Contents:
    weighted = any(row.preference not in (None, *PREFERENCES.values()) for row in file.rows)
    card = _card_of(file)
    judgments: list[Judgment] = []
    replies: dict[str, Completion] = {}
    for pair, row in enumerate(file.rows):
        key = ""
        if row.completion is not None:
            key = completion_key(
                {"imported": row.completion.record(), "instruction": row.instruction, "of": file.comparison}
            )
            replies[key] = row.completion
        confirmed = _position(card, row)
        position = confirmed or ("second" if candidate_is_second(row.instruction) else "first")
        shown = row.preference if row.preference is None or position == "second" else 3 - row.preference
        verdict, reason = _verdict(row, shown)
        if verdict in EXCHANGED and confirmed is None:
            reason = UNKNOWN_ORDER
        preference = shown if weighted else None
        judgments.append(
            Judgment(*file.comparison, pair, row.identity, row.dataset, position, key, verdict, reason, preference)
        )
    return Contents(judgments, {file.comparison.judge: replies}, _answers(file))


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
    as_baseline_first, as_candidate_first = (
        math.isclose(preference, shown, abs_tol=1e-6) for preference in (row.preference, 3 - row.preference)
    )
    if as_baseline_first == as_candidate_first:
        return None
    return "second" if as_baseline_first else "first"


def _verdict(row: Annotation, shown: float | None) -> tuple[str, str | None]:
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
            {"dataset": row.dataset, "instruction": row.instruction, "output": output, "generator": name}
            | ({} if row.identity == row.instruction else {"id": row.identity})
            for row, output in zip(file.rows, outputs, strict=True)
        ]
        for name, outputs in sides.items()
        if None not in outputs
    }


def _check_answers(run: RunDirectory, name: str, rows: list[dict[str, Any]]) -> None:
    """Refuse a name that cannot be a file's, and to overwrite different answers."""
    longest = len(name) > 100 or len(name.encode(errors="replace")) > 200  # a file name has at most 255 bytes
    if not name.isprintable() or Path(name).name != name or name.startswith(".") or longest:
        raise InputError(
            f"{one_line(name, 60)!r} cannot be the name of a file of answers; give the system another name with "
            "`instruct import … --candidate NAME` or `--baseline NAME`"
        )
    path = run.outputs / f"{name}.json"
    if path.is_file() and load_answers(path) != rows:
        raise InputError(f"{path}: has different answers of that name; import into another run, or give another name")


def annotation_rows(store: JudgmentStore, judge: str, candidate: Answers, baseline: Answers) -> list[dict[str, Any]]:
    """A comparison's verdicts in AlpacaEval's schema: `preference` is 1 for the baseline, 2 for the candidate.

    AlpacaEval has one order per pair: for a pair shown in both orders, the row is that of the order drawn by its seed
    rule. A pair without a readable verdict has the preference None, which the package's metrics skip. Answers missing
    from `candidate` or `baseline` are left out.

    Raises:
        InputError: the store has no verdicts on this comparison.
    """
    judgments = store.judgments(ComparisonKey(judge, candidate.name, baseline.name))
    if not judgments:
        known = "; ".join(
            f"{one_line(j, 60)}: {one_line(c, 60)} vs. {one_line(b, 60)}" for j, c, b in store.comparisons()
        )
        raise InputError(
            f"{store.path}: has no verdicts of {one_line(judge, 60)} on {one_line(candidate.name, 60)} vs. "
            f"{one_line(baseline.name, 60)}; it has {known or 'none at all'}"
        )
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
        done = completions.get(judgment.key)
        found = {n: side[judgment.instruction] for n, side in answers.items() if judgment.instruction in side}
        row: dict[str, Any] = next(iter(found.values()), {"instruction": judgment.instruction})
        rows.append(
            {"instruction": row["instruction"], "dataset": judgment.dataset}
            | ({"id": row["id"]} if "id" in row else {})
            | {"generator_1": baseline.name, "generator_2": candidate.name, "annotator": judge}
            | {f"output_{n}": answer["output"] for n, answer in found.items()}
            | {"preference": shown if shown is None or judgment.position == "second" else 3 - shown}
            | {RAW_FIELDS[0]: None if done is None else done.choice or done.text}
        )
    return rows


def export_annotations(
    store: JudgmentStore, judge: str, candidate: Answers, baseline: Answers, path: str | Path
) -> int:
    """Write `annotation_rows` to an annotations.json, atomically; returns the number of rows."""
    rows = annotation_rows(store, judge, candidate, baseline)
    write_atomically(Path(path), json.dumps(rows, indent=2) + "\n")
    return len(rows)
