"""The pairs that a judge was trained on: agreement on them says how well it remembers, not how well it judges."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from instruct.base.files import write_atomically
from instruct.judging.cards import JudgeCard
from instruct.validation.human_sets import HumanPair

# Next to the card of a trained judge.
FILE = "trained_on.txt"


def pair_hash(pair: HumanPair) -> str:
    """16 digits that are the same in every file, in both orders and for every label of a pair."""
    texts = [pair.instruction.strip(), pair.input.strip(), *sorted((pair.first.strip(), pair.second.strip()))]
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
