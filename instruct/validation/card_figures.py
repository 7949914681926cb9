"""A judge's agreement with human labels in its own card: `human_agreement` in judge.yaml; and the pairs that a judge
was trained on: agreement on them says how well it remembers, not how well it judges.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from instruct.base.cards import PACKAGE, find_card
from instruct.base.errors import InputError, counted
from instruct.base.files import write_atomically
from instruct.judging.cards import JudgeCard
from instruct.judging.human_agreement import LEAST_PAIRS, HumanAgreement, rounded_figures
from instruct.judging.options import JudgeOptions
from instruct.validation.agreement import Agreement
from instruct.validation.human_sets import HumanPair, HumanSet

# Next to the card of a trained judge.
FILE = "trained_on.txt"
# With the lines that are indented below it.
_BLOCK = re.compile(r"^human_agreement:.*\n?(?:(?:[ \t]*\n)*[ \t]+\S.*\n?)*", re.MULTILINE)


def writable_card(judge: JudgeOptions) -> Path:
    """The judge.yaml that the figures go into.

    Raises:
        InputError: another judge than the card's is measured, or the card is part of the installation.
    """
    if judge.model or judge.criteria:
        raise InputError(
            "`write_card`: `model` and `criteria` measure another judge than the card's; give it a card of its own"
        )
    path = find_card("judges", judge.card)
    if (PACKAGE / "_cards") in path.resolve().parents:
        raise InputError(f"{path}: is the installed card; copy its folder to ./judges and use that one")
    return path


def check_measures(human: HumanSet, trained: int) -> None:
    """Refuse figures that do not measure the judge.

    Args:
        trained: how many of the pairs it was trained on.

    Raises:
        InputError: it was trained on some of them, or there are too few.
    """
    if trained:
        raise InputError(
            f"`write_card`: the judge was trained on {trained} of the {counted(len(human.pairs), 'pair')} of "
            f"{human.name}, so they do not measure it; measure it on pairs that it has not seen"
        )
    if len(human.pairs) < LEAST_PAIRS:
        raise InputError(
            f"`write_card`: {human.name} has {counted(len(human.pairs), 'pair')}, and a card's figure takes at least "
            f"{LEAST_PAIRS}; leave it out"
        )


def card_figures(agreement: Agreement, card: JudgeCard | None, about: str | None = None) -> HumanAgreement:
    """A set's entry under `human_agreement`, in percent; accuracy, kappa and p-value are of the set's own order.

    Args:
        card: the one that made the verdicts; None if that is not known.
        about: how the verdicts came about, if the judge was not simply asked.
    """
    accuracy, kappa = (agreement.measurements["listed", metric, ""] for metric in ("accuracy", "kappa"))
    return rounded_figures(
        {
            "pairs": agreement.pairs,
            "accuracy": accuracy.value,
            "accuracy_interval": accuracy.interval,
            "kappa": kappa.value,
            "kappa_interval": kappa.interval,
            "yardstick": agreement.names[agreement.best],
            "yardstick_accuracy": agreement.value(agreement.best, "accuracy"),
            "yardstick_p": agreement.claims[0].p,
            "both_orders": agreement.value("judge", "both_orders"),
            "consistency": agreement.value("judge", "consistency"),
            "first_position_rate": agreement.value("judge", "first_position"),
            "judge": card.sha256()[:12] if card else None,
            "measured": datetime.now(UTC).date().isoformat(),
            "verdicts": about,
        }
    )


def write_human_agreement(path: Path, name: str, figures: Mapping[str, Any]) -> None:
    """Put a set's figures into a judge.yaml; every line outside `human_agreement` stays as it is.

    Raises:
        InputError: `human_agreement` is written in a way that cannot be replaced without changing other lines.
    """
    text = path.read_text(encoding="utf-8")
    old = yaml.safe_load(text)
    measured = {**(old.get("human_agreement") or {}), name: dict(figures)}
    block = yaml.safe_dump({"human_agreement": measured}, sort_keys=False, default_flow_style=None, width=120)
    found = _BLOCK.search(text)
    start, end = found.span() if found else (len(text), len(text))
    before = text[:start]
    changed = before + "\n" * (before != "" and before[-1] != "\n") + block + text[end:]
    try:
        unchanged = yaml.safe_load(changed) == {**old, **yaml.safe_load(block)}
    except yaml.YAMLError:
        unchanged = False
    if not unchanged:
        raise InputError(f"{path}: cannot replace human_agreement alone; write it as a block on lines of its own")
    write_atomically(path, changed)


def pair_hash(pair: HumanPair) -> str:
    """16 digits that are the same in every file, in both orders and for every label of a pair."""
    asked = [pair.prompt.instruction.strip(), pair.prompt.input.strip()]
    texts = [*asked, *sorted((pair.first.strip(), pair.second.strip()))]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16]


def write_training_pairs(folder: Path, pairs: Iterable[HumanPair]) -> None:
    """Write the hashes next to a card, which names them with `trained_on: trained_on.txt`."""
    write_atomically(folder / FILE, "".join(f"{digest}\n" for digest in sorted(set(map(pair_hash, pairs)))))


def trained_on(card: JudgeCard | None, pairs: Iterable[HumanPair]) -> int:
    """How many of the pairs the card's judge was trained on, as far as its card says.

    Raises:
        InputError: the card names a file that does not exist.
    """
    if card is None or card.trained_on is None:
        return 0
    file = card.file_beside(card.trained_on, "file", "the hashes of its training pairs")
    hashes = set(file.read_text(encoding="utf-8").split())
    return sum(pair_hash(pair) in hashes for pair in pairs)
