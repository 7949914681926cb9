"""The record of a verdict in a file, whichever tool wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field

from instruct.base.replies import Completion
from instruct.data.prompts import EvalPrompt
from instruct.judging.store import Judgment


@dataclass(frozen=True)
class FileVerdict:
    """One verdict of a file, and what the file has beside it.

    Attributes:
        judgment: the names, the pair, the order and the verdict; a name that the file leaves out is empty.
        place: the file and the row, for errors.
        prompt: None if the file has only what identifies it.
        answers: the candidate's and the baseline's; None if the file leaves it out.
        replies: of the judge, by the keys in the judgment.
        margin: by which the answer shown first is preferred, if the file has it.
    """

    judgment: Judgment
    place: str
    prompt: EvalPrompt | None = None
    answers: tuple[str | None, str | None] = (None, None)
    replies: dict[str, Completion] = field(default_factory=dict)
    margin: float | None = None
