"""Consistency of what a comparison rests on: verdicts, answers, weights, templates, versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
from pathlib import Path
from typing import Any

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.runs import RunDirectory, sha256_of

# Bytes; up to this size weights are hashed again for every report, beyond it the hash that training recorded is used.
_LARGEST = 2**30


def lineage_warnings(
    run: RunDirectory, manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]
) -> list[str]:
    """Mismatches between what was judged and what the run holds, or between the steps that made it.

    Args:
        card: the judge's, None if it is missing.
        step: the manifest's record of the judging, {} if there is none, as for imported verdicts.
    """
    found = [*_changed_card(card, step), *_package(manifest, card, step)]
    for name, judged in step.get("inputs", {}).get("answers", {}).items():
        path = run.answers_path(name)
        shown = one_line(path.stem, 60)
        digest = sha256_of(path) if path.is_file() else None
        if digest is not None and digest != judged:
            found.append(f"the answers of {shown} have changed since they were judged; judge again")
        if not name.endswith(".json"):
            found += _made(run, manifest, name, digest if digest == judged else None)
    return found


def _made(run: RunDirectory, manifest: dict[str, Any], name: str, digest: str | None) -> list[str]:
    """How a system of the run was trained and answered; `digest` None: its answers are missing or already reported."""
    steps, shown = manifest["steps"], one_line(name, 60)
    answered, trained = steps.get("answers", {}), steps.get(f"train/{name}", {})
    generated = answered.get("results", {}).get(name, {}).get("sha256")
    if generated is None:
        return []
    if digest is not None and digest != generated:
        return [f"the answers of {shown} are not those that this run generated"]
    found = []
    template, wanted = answered["inputs"].get("template"), trained.get("inputs", {}).get("template")
    if template and wanted and template != wanted:
        found.append(f"{shown} answered with the template {template} but was trained with {wanted}")
    weights = answered["inputs"].get("weights", {}).get(name)
    now = _weights(run.adapters / name, trained.get("results", {}).get("sha256", {}))
    if weights and now and weights != now:
        found.append(f"the weights of {shown} have changed since it answered; generate and judge again")
    return found


def _weights(folder: Path, recorded: dict[str, str]) -> str | None:
    """The hash of the first weight file, which the answers' step records; None if it is missing and unrecorded."""
    files = sorted(folder.glob("*.safetensors"))
    if files and files[0].stat().st_size <= _LARGEST:
        return sha256_of(files[0])
    return recorded.get(min(recorded)) if recorded else None


def _package(manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """Whether alpaca-eval changed: an annotator's prompts, parser and seed rule come from the installed package."""
    judged = (manifest["versions"] | step.get("versions", {})).get("alpaca-eval")
    now = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        now = importlib.metadata.version("alpaca-eval")
    if card is None or not card.annotator or not step or None in (judged, now) or judged == now:
        return []
    return [f"alpaca-eval was {one_line(judged, 40)} when these verdicts were made and is {now} now"]


def _changed_card(card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """Whether the card gives other verdicts now than when its verdicts were made, or none at all."""
    digest = step.get("inputs", {}).get("card")
    if card is None or digest is None:
        return []
    try:
        changed = card.sha256() != digest
    except InputError as error:
        return [f"the judge's card can no longer be read in full: {one_line(error)}"]
    return ["the judge's card has changed since these verdicts were made; judge again"] * changed
