"""Whether what a comparison rests on fits together: verdicts, answers, weights, templates, versions."""

from __future__ import annotations

import contextlib
import importlib.metadata
from pathlib import Path
from typing import Any

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard
from instruct.runs import RunDirectory, sha256_of

# Hashed again for every report up to here, which takes a second; of larger weights, what training recorded is believed.
_LARGEST = 2**30


def lineage_warnings(
    run: RunDirectory, manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]
) -> list[str]:
    """Where what was judged is not what lies in the run, or was not made the way the run says.

    Args:
        card: the judge's, None if it is missing.
        step: what the manifest says of the judging, {} where it says nothing, as of verdicts from elsewhere.
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
    """How a system of the run was trained and answered; `digest` None: its answers are gone, or warned of already."""
    steps, shown = manifest["steps"], one_line(name, 60)
    answered, trained = steps.get("answers", {}), steps.get(f"train/{name}", {})
    generated = answered.get("results", {}).get(name, {}).get("sha256")
    if generated is None:
        return []
    if digest is not None and digest != generated:
        return [f"the answers of {shown} are others than this run generated"]
    found = []
    template, wanted = answered["inputs"].get("template"), trained.get("inputs", {}).get("template")
    if template and wanted and template != wanted:
        found.append(f"{shown} answered with the template {template}, and was trained with {wanted}")
    weights = answered["inputs"].get("weights", {}).get(name)
    now = _weights(run.adapters / name, trained.get("results", {}).get("sha256", {}))
    if weights and now and weights != now:
        found.append(f"the weights of {shown} have changed since it answered; generate and judge again")
    return found


def _weights(folder: Path, recorded: dict[str, str]) -> str | None:
    """The hash of the file that answers name: the first one. None where it is gone, and nothing is known of it."""
    files = sorted(folder.glob("*.safetensors"))
    if files and files[0].stat().st_size <= _LARGEST:
        return sha256_of(files[0])
    return recorded.get(min(recorded)) if recorded else None


def _package(manifest: dict[str, Any], card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """An annotator's prompts, parser and seed rule are those of the installed alpaca-eval."""
    judged = (manifest["versions"] | step.get("versions", {})).get("alpaca-eval")
    now = None
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        now = importlib.metadata.version("alpaca-eval")
    if card is None or not card.annotator or not step or None in (judged, now) or judged == now:
        return []
    return [f"alpaca-eval was {one_line(judged, 40)} when these verdicts were made, and is {now} now"]


def _changed_card(card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """Whether the card gives other verdicts now than when its verdicts were made, or none at all."""
    digest = step.get("inputs", {}).get("card")
    if card is None or digest is None:
        return []
    try:
        changed = card.sha256() != digest
    except InputError as error:
        return [f"the judge's card is no longer whole: {one_line(error)}"]
    return ["the judge's card has changed since these verdicts were made; judge again"] * changed
