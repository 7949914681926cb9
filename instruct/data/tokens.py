"""Token ids with a loss mask and weights. Training and generation both tokenize their prompts here.

A prompt has the same tokens in training and in generation. Only answers and their end tokens are trained on: the
completion of a plain prompt, and the answers of a chat that `masks.py` finds; with a `prompt_weight` also what comes
before them. Of a plain text, which has no prompt, every token is.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

from instruct.base.chat_template import TemplateError
from instruct.base.errors import InputError, counted
from instruct.base.output import progress
from instruct.data.arrow import batches, numbers, select
from instruct.data.bad_rows import BadRows, OnBadRow
from instruct.data.formats import Prompt, TrainOn
from instruct.data.masks import ChatTemplate, piece_token_ids, rendered_token_ids
from instruct.data.rows import RowSet
from instruct.data.templates import DEFAULT, Rendering
from instruct.data.token_weights import Span, count_weights, weighted_labels

if TYPE_CHECKING:
    from datasets import Dataset, Features
    from transformers import PreTrainedTokenizerBase

Status = Literal["kept", "truncated", "empty", "fully_masked"]
LISTS, NUMBERS = ("input_ids", "labels", "answers"), ("length", "completion_length", "tokens", "loss_tokens")
# A warning says so if a larger share of the answers loses its end token.
MOST_CUT = 0.01
PERCENTILES = (50, 90, 95, 99, 100)
TRAINED: tuple[Status, ...] = ("kept", "truncated")
# Rows that take seconds to tokenize, which is shown.
_MANY = 5000
_FACTS = ("ends", "cut", "inside", "twice", "chats", "rows", "repeated", "weightless")


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """A row's token ids.

    Attributes:
        input_ids: the row up to the end token of its last answer; truncated to the maximum length.
        length: its tokens before truncation.
        trained: where the parts that are trained on begin and end, before truncation, in order: answers with their end
            tokens, or everything.
        status: `kept`: complete; `truncated`: an answer lost its end token and possibly more; `fully_masked`: no token
            of an answer is left to train on, or all have weight 0. `empty`, of a RowSet's row: there was no response.
        spans: what has a loss, before truncation, with its weights.
    """

    input_ids: list[int]
    length: int
    trained: tuple[tuple[int, int], ...]
    status: Status
    spans: tuple[Span, ...] = ()

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
        """Those of them that have a loss."""
        return count_weights(self.tokens, self.spans).total()

    @property
    def answers(self) -> list[int]:
        """Where each of `trained` begins and ends, one after the other."""
        return list(itertools.chain(*self.trained))

    @property
    def labels(self) -> list[int]:
        """As long as `input_ids`: the token id with its weight on what has a loss, see token_weights.py, else -100."""
        return weighted_labels(self.input_ids, self.spans)


@dataclass(frozen=True)
class EncodedRows:
    """All rows of a RowSet, encoded.

    Attributes:
        rows: what was encoded.
        encoded: on disk, one or several rows for each of them, in their order, including those that are not trained on,
            but not those that the template rejects: its `place`, EncodedRow's attributes but `trained`, and as `chat`
            the number of the row that it was made of.
        trainable: those with a response token, in order; of a mixture, those of an epoch, some of which may repeat.
        counts: the number of rows of the RowSet by status, and of those `rejected`; `empty` includes those that the
            RowSet left out. Only `kept` and `truncated` rows are trained on.
        facts: counts of answers, see `ChatTemplate.facts`; of all answers' `ends`, of those `cut` off, and of answers
            with an end token `inside`; of `chats` that became several rows, these `rows`, and their `repeated` tokens;
            of the fully masked rows those that are `weightless`.
        bad: rows that were left out, with what is wrong, as far as they are listed.
        weights: of the rows that are trained on, the number of tokens by weight.
    """

    rows: RowSet
    encoded: Dataset
    trainable: Dataset
    counts: dict[str, int]
    facts: dict[str, int] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    weights: Counter[float] = field(default_factory=Counter)

    @property
    def notes(self) -> list[str]:
        """What the user has to know about the text that is trained on, one line each."""
        return [*fact_notes(self.facts), *(f"left out: {problem}" for problem in self.bad)]

    def dataset(self) -> Dataset:
        """`trainable` with the columns `input_ids` and `labels` (with their weights) alone, lists of integers."""
        return self.trainable.select_columns(["input_ids", "labels"])


def fact_notes(counts: Mapping[str, int]) -> list[str]:
    """What the user has to know about the text that is trained on, one line each, from `EncodedRows.facts`."""
    facts = Counter(counts)
    notes = []
    if facts["weightless"]:
        notes.append(f"{counted(facts['weightless'], 'row')} of weight 0: fully masked, not trained on")
    if facts["twice"]:
        notes.append(
            f"warning: {counted(facts['twice'], 'row')} with the token that begins a text twice, because the text "
            "begins with it and the tokenizer or the chat template adds one; remove it from the text"
        )
    if facts["thinking"] or facts["without"]:
        how = "asked to think" if facts["empty"] else "asked with thinking turned off"
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
            f"{counted(facts['empty'], 'answer')} without thinking after a prompt that asks for it, which teaches the "
            "model not to think (empty_thinking: train)"
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
    if facts["inside"]:
        notes.append(
            f"warning: {counted(facts['inside'], 'answer')} with an end token inside the text, where the model learns "
            "to stop; remove it from the text"
        )
    if facts["cut"] > MOST_CUT * facts["ends"]:
        notes.append(
            f"warning: {facts['cut']:,} of {counted(facts['ends'], 'answer')} lost the end token to "
            f"max_length ({facts['cut'] / facts['ends']:.1%}), so the model learns less when to stop; raise "
            "max_length"
        )
    return notes


def encoded_features() -> Features:
    """The columns of encoded rows."""
    from datasets import Features, List, Value

    lists, counts = dict.fromkeys(LISTS, List(Value("int32"))), dict.fromkeys((*NUMBERS, "chat"), Value("int32"))
    lists["labels"] = List(Value("int64"))
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
    percentiles: dict[str, dict[int, int]] = {}
    for part, values in lengths.items():
        answered = values[total > 0]
        percentiles[part] = {}
        if len(answered):
            found = numpy.percentile(answered, PERCENTILES, method="inverted_cdf")
            percentiles[part] = dict(zip(PERCENTILES, map(int, found), strict=True))
    return percentiles


def prompt_token_ids(tokenizer: PreTrainedTokenizerBase, prompt: Prompt, rendering: Rendering = DEFAULT) -> list[int]:
    """The prompt's tokens, for training and for generation.

    Text gets the tokenizer's special tokens, such as a beginning-of-sequence token, but never an end token. Messages
    are rendered with the tokenizer's chat template, up to the start of the answer.

    Raises:
        InputError: messages for a tokenizer without a chat template, or a template that rejects them.
    """
    if isinstance(prompt, str):
        return text_token_ids(tokenizer, [prompt])[0]
    return rendered_token_ids(tokenizer, [rendering.render(tokenizer, prompt, prompt=True)])[0]


def encode_rows(
    tokenizer: PreTrainedTokenizerBase,
    rowset: RowSet,
    max_length: int | None,
    train_on: TrainOn = "assistant_turns",
    rendering: Rendering = DEFAULT,
    on_bad_row: OnBadRow | None = "stop",
    prompt_weight: float | None = 0.0,
) -> EncodedRows:
    """Every row's token ids, truncated to the first `max_length` tokens (None: not truncated).

    Args:
        on_bad_row: what a row does that the template rejects, see `BadRows`.
        prompt_weight: see `RowEncoder`.

    Raises:
        InputError: with the row's place, a tokenizer without a chat template or an end token, a template that does not
            reproduce the prompt and the answers, or a plain text that is longer than `max_length`.
    """
    bad = BadRows(on_bad_row)
    encoder = RowEncoder(tokenizer, max_length, train_on, rendering, bad, prompt_weight)
    counts = encoder.counts
    counts["empty"] = rowset.counts["empty"]
    total = len(rowset.dataset)

    def encoded_rows() -> Iterator[dict[str, Any]]:
        with progress(f"tokens of {counted(total, 'row')}", total) if total > _MANY else nullcontext() as done:
            for part in batches(rowset.dataset):
                for chat in encoder.chats(part):
                    yield from chat
                    if done:
                        done(1)

    encoded = rowset.folder.store(encoded_rows(), encoded_features())
    bad.check(total)
    trainable = encoded
    if any(status not in TRAINED for status in encoded.unique("status")):
        trainable = select(encoded, [index for index, status in enumerate(encoded["status"]) if status in TRAINED])
    by_status = {status: counts[status] for status in get_args(Status)} | bad.counts
    facts = encoder.template.facts + Counter({name: counts[name] for name in _FACTS})
    return EncodedRows(rowset, encoded, trainable, by_status, dict(facts), bad.listed, encoder.weights)


@dataclass
class RowEncoder:
    """Encodes the rows of one data set.

    Attributes:
        tokenizer: or a processor, which has a tokenizer.
        max_length: rows are truncated to their first tokens (None: not truncated).
        bad: takes the rows that the template rejects; without it, the first one stops.
        prompt_weight: the weight of tokens before answers, relative to that of the row; 0: they have no loss. None: of
            rows to evaluate on, whose answers count the same whatever their weight, unless it is 0.
        counts: counts the rows by status, those `read`, and what `EncodedRows.facts` says of truncation and of chats
            that become several rows.
        weights: as `EncodedRows.weights`.
    """

    tokenizer: Any
    max_length: int | None
    train_on: TrainOn = "assistant_turns"
    rendering: Rendering = DEFAULT
    bad: BadRows | None = None
    prompt_weight: float | None = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    weights: Counter[float] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.template = ChatTemplate(self.tokenizer, self.rendering)
        self.tokenizer = getattr(self.tokenizer, "tokenizer", self.tokenizer)
        if self.max_length is not None and self.max_length < 1:
            raise InputError(f"max_length {self.max_length}: must be at least 1; raise train.max_length")

    def chats(self, batch: Mapping[str, list[str]]) -> Iterator[list[dict[str, Any]]]:
        """What each row of a batch of a RowSet's data set becomes, if it has something to learn, as
        `EncodedRows.encoded`; counts them."""
        counts = self.counts
        rows = [(json.loads(text), place) for text, place in zip(batch["row"], batch["place"], strict=True) if text]
        counts.update(read=len(batch["row"]), empty=len(batch["row"]) - len(rows))
        are_texts = bool(rows) and "text" in rows[0][0]
        encoded = self._texts(rows) if are_texts else (self.encode(row, place) for row, place in rows)
        for (_, place), parts in zip(rows, encoded, strict=True):
            statuses = {part.status for part in parts}
            if parts:
                counts[statuses.pop() if len(statuses) == 1 else "truncated"] += 1
            if len(parts) > 1:
                lengths = [part.length for part in parts]
                counts.update(chats=1, rows=len(parts), repeated=sum(lengths) - max(lengths))
            counts["twice"] += any(begins_twice(self.tokenizer, part.input_ids) for part in parts)
            counts["ends"] += sum(len(part.trained) for part in parts)
            counts["cut"] += sum(part.cut_answers for part in parts)
            counts["weightless"] += any(part.status == "fully_masked" and not part.length for part in parts)
            for part in parts:
                if part.status in TRAINED:
                    self.weights.update(count_weights(part.tokens, part.spans))
            about = {"chat": counts["chat"], "place": place}
            yield [{name: getattr(part, name) for name in (*LISTS, *NUMBERS, "status")} | about for part in parts]
            counts["chat"] += 1

    def encode(self, row: Mapping[str, Any], place: str | None) -> list[EncodedRow]:
        """The rows to train on: none if the row is bad, several if the template needs them."""
        if not row.get("weight", 1.0):
            return [EncodedRow([], 0, (), "fully_masked")]
        if isinstance(row.get("prompt"), str):
            return [self._joined(self._plain(row), [(1.0, True)], row)]
        try:
            texts = self.template.rows(row, self._context)
            return [self._joined(piece_token_ids(self.tokenizer, own), weights, row) for own, weights in texts]
        except TemplateError:  # wrong for every row
            raise
        except InputError as error:
            error = InputError(f"{place}: {error}" if place else str(error))
            if self.bad is None:
                raise error from None
            self.bad.add(error)
            self.counts["rejected"] += 1
            return []

    def _plain(self, row: Mapping[str, Any]) -> list[list[int]]:
        """The tokens of a plain prompt and its completion, tokenized separately."""
        if self.tokenizer.eos_token_id is None:
            raise InputError("the tokenizer has no end token, so the model could not learn to stop; set its eos_token")
        answer = self.tokenizer(row["completion"], add_special_tokens=False)["input_ids"]
        return [*text_token_ids(self.tokenizer, [row["prompt"]]), [*answer, self.tokenizer.eos_token_id]]

    @property
    def _context(self) -> float:
        """The weight of tokens before answers, relative to that of the row."""
        return 1.0 if self.train_on == "all_tokens" else self.prompt_weight or 0.0

    def _joined(self, pieces: list[list[int]], weights: list[tuple[float, bool]], row: Mapping[str, Any]) -> EncodedRow:
        """A row from the token ids of its pieces, context and answers in turn."""
        ends = list(itertools.accumulate(map(len, pieces), initial=0))
        spans: list[Span] = []
        answers = []
        for number, (begin, end) in enumerate(itertools.pairwise(ends)):
            weight, is_answer = weights[number // 2] if number % 2 else (self._context, False)
            if is_answer:
                answers.append((begin, end))
                *inside, last = pieces[number]
                self.counts["inside"] += not {last, self.tokenizer.eos_token_id}.isdisjoint(inside)
            if self.prompt_weight is None:
                weight = float(weight > 0)
            if weight:
                spans.append((begin, end, weight * (1.0 if self.prompt_weight is None else row.get("weight", 1.0))))
        trained = ((0, ends[-1]),) if self.train_on == "all_tokens" else tuple(answers)
        status: Status = "kept"
        if self.max_length is not None and trained[0][0] >= self.max_length:
            status = "fully_masked"
        elif self.max_length is not None and ends[-1] > self.max_length:
            status = "truncated"
        return EncodedRow(list(itertools.chain(*pieces))[: self.max_length], ends[-1], trained, status, tuple(spans))

    def _texts(self, rows: Sequence[tuple[Mapping[str, Any], str]]) -> Iterator[list[EncodedRow]]:
        """Each text with the tokenizer's special tokens and an end token, as SFTTrainer has it; trained on as a
        whole."""
        end = self.tokenizer.eos_token_id
        if end is None:
            raise InputError("the tokenizer has no end token to mark the end of a text; set eos_token")
        tokens = self.tokenizer([row["text"] for row, _ in rows])["input_ids"]
        for (row, place), ids in zip(rows, tokens, strict=True):
            if ids[-1] != end:
                ids = [*ids, int(end)]
            if self.max_length is not None and len(ids) > self.max_length:
                raise InputError(
                    f"{place}: this text has {len(ids):,} tokens, more than max_length {self.max_length}; set "
                    "packing to true and packing_strategy to bfd_split or wrapped, which split it, or raise max_length"
                )
            weight = row.get("weight", 1.0)
            if not weight:
                yield [EncodedRow([], 0, (), "fully_masked")]
                continue
            span = 0, len(ids), 1.0 if self.prompt_weight is None else weight
            yield [EncodedRow(ids, len(ids), ((0, len(ids)),), "kept", (span,))]


def begins_twice(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int]) -> bool:
    """Whether a row begins with two beginning-of-sequence tokens; a model has seen one in its training."""
    return len(ids) > 1 and ids[0] == ids[1] == tokenizer.bos_token_id


def text_token_ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    """The tokens of texts with the tokenizer's special tokens, but never an end token, which text could follow."""
    ids: list[list[int]] = tokenizer(texts)["input_ids"] if texts else []
    end = [tokenizer.eos_token_id]
    # Some tokenizers append the end token to every text. An empty text would not show it: some begin with that token.
    if any(row[-1:] == end for row in ids) and tokenizer("a")["input_ids"][-1:] == end:
        return [row[:-1] for row in ids]
    return ids
