"""What a file of verdicts holds, and how it comes into a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from instruct.base.errors import InputError, one_line
from instruct.base.replies import Completion
from instruct.judging.comparison import ComparisonKey, file_name
from instruct.judging.store import Judgment, JudgmentStore


@dataclass(frozen=True)
class Contents:
    """What a file of verdicts holds: the verdicts; by judge and key, the replies that they were read from; and answers.

    The `answers` are by system, if the file has them.
    """

    judgments: list[Judgment]
    replies: dict[str, dict[str, Completion]]
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def comparisons(self) -> list[ComparisonKey]:
        """The comparisons, in the order of the file."""
        return list(dict.fromkeys(judgment.comparison for judgment in self.judgments))

    def named(self, path: Path, how: str = "in the file") -> Contents:
        """With the systems' names as those of their files; `path` is the file that they come from.

        Args:
            how: a system can be given another name, for errors.

        Raises:
            InputError: a name that cannot be a file's, or one name for two systems.
        """
        names = dict.fromkeys(name for comparison in self.comparisons for name in comparison[1:])
        try:
            files = {name: file_name(name) for name in names}
        except InputError as error:
            raise InputError(f"{path}: {error} {how}") from None
        if len(set(files.values())) < len(files):
            one, *_ = (name for name, count in Counter(files.values()).items() if count > 1)
            raise InputError(f"{path}: two systems would be called {one_line(one, 60)!r}; rename one of them")
        judgments = [replace(j, candidate=files[j.candidate], baseline=files[j.baseline]) for j in self.judgments]
        answers = {
            files[name]: [row | {"generator": files[name]} for row in rows] for name, rows in self.answers.items()
        }
        return Contents(judgments, self.replies, answers)

    def check_same(self, path: Path, store: JudgmentStore) -> None:
        """Refuse to mix or overwrite verdicts on the same comparison; `path` is the file that these come from.

        Raises:
            InputError: the store has different verdicts on a comparison.
        """
        for comparison in self.comparisons:
            stored = set(store.judgments(comparison))
            if stored and stored != {judged for judged in self.judgments if judged.comparison == comparison}:
                judge, candidate, baseline = (one_line(name, 60) for name in comparison)
                raise InputError(
                    f"{path}: {store.path} has different verdicts of {judge} on {candidate} vs. {baseline}; "
                    "import into another run"
                )

    def store_in(self, store: JudgmentStore) -> None:
        """Add the replies and the verdicts to a store."""
        for judge, replies in self.replies.items():
            store.add_replies(judge, [(key, reply, 0.0) for key, reply in replies.items()])
        store.add_judgments(self.judgments)
