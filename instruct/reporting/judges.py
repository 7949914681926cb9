"""What a report says of its judges: the cards as they are now, and how far they are those that judged."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from instruct.errors import InputError, one_line
from instruct.judging.cards import JudgeCard, agreement_words, load_judge_card
from instruct.reporting.schema import Judge


def card_of(name: str, step: dict[str, Any]) -> tuple[JudgeCard | None, str | None]:
    """A judge's card, by its name in the store and what the manifest says of its judging; else None, and why."""
    given = step.get("inputs", {}).get("judge", {})
    base, _, other = name.partition("@")
    path = given.get("card", base)  # the call may have given the card by its path
    try:
        card = load_judge_card(path if Path(path).exists() else base, model=given.get("model") or other or None)
        agreement_words(card)  # compares the card with the one that was measured
        return card, None
    except InputError as error:
        return None, one_line(error)


def describe(name: str, card: JudgeCard | None, problem: str | None, usd: float, imported: bool = False) -> Judge:
    """A judge without its comparisons; of one that has no card, its name is all there is, `imported` from a file."""
    if card is None:
        return Judge(
            name=name,
            description="known by its name alone, from the file that its verdicts were read from" if imported else "",
            model="unknown",
            other_model=False,
            human_agreement=None,
            agreement="unknown, without the judge's card",
            warning=None,
            warnings=[f"the judge has no card here ({problem}); disagreement between orders counts as a tie"],
            notes=None,
            usd=usd,
            comparisons=[],
        )
    return Judge(
        name=name,
        description=card.description,
        model=card.model,
        other_model="@" in card.name,
        human_agreement=card.human_agreement,
        agreement=agreement_words(card),
        warning=card.warning,
        warnings=[],
        notes=card.notes,
        usd=usd,
        comparisons=[],
    )


def changed_card(card: JudgeCard | None, step: dict[str, Any]) -> list[str]:
    """A warning where the card makes other verdicts now than when its verdicts were made, or none at all."""
    digest = step.get("inputs", {}).get("card")
    if card is None or digest is None:
        return []
    try:
        changed = card.sha256() != digest
    except InputError as error:
        return [f"the judge's card is no longer whole: {one_line(error)}"]
    return ["the judge's card has changed since these verdicts were made; judge again"] * changed


def figure_names(judges: list[Judge], others: Collection[str] = ()) -> dict[str, str]:
    """A file's stem for each judge's figure: two names may come down to one, on some disks by their case alone.

    `others`: the stems of further figures.
    """
    found: dict[str, str] = {}
    for number, judge in enumerate(judges, 1):
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", judge["name"]).strip("-")[:60] or "judge"
        taken = {other.lower() for other in [*others, *found.values()]}
        found[judge["name"]] = f"{stem}-{number}" if stem.lower() in taken else stem
    return found
