"""What was stated about a run's claims before its results existed: the margin and the primary outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from instruct.analysis.claims import LEAST_SEEDS, add_margin
from instruct.analysis.results import WIN_RATE, Claim
from instruct.base.errors import InputError, one_line
from instruct.judging.store import was_judged
from instruct.reporting.comparison import SINGLE_SEEDS
from instruct.reporting.model import ReportWarning, claim_warning
from instruct.run.directory import RunDirectory
from instruct.run.measurements import metrics_path

STEP = "stated"  # of the manifest


class Stated(NamedTuple):
    """`margin`: in points of a win rate. `primary`: the name of an outcome. `in_advance`: both, as they were before
    results existed."""

    margin: float | None = None
    primary: str | None = None
    in_advance: Mapping[str, Any] = {"margin": None, "primary": None}

    @property
    def late(self) -> list[str]:
        """Which of the two are other than before results existed."""
        return [name for name, value in self.in_advance.items() if value != getattr(self, name)]


def stated(manifest: Mapping[str, Any]) -> Stated:
    """What a run's manifest has."""
    record = manifest["steps"].get(STEP)
    if not record or record["status"] != "done":
        return Stated()
    return Stated(record["inputs"]["margin"], record["inputs"]["primary"], record["results"]["in_advance"])


def stated_words(said: Stated) -> dict[str, str]:
    """What was stated, for people."""
    late = dict.fromkeys(said.late, " (set after results existed)")
    words = {"primary outcome": one_line(said.primary, 100) + late.get("primary", "")} if said.primary else {}
    return words | ({"margin": f"{said.margin:g} points" + late.get("margin", "")} if said.margin else {})


def check_margin(margin: float | None) -> None:
    """Refuse a margin that is not between 0 and 50 points: InputError."""
    if margin is not None and not 0 < margin < 50:
        raise InputError(f"margin {margin:g}: must be more than 0 and less than 50 points of a win rate")


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


def state(run: RunDirectory, **changes: Any) -> None:
    """Write down the margin and the primary outcome (None: as they were), and whether results existed already.

    Raises:
        InputError: a margin that is not between 0 and 50 points.
    """
    before = stated(run.manifest())
    changes = {name: value for name, value in changes.items() if value is not None}
    check_margin(changes.get("margin"))
    if all(value == getattr(before, name) for name, value in changes.items()):
        return
    said = {"margin": before.margin, "primary": before.primary} | changes
    results = was_judged(run) or metrics_path(run).is_file()
    with run.step(STEP, said) as record:
        record["in_advance"] = dict(before.in_advance) if results else said


def apply_stated(said: Stated, claims: Sequence[Claim]) -> list[ReportWarning]:
    """Add what was stated to claims that are not settled yet; what a reader must know about it.

    A primary outcome that was set after results existed is none.
    """
    for claim in claims if said.margin else ():
        if claim.kind == "rate" and claim.measure == WIN_RATE and claim.family:
            add_margin(claim, said.margin or 0.0, late="margin" in said.late)
    if said.primary is None:
        return []
    shown = one_line(said.primary, 100)
    if "primary" in said.late:
        text = f"{shown} was made the primary outcome after results existed: it is corrected like the others"
        return [claim_warning(text)]
    for claim in claims:
        claim.primary = claim.outcome == said.primary and claim.family != SINGLE_SEEDS if claim.family else None
        if claim.primary and claim.enough is None:
            claim.enough = claim.trainings == 1 or claim.trainings >= LEAST_SEEDS
    missing = not any(claim.primary for claim in claims)
    return [claim_warning(f"there is no claim about the primary outcome {shown} yet")] if missing else []
