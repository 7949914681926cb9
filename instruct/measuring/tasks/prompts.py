"""Prompts of a task: demonstrations, the text to be labeled, and each label as its continuation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from instruct.measuring.tasks.cards import TaskCard, Wording
from instruct.measuring.tasks.rows import TaskRow, shown

_MARK = "{label}"


@dataclass(frozen=True)
class Prompt:
    """What a model reads for a test row: `context` followed by each of `continuations`, in the labels' order.

    White space before the label is the continuation's, as in lm-eval, because tokenizers join it with the next word.
    """

    context: str
    continuations: list[str]


class PromptWriter:
    """Writes the prompts of a task in one wording."""

    def __init__(self, card: TaskCard, wording: Wording) -> None:
        self._wording = wording
        self._spoken = {label: wording.verbalizers.get(label, label) for label in card.labels}
        before, _, after = wording.template.partition(_MARK)
        self._before = before.rstrip()
        self._space, self._after = before[len(self._before) :], after

    def demonstration(self, row: TaskRow) -> str:
        """A row with its label."""
        return shown({**row.fields, "label": self._spoken[row.label]}, self._wording.template)

    def prompt(self, row: TaskRow, demonstrations: Sequence[TaskRow]) -> Prompt:
        """The prompt of a test row after these demonstrations."""
        parts = [*map(self.demonstration, demonstrations), shown(row.fields, self._before)]
        return Prompt(self.hint(row) + self._wording.separator.join(parts), self.continuations(row.fields))

    def hint(self, row: TaskRow) -> str:
        """What comes before the demonstrations."""
        return shown({name: text.replace("_", " ") for name, text in row.fields.items()}, self._wording.hint)

    def continuations(self, fields: Mapping[str, str]) -> list[str]:
        """Each label in the template, with the white space before it and all that follows."""
        return [self._space + spoken + shown(fields, self._after) for spoken in self._spoken.values()]
