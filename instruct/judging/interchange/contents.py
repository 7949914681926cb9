"""What a file of verdicts holds, ready for a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from instruct.analysis.outcomes import UNKNOWN_ORDER
from instruct.base.errors import InputError, one_line
from instruct.base.replies import Completion
from instruct.judging.comparison import ComparisonKey
from instruct.judging.store import Judgment, JudgmentStore


@dataclass(frozen=True)
class Contents:
    """Verdicts; the replies that they were read from, by judge and key; and answers by system, if the file has them."""

    judgments: list[Judgment]
    replies: dict[str, dict[str, Completion]]
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many of each verdict there are, in the order shown."""
        return dict(Counter(judgment.verdict for judgment in self.judgments))

    def store_in(self, path: Path, store: JudgmentStore) -> None:
        """Add the replies and the verdicts to a store; `path` is the file that they come from.

        Raises:
            InputError: the store has different verdicts on a comparison.
        """
        check_same(path, store, self.judgments)
        for judge, replies in self.replies.items():
            store.add_replies(judge, [(key, reply, 0.0) for key, reply in replies.items()])
        store.add_judgments(self.judgments)


def check_same(path: Path, store: JudgmentStore, judgments: Iterable[Judgment]) -> None:
    """Refuse to mix or overwrite verdicts on the same comparison.

    Raises:
        InputError: the store has different verdicts on it.
    """
    ours: dict[ComparisonKey, list[Judgment]] = {}
    for judgment in judgments:
        ours.setdefault(judgment.comparison, []).append(judgment)
    for comparison, wanted in ours.items():
        stored = store.judgments(comparison)
        if stored and _ordered(stored) != _ordered(wanted):
            judge, candidate, baseline = (one_line(name, 60) for name in comparison)
            raise InputError(
                f"{path}: {store.path} has different verdicts of {judge} on {candidate} vs. {baseline}; "
                "import into another run"
            )


def _ordered(judgments: list[Judgment]) -> list[Judgment]:
    # A store that an earlier version imported the same file into has an order without UNKNOWN_ORDER.
    judgments = [replace(one, reason=None) if one.reason == UNKNOWN_ORDER else one for one in judgments]
    return sorted(judgments, key=lambda judgment: (judgment.pair, judgment.position, judgment.instruction))
