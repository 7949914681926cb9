"""A comparison: which judge compares which two systems. A type and three columns, never a string to parse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from instruct.base.errors import InputError, one_line

# The step of a run of files of answers: what is compared on which prompts.
FILES = "answer files"


class ComparisonKey(NamedTuple):
    """A judge, by its card's name, and the names of the two systems that it compares."""

    judge: str
    candidate: str
    baseline: str

    @property
    def mirrored(self) -> ComparisonKey:
        """The comparison from its other side."""
        return ComparisonKey(self.judge, self.baseline, self.candidate)

    def step(self, verb: Literal["judge", "import"] = "judge", manifest: dict[str, Any] | None = None) -> str:
        """The name of the manifest's step that judges or imports this comparison, for people to read.

        Args:
            manifest: if a step of another comparison already has the name in it, a number is added.
        """
        name = step = f"{verb}/{self.judge}/{self.candidate}_vs_{self.baseline}"
        steps, number = (manifest or {}).get("steps", {}), 1
        while steps.get(step, {}).get("comparison", self._asdict()) != self._asdict():
            number += 1
            step = f"{name} ({number})"
        return step

    def record(self, manifest: dict[str, Any], verb: Literal["judge", "import"] = "judge") -> dict[str, Any]:
        """What the manifest says of the step that judged or imported this comparison; {} if there was none."""
        for step, record in manifest["steps"].items():
            if step.startswith(f"{verb}/") and record.get("comparison") == self._asdict():
                return dict(record)
        return {}

    def is_imported(self, manifest: dict[str, Any]) -> bool:
        """Whether the run read its verdicts from a file and has not asked a judge about it."""
        return not self.record(manifest) and bool(self.record(manifest, "import"))


def judged_comparisons(manifest: dict[str, Any]) -> Iterator[tuple[ComparisonKey, dict[str, Any]]]:
    """The comparisons whose judging was begun, in that order, each with its step's record."""
    for step, record in manifest["steps"].items():
        if step.startswith("judge/"):
            yield ComparisonKey(**record["comparison"]), record


def file_comparisons(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The candidates and baselines that a run of files of answers compares; [] for another run."""
    inputs = manifest["steps"].get(FILES, {}).get("inputs", {})
    return [(candidate, baseline) for candidate, baseline in inputs.get("comparisons", ())]


def system_name(answers: str) -> str:
    """A system's name, as a call or a config gives it: by itself, or as the path of a file of answers."""
    return Path(answers).stem if answers.endswith(".json") else file_name(answers)


def file_name(system: str) -> str:
    """A system's name as that of its file of answers: with hyphens for slashes, as in ORG/MODEL.

    Raises:
        InputError: it cannot be the name of a file.
    """
    name = system.replace("/", "-")
    longest = len(name) > 100 or len(name.encode(errors="replace")) > 200  # a file name has at most 255 bytes
    if not name.isprintable() or not name or name.startswith(".") or longest:
        raise InputError(f"{one_line(name, 60)!r} cannot be the name of a file of answers; rename the system")
    return name
