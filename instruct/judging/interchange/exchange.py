"""Verdicts in files: AlpacaEval's annotations to and from runs, judgments of Arena-Hard and MT-Bench into runs."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.data.evaluation import load_answers
from instruct.data.sources import read_file
from instruct.judging.comparison import ComparisonKey, file_name, judged_comparisons, system_name
from instruct.judging.interchange.annotation_files import annotation_rows, read_annotations
from instruct.judging.interchange.leaderboards import is_leaderboard, read_leaderboard
from instruct.judging.interchange.record import FileVerdict
from instruct.judging.presentations import Answers
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory, whole_run
from instruct.run.lock import VERDICTS, only_process


@contextlib.contextmanager
def importing(path: str | Path, folder: str | Path, **given: Any) -> Iterator[RunDirectory]:
    """Import a file of verdicts, see `read_verdicts`, into a run directory, new or existing, to report on them.

    Answers in the file go to outputs/. A new run appears at `folder` once the block has ended without an error.

    Args:
        given: as for `read_annotations`.

    Raises:
        InputError: an invalid file; the run has different verdicts on a comparison, or different answers under a
            system's name; a folder that cannot be created.
    """
    path = Path(path).expanduser()
    comparisons: dict[ComparisonKey, list[FileVerdict]] = {}
    for verdict in (verdicts := read_verdicts(path, **given)):
        comparisons.setdefault(verdict.judgment.comparison, []).append(verdict)
    if not comparisons:
        raise InputError(f"{path}: has no verdicts; give a file that has some")
    with whole_run(folder, {"systems": {}, "comparisons": []}) as run:
        answers = answers_of(verdicts)
        for name, rows in answers.items():
            kept = run.outputs / f"{name}.json"
            if kept.is_file() and load_answers(kept) != rows:
                raise InputError(
                    f"{kept}: has different answers of that name; import into another run, or give another name"
                )
        with only_process(run, VERDICTS), JudgmentStore(run.store) as store:
            for comparison, imported in comparisons.items():  # before the first step is begun
                stored = set(store.judgments(comparison))
                if stored and stored != {verdict.judgment for verdict in imported}:
                    judge, candidate, baseline = (one_line(name, 60) for name in comparison)
                    raise InputError(
                        f"{path}: {store.path} has different verdicts of {judge} on {candidate} vs. {baseline}; "
                        "import into another run"
                    )
            for name, rows in answers.items():
                text = json.dumps(rows, indent=1, ensure_ascii=True)
                write_atomically(run.outputs / f"{name}.json", text + "\n")
            for comparison, imported in comparisons.items():
                step, inputs = comparison.step("import", run.manifest()), {"file": sha256_of(path)}
                with run.step(step, inputs, comparison=comparison._asdict()) as results:
                    replies = [(key, reply, 0.0) for verdict in imported for key, reply in verdict.replies.items()]
                    store.add_replies(comparison.judge, replies)
                    store.add_judgments(verdict.judgment for verdict in imported)
                    results |= Counter(verdict.judgment.verdict for verdict in imported)
        yield run


def read_verdicts(path: str | Path, **given: Any) -> list[FileVerdict]:
    """The verdicts in an annotations.json of AlpacaEval, or in the judgments of Arena-Hard and MT-Bench.

    The systems' names are those of their files.

    Args:
        given: as for `read_annotations`.

    Raises:
        InputError: an invalid file, a name that cannot be a file's, or one name for two systems.
    """
    path, how = Path(path).expanduser(), "in the file"
    if path.suffix.lower() == ".jsonl" and is_leaderboard(next(iter(read_file(path)))):
        verdicts = read_leaderboard(list(read_file(path)), given.get("baseline"))
    else:
        verdicts, how = read_annotations(path, **given), "with `instruct report` (`candidate` or `baseline`)"
    names = {name: "" for verdict in verdicts for name in verdict.judgment.comparison[1:]}
    try:
        names = {name: file_name(name) for name in names}
    except InputError as error:
        raise InputError(f"{path}: {error} {how}") from None
    if len(set(names.values())) < len(names):
        one, *_ = (name for name, count in Counter(names.values()).items() if count > 1)
        raise InputError(f"{path}: two systems would be called {one_line(one, 60)!r}; rename one of them")
    return [
        replace(verdict, judgment=replace(judged, candidate=names[judged.candidate], baseline=names[judged.baseline]))
        for verdict in verdicts
        for judged in (verdict.judgment,)
    ]


def answers_of(verdicts: Sequence[FileVerdict]) -> dict[str, list[dict[str, Any]]]:
    """The answers of the systems of which the verdicts have all."""
    answers: dict[str, list[Any]] = {}
    for verdict in verdicts:
        judged, prompt = verdict.judgment, verdict.prompt
        for name, answer in dict(zip(judged.comparison[1:], verdict.answers, strict=True)).items():
            row = None
            if prompt is not None and answer is not None:
                id = {} if judged.instruction == prompt.request else {"id": judged.instruction}
                row = prompt.row(answer, name, **id)
            answers.setdefault(name, []).append(row)
    return {name: rows for name, rows in answers.items() if None not in rows}


def export_from_run(
    run: RunDirectory,
    judge: str,
    path: str | Path,
    *,
    candidate: str | None = None,
    baseline: str | None = None,
) -> int:
    """Write a run's verdicts on one comparison as an annotations.json; returns the number of rows.

    Args:
        candidate, baseline: the comparison, if the judge made several; a system of the run, or a file of answers.

    Raises:
        InputError: the run has no such comparison, or several.
    """
    wanted = [judge, *(name and system_name(name) for name in (candidate, baseline))]
    with JudgmentStore(run.store) as store:
        made = store.comparisons()
        if candidate or baseline:  # either side can be asked for
            made += [key.mirrored for key in made if key.mirrored not in made]
        fitting = [key for key in made if all(ours in (None, its) for ours, its in zip(wanted, key, strict=True))]
        if len(fitting) != 1:
            known = "; ".join(" ".join(f"{one_line(n, 60)!r}" for n in names) for names in fitting or made)
            raise InputError(
                f"{run.store}: has {len(fitting) or 'no'} such comparisons by {one_line(judge, 60)!r}; name one with "
                f"`judge`, `candidate` and `baseline` (judge, candidate, baseline: {known or 'none'})"
            )
        rows = annotation_rows(store, judge, *(Answers(name, answers_in(run, name)) for name in fitting[0][1:]))
    write_atomically(Path(path), json.dumps(rows, indent=2) + "\n")
    return len(rows)


def answers_in(run: RunDirectory, name: str) -> list[dict[str, Any]]:
    """A system's answers, from the run or from the file that it was judged from; [] if there are none."""
    files = [
        Path(file)
        for _, record in judged_comparisons(run.manifest())
        for file in record["inputs"].get("answers", {})
        if file.endswith(".json") and Path(file).stem == name
    ]
    for path in (run.outputs / f"{name}.json", *files):
        if path.is_file():
            return load_answers(path)
    return []
