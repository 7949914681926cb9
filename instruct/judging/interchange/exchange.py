"""Verdicts in files: AlpacaEval's annotations to and from runs, judgments of Arena-Hard and MT-Bench into runs."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.files import sha256_of, write_atomically
from instruct.data.evaluation import load_answers
from instruct.data.sources import RawRow, read_file
from instruct.judging.comparison import judged_comparisons, system_name
from instruct.judging.interchange.annotation_files import annotated_contents, annotation_rows, read_annotations
from instruct.judging.interchange.contents import Contents
from instruct.judging.interchange.leaderboards import is_leaderboard, read_leaderboard
from instruct.judging.presentations import Answers
from instruct.judging.store import JudgmentStore
from instruct.run.directory import RunDirectory, whole_run
from instruct.run.lock import VERDICTS, only_process


def import_into_run(path: str | Path, folder: str | Path, **given: Any) -> RunDirectory:
    """Import a file of verdicts into a run directory, new or existing; arguments as for `importing`."""
    with importing(path, folder, **given):
        pass
    return RunDirectory(folder)


@contextlib.contextmanager
def importing(path: str | Path, folder: str | Path, **given: Any) -> Iterator[RunDirectory]:
    """Import a file of verdicts, see `read_contents`, into a run directory, new or existing, to report on them.

    Answers in the file go to outputs/. A new run appears at `folder` once the block has ended without an error.

    Args:
        given: as for `read_annotations`.

    Raises:
        InputError: an invalid file; the run has different verdicts on a comparison, or different answers under a
            system's name; a name that cannot be a file's; a folder that cannot be created.
    """
    path = Path(path).expanduser()
    contents = read_contents(path, **given)
    if not contents.judgments:
        raise InputError(f"{path}: has no verdicts; give a file that has some")
    several = _leaderboard_rows(path) is not None
    with whole_run(folder, {"systems": {}, "comparisons": []}) as run:
        for name, rows in contents.answers.items():
            kept = run.outputs / f"{name}.json"
            if kept.is_file() and load_answers(kept) != rows:
                raise InputError(
                    f"{kept}: has different answers of that name; import into another run, or give another name"
                )
        names = [comparison._asdict() for comparison in contents.comparisons]
        step = f"import/{path.name}" if several else contents.comparisons[0].step("import", run.manifest())
        about: dict[str, Any] = {"comparisons": names} if several else {"comparison": names[0]}
        with only_process(run, VERDICTS), JudgmentStore(run.store) as store:
            contents.check_same(path, store)  # before the step is begun
            with run.step(step, {"file": sha256_of(path)}, **about) as results:
                contents.store_in(store)
                verdicts = Counter(judgment.verdict for judgment in contents.judgments)
                results |= {"judgments": len(contents.judgments)} if several else verdicts
                for name, rows in contents.answers.items():
                    text = json.dumps(rows, indent=1, ensure_ascii=True)
                    write_atomically(run.outputs / f"{name}.json", text + "\n")
        yield run


def _leaderboard_rows(path: Path) -> list[RawRow] | None:
    """The rows of judgments of Arena-Hard or MT-Bench; None: the file has no such judgments."""
    if path.suffix.lower() != ".jsonl" or not is_leaderboard(next(iter(read_file(path)))):
        return None
    return list(read_file(path))


def read_contents(path: str | Path, **given: Any) -> Contents:
    """What an annotations.json of AlpacaEval or the judgments of Arena-Hard and MT-Bench hold.

    The former does not say in which order a pair was shown. Where the judge's raw reply does, that order is kept. All
    other verdicts get the package's seed rule and the reason UNKNOWN_ORDER, and no figure about positions counts them.

    Without a preference, a verdict is `unparsed` if the file has the judge's reply, else `failed`. If any preference is
    neither a win nor a draw nor a loss, the judge is a weighted one, and every judgment keeps its preference.

    Args:
        given: as for `read_annotations`.

    Raises:
        InputError: an invalid file.
    """
    path = Path(path).expanduser()
    if rows := _leaderboard_rows(path):
        return read_leaderboard(rows, given.get("baseline")).named(path)
    contents = annotated_contents(read_annotations(path, **given))
    return contents.named(path, "with `instruct report` (`candidate` or `baseline`)")


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
