"""The primary outcome of a run, which was stated before its results existed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from instruct.analysis.claims import LEAST_SEEDS
from instruct.analysis.results import Claim
from instruct.base.errors import InputError, one_line
from instruct.judging.store import was_judged
from instruct.reporting.comparison import SINGLE_SEEDS
from instruct.reporting.model import ReportWarning, claim_warning
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path

STEP = "stated"  # of the manifest


class Stated(NamedTuple):
    """`primary`: the name of an outcome; `in_advance`: as it was before results existed."""

    primary: str | None = None
    in_advance: str | None = None

    @property
    def late(self) -> bool:
        """Whether it is another one than before results existed."""
        return self.primary != self.in_advance


def stated(manifest: Mapping[str, Any]) -> Stated:
    """What a run's manifest has."""
    record = manifest["steps"].get(STEP)
    if not record or record["status"] != "done":
        return Stated()
    return Stated(record["inputs"]["primary"], record["results"]["in_advance"])


def stated_words(said: Stated) -> dict[str, str]:
    """What was stated, for people."""
    late = " (set after results existed)" * said.late
    return {"primary outcome": one_line(said.primary, 100) + late} if said.primary else {}


def check_primary(primary: str | None, names: Iterable[str]) -> None:
    """Refuse a primary outcome that has none of these names: InputError. TASK/METRIC stands for any metric, and a task
    with options is called like TASK-sum."""
    names = list(dict.fromkeys(names))
    task = (primary or "").rpartition("/")[0]
    of_tasks = [name.removesuffix("/METRIC") for name in names if name.endswith("/METRIC")]
    if primary not in (None, *names) and not any(task == name or task.startswith(f"{name}-") for name in of_tasks):
        known = ", ".join(map(one_line, names)) or "none: the config has no judges, text metrics or tasks"
        raise InputError(
            f"primary: {one_line(primary, 60)} is not an outcome of this run (its outcomes: {known}); "
            "name one of them, or null for none"
        )


def state(run: RunDirectory, primary: str | None) -> None:
    """Write down the primary outcome (None: as it was), and which one it was before results existed."""
    before = stated(run.manifest())
    if primary in (None, before.primary):
        return
    results = was_judged(run) or metrics_path(run).is_file()
    with run.step(STEP, {"primary": primary}) as record:
        record["in_advance"] = before.in_advance if results else primary


def apply_stated(said: Stated, claims: Sequence[Claim]) -> list[ReportWarning]:
    """Mark the primary outcome among claims that are not settled yet; what a reader must know about it.

    A primary outcome that was set after results existed is none.
    """
    if said.primary is None:
        return []
    shown = one_line(said.primary, 100)
    if said.late:
        text = f"{shown} was made the primary outcome after results existed: it is corrected like the others"
        return [claim_warning(text)]
    for claim in claims:
        claim.primary = claim.outcome == said.primary and claim.family != SINGLE_SEEDS if claim.family else None
        if claim.primary and claim.enough is None:
            claim.enough = claim.trainings == 1 or claim.trainings >= LEAST_SEEDS
    missing = not any(claim.primary for claim in claims)
    return [claim_warning(f"there is no claim about the primary outcome {shown} yet")] if missing else []
