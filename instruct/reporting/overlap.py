"""What a run recorded about evaluation prompts in its training data."""

from __future__ import annotations

from typing import Any

from instruct.data.overlap import overlap_text
from instruct.reporting.model import OverlapReport


def recorded_overlap(manifest: dict[str, Any]) -> OverlapReport | None:
    """The overlap that the run counted; None if it counted none, or with other prompts or rows than its systems'."""
    steps = manifest["steps"]
    record = steps.get("overlap", {})
    if record.get("status") != "done":
        return None
    trained = {step["inputs"].get("data") for name, step in steps.items() if name.startswith("train/")}
    answered = steps.get("answers", {}).get("inputs", {}).get("prompts")
    inputs = record["inputs"]
    if trained != {inputs["data"]} or answered not in (None, inputs["prompts"]):
        return None
    return OverlapReport(**{name: record["results"][name] for name in OverlapReport.model_fields})


def overlap_warnings(
    manifest: dict[str, Any], overlap: OverlapReport | None, candidate: str, baseline: str
) -> list[str]:
    """A warning for a comparison with a system that was trained on rows in which evaluation prompts were found."""
    if overlap is None or not (overlap.exact or overlap.shared):
        return []
    trained = [name for name in (candidate, baseline) if f"train/{name}" in manifest["steps"]]
    if not trained:
        return []
    return [f"{overlap_text(overlap.model_dump())}, on which {' and '.join(trained)} trained"]
