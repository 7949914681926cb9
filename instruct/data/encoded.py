"""Rows as token ids: what became of each, what all of them have, and what the user has to know about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from instruct.base.errors import counted
from instruct.data.arrow import RowFolder, numbers

if TYPE_CHECKING:
    from datasets import Dataset, Features

Status = Literal["kept", "truncated", "empty", "fully_masked"]
LISTS, NUMBERS = ("input_ids", "labels"), ("length", "completion_length", "tokens", "loss_tokens", "chat")
# A warning says so if a larger share of the answers loses its end token.
MOST_CUT = 0.01
PERCENTILES = (50, 90, 95, 99, 100)
TRAINED: tuple[Status, ...] = ("kept", "truncated")


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """A row's token ids.

    Attributes:
        input_ids: the row up to the end token of its last answer; truncated to the maximum length.
        length: its tokens before truncation.
        trained: where the parts that are trained on begin and end, before truncation, in order: answers with their end
            tokens, or everything.
        chat: the number of the row that it was made of, which becomes several if a template renders its past
            differently for each answer.
        status: `kept`: complete; `truncated`: an answer lost its end token and possibly more; `fully_masked`: no token
            to train on is left; `empty`: there was no response.
    """

    input_ids: list[int]
    length: int
    trained: tuple[tuple[int, int], ...]
    status: Status
    chat: int = 0

    @property
    def cut_answers(self) -> int:
        """The answers that lost their end token to truncation."""
        return sum(end > len(self.input_ids) for _, end in self.trained)

    @property
    def completion_length(self) -> int:
        """The tokens that are trained on, before truncation."""
        return sum(end - begin for begin, end in self.trained)

    @property
    def tokens(self) -> int:
        """The tokens after truncation."""
        return len(self.input_ids)

    @property
    def loss_tokens(self) -> int:
        """Those of them that are trained on."""
        return sum(self.completion_mask)

    @property
    def completion_mask(self) -> list[int]:
        """As long as `input_ids`: 1 on what is trained on, 0 on the rest."""
        mask = [0] * len(self.input_ids)
        for begin, end in self.trained:
            end = min(end, len(mask))
            mask[begin:end] = [1] * (end - begin)
        return mask

    @property
    def labels(self) -> list[int]:
        """As long as `input_ids`: the token id on what is trained on, -100 on the rest."""
        return [token if on else -100 for token, on in zip(self.input_ids, self.completion_mask, strict=True)]


@dataclass(frozen=True)
class EncodedRows:
    """All rows of a RowSet, encoded.

    Attributes:
        encoded: on disk, one or several rows for each row of the RowSet, in its order, including those that are not
            trained on, but not those that the template rejects: its `place` and EncodedRow's attributes but `trained`.
        trainable: those with a response token, in order; of a mixture, those of an epoch, some of which may repeat.
        counts: the number of rows of the RowSet by status, and of those `rejected`; `empty` includes those that the
            RowSet left out. Only `kept` and `truncated` rows are trained on.
        folder: that holds the data set's files.
        facts: counts of answers, see `ChatTemplate.facts`; of all answers' `ends`, and of those `cut` off; of `chats`
            that became several rows, these `rows`, and their `repeated` tokens.
        bad: rows that were left out, with what is wrong, as far as they are listed.
    """

    encoded: Dataset
    trainable: Dataset
    counts: dict[str, int]
    folder: RowFolder
    facts: dict[str, int] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """What the user has to know about the text that is trained on, one line each."""
        return [*fact_notes(self.facts), *(f"left out: {problem}" for problem in self.bad)]

    def dataset(self) -> Dataset:
        """`trainable` with the columns `input_ids` and `labels` alone, lists of integers."""
        return self.trainable.select_columns(["input_ids", "labels"])


def fact_notes(counts: Mapping[str, int]) -> list[str]:
    """What the user has to know about the text that is trained on, one line each, from `EncodedRows.facts`."""
    facts = Counter(counts)
    notes = []
    if facts["thinking"] or facts["without"]:
        how = "with an empty thought" if facts["empty"] else "asked with thinking turned off"
        without = f", {facts['without']:,} without, {how}" if facts["without"] else ""
        notes.append(f"{counted(facts['thinking'], 'answer')} with thinking{without}")
    for name, mode in (("asked_on", "true"), ("asked_off", "false")):
        if facts[name]:
            notes.append(
                f"{counted(facts[name], 'answer')} after a prompt that a server sends only with "
                f'chat_template_kwargs {{"enable_thinking": {mode}}}'
            )
    if facts["empty"]:
        notes.append(
            f"{counted(facts['empty'], 'empty thought')} trained on, which teaches the model not to think "
            "(data.empty_thinking: train)"
        )
    if facts["beside"]:
        notes.append(
            f"{counted(facts['beside'], 'answer')} with text beside a tool call: the chat template drops the text"
        )
    if facts["system"]:
        notes.append(
            f"{counted(facts['system'], 'chat')} with a system turn, which the chat template rejects: its text "
            "begins the first user turn; ask the model in the same way, because a server rejects the turn, too"
        )
    if facts["chats"]:
        notes.append(
            f"{counted(facts['chats'], 'chat')} became {facts['rows']:,} rows, because the chat template renders "
            f"the past differently for each answer: {facts['repeated']:,} tokens more; epochs and max_steps count "
            "rows"
        )
    if facts["cut"] > MOST_CUT * facts["ends"]:
        notes.append(
            f"warning: {facts['cut']:,} of {counted(facts['ends'], 'answer')} lost the end token to "
            f"max_length ({facts['cut'] / facts['ends']:.1%}), so the model learns less when to stop; raise "
            "train.max_length"
        )
    return notes


def encoded_features() -> Features:
    """The columns of encoded rows."""
    from datasets import Features, List, Value

    lists, counts = dict.fromkeys(LISTS, List(Value("int32"))), dict.fromkeys(NUMBERS, Value("int32"))
    return Features({**lists, **counts, **dict.fromkeys(("status", "place"), Value("string"))})


def length_percentiles(encoded: EncodedRows) -> dict[str, dict[int, int]]:
    """The lengths in tokens at the 50th, 90th, 95th, 99th and 100th percentile, before truncation.

    Returns:
        `{"prompt": {50: …}, "completion": {…}, "total": {…}}`, including the completion's end token, by nearest rank:
        every number is the length of a row.
    """
    import numpy

    total, completion = (numbers(encoded.encoded, name) for name in ("length", "completion_length"))
    lengths = {"prompt": total - completion, "completion": completion, "total": total}
    answered = total > 0
    count = int(answered.sum())
    return {
        part: {percent: int(sorted_values[max(0, -(-percent * count // 100) - 1)]) for percent in PERCENTILES if count}
        for part, sorted_values in ((part, numpy.sort(values[answered])) for part, values in lengths.items())
    }
