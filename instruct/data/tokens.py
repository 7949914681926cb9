"""Token ids with a response mask. Prompts are tokenised here for training and for generation alike.

Prompt and completion are tokenised separately, so that a prompt's tokens are the same, token for token, when the model
is trained and when it answers. The loss falls on the completion and its end token, on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from instruct.data.formats import Prompt
from instruct.data.rows import RowSet
from instruct.errors import InputError, one_line

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import PreTrainedTokenizerBase

Status = Literal["kept", "truncated", "empty", "fully_masked"]
PERCENTILES = (50, 90, 95, 99, 100)
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class EncodedRow:
    """A row's token ids.

    Attributes:
        input_ids: prompt, completion, end token; cut to the maximum length.
        prompt_length: tokens of the prompt, before the cut.
        completion_length: tokens of the completion and its end token, before the cut.
        status: `kept` in full; `truncated`: the answer is cut and its end token gone; `fully_masked`: no response
            token is left; `empty`: there was no response.
    """

    input_ids: list[int]
    prompt_length: int
    completion_length: int
    status: Status

    @property
    def completion_mask(self) -> list[int]:
        """As long as `input_ids`: 1 on the completion and its end token, 0 on the prompt."""
        prompt = min(self.prompt_length, len(self.input_ids))
        return [0] * prompt + [1] * (len(self.input_ids) - prompt)

    @property
    def labels(self) -> list[int]:
        """As long as `input_ids`: the token where the loss falls, -100 elsewhere."""
        prompt = min(self.prompt_length, len(self.input_ids))
        return [-100] * prompt + self.input_ids[prompt:]


@dataclass(frozen=True)
class EncodedRows:
    """All rows of a RowSet, encoded.

    Attributes:
        encoded: one for each row of the RowSet, in its order, those that are not trained on among them.
        counts: rows `kept` in full, `truncated`, `empty` (those that the RowSet left out are among them) and
            `fully_masked`. Only `kept` and `truncated` are trained on.
    """

    encoded: list[EncodedRow]
    counts: dict[str, int]

    @property
    def trainable(self) -> list[EncodedRow]:
        """The rows with a response token, in order."""
        return [row for row in self.encoded if row.status in ("kept", "truncated")]

    def dataset(self) -> Dataset:
        """A `datasets.Dataset` of `trainable` with the columns `input_ids` and `labels`, lists of integers."""
        from datasets import Dataset

        rows = self.trainable
        return Dataset.from_dict({"input_ids": [row.input_ids for row in rows], "labels": [row.labels for row in rows]})


def prompt_token_ids(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> list[int]:
    """The prompt's tokens, for training and for generation.

    Text is tokenised with the tokenizer's own special tokens, a beginning-of-sequence token for instance, but never
    with an end token after it. Messages go through the tokenizer's chat template, up to where the answer begins.

    Raises:
        InputError: messages, and the tokenizer has no chat template or its template refuses them.
    """
    return _all_prompt_token_ids(tokenizer, [_prompt_text(tokenizer, prompt)], isinstance(prompt, list))[0]


def encode_row(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any], max_length: int | None) -> EncodedRow:
    """One row's token ids, cut to `max_length` tokens from the start (None: never cut).

    Raises:
        InputError: a tokenizer without a chat template or an end token, or a template that does not give back the
            prompt and the answer.
    """
    return next(_encode(tokenizer, [row], [None], max_length))


def encode_rows(tokenizer: PreTrainedTokenizerBase, rowset: RowSet, max_length: int | None) -> EncodedRows:
    """Every row's token ids, cut to `max_length` tokens from the start (None: never cut).

    Raises:
        InputError: as `encode_row`, with the row's place.
    """
    encoded = list(_encode(tokenizer, rowset.rows, rowset.sources, max_length))
    counts = {"kept": 0, "truncated": 0, "empty": rowset.counts["empty"], "fully_masked": 0}
    for row in encoded:
        counts[row.status] += 1
    return EncodedRows(encoded, counts)


def length_percentiles(encoded: EncodedRows) -> dict[str, dict[int, int]]:
    """Tokens at the 50th, 90th, 95th, 99th and 100th percentile, before any cut.

    Returns:
        `{"prompt": {50: …}, "completion": {…}, "total": {…}}`; the completion's end token counts. Nearest rank: every
        figure is the length of some row.
    """
    rows = [row for row in encoded.encoded if row.status != "empty"]
    lengths = {
        "prompt": sorted(row.prompt_length for row in rows),
        "completion": sorted(row.completion_length for row in rows),
        "total": sorted(row.prompt_length + row.completion_length for row in rows),
    }
    return {
        part: {percent: values[max(0, -(-percent * len(values) // 100) - 1)] for percent in PERCENTILES}
        if values
        else {}
        for part, values in lengths.items()
    }


def _encode(
    tokenizer: PreTrainedTokenizerBase,
    rows: Sequence[dict[str, Any]],
    sources: Sequence[str | None],
    max_length: int | None,
) -> Iterator[EncodedRow]:
    if max_length is not None and max_length < 1:
        raise InputError(f"max_length {max_length}: must be at least 1; raise train.max_length")
    ends: dict[bool, _AnswerEnd] = {}
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        # Prompts of both kinds may stand in one file; each kind is one call of the tokenizer.
        pieces: dict[int, tuple[list[int], list[int]]] = {}
        for chat in (False, True):
            indices = [i for i, row in enumerate(batch) if isinstance(row["prompt"], list) == chat]
            if not indices:
                continue
            if chat not in ends:
                ends[chat] = _chat_answer_end(tokenizer) if chat else _plain_answer_end(tokenizer)
            prompts, answers = [], []
            for i in indices:
                try:
                    prompt = _prompt_text(tokenizer, batch[i]["prompt"])
                    answers.append(_answer_text(tokenizer, batch[i], prompt, ends[chat]))
                    prompts.append(prompt)
                except InputError as error:
                    source = sources[start + i]
                    raise InputError(f"{source}: {error}" if source else str(error)) from None
            answer_ids = tokenizer(answers, add_special_tokens=False)["input_ids"]
            prompt_ids = _all_prompt_token_ids(tokenizer, prompts, chat)
            for i, ids, answer in zip(indices, prompt_ids, answer_ids, strict=True):
                pieces[i] = (ids, [*answer, *ends[chat].token_ids] if answer else [])
        for i in range(len(batch)):
            yield _cut(*pieces[i], max_length)


def _cut(prompt: list[int], completion: list[int], max_length: int | None) -> EncodedRow:
    ids = prompt + completion
    status: Status = "kept"
    if not completion:
        status = "empty"
    elif max_length is not None and len(prompt) >= max_length:
        status = "fully_masked"
    elif max_length is not None and len(ids) > max_length:
        status = "truncated"
    return EncodedRow(ids[:max_length], len(prompt), len(completion), status)


def _prompt_text(tokenizer: PreTrainedTokenizerBase, prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else _rendered(tokenizer, prompt, add_generation_prompt=True)


def _all_prompt_token_ids(tokenizer: PreTrainedTokenizerBase, texts: list[str], chat: bool) -> list[list[int]]:
    # A chat template writes its special tokens itself.
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=not chat)["input_ids"]
    if chat:
        return ids
    # Some tokenizers end every text with the end token. An empty text would not tell: some begin with that token.
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return [row[:-1] for row in ids]
    return ids


@dataclass(frozen=True)
class _AnswerEnd:
    """How an answer ends: the tokens to learn, and the text around an answer in a chat template."""

    token_ids: list[int]
    before: str = ""
    after: str = ""


def _plain_answer_end(tokenizer: PreTrainedTokenizerBase) -> _AnswerEnd:
    if tokenizer.eos_token_id is None:
        raise InputError("the tokenizer has no end token, so a model could not learn to stop; set its eos_token")
    return _AnswerEnd([int(tokenizer.eos_token_id)])


_PROBE = "probe"


def _chat_answer_end(tokenizer: PreTrainedTokenizerBase) -> _AnswerEnd:
    """What the chat template writes around an answer, found with a chat of one turn."""
    asked = [{"role": "user", "content": "Hello"}]
    prompt = _rendered(tokenizer, asked, add_generation_prompt=True)
    whole = _rendered(tokenizer, [*asked, {"role": "assistant", "content": _PROBE}])
    if not whole.startswith(prompt):
        raise InputError(
            "the tokenizer's chat template rewrites the prompt when the answer is there; "
            "mend its chat_template or set template: alpaca"
        )
    before, found, after = whole[len(prompt) :].partition(_PROBE)
    if not found:
        raise InputError(
            "the tokenizer's chat template has no response part: the answer is not in what it renders; "
            "mend its chat_template or set template: alpaca"
        )
    special = set(tokenizer.all_special_ids)
    special |= {token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special}
    ids = list(tokenizer(after, add_special_tokens=False)["input_ids"])
    for index, token_id in enumerate(ids):
        if token_id in special:
            return _AnswerEnd(ids[: index + 1], before, after)
    raise InputError(
        "the tokenizer's chat template ends an answer with no special token, so a model could not learn to stop; "
        "mend its chat_template or set template: alpaca"
    )


def _answer_text(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any], prompt: str, end: _AnswerEnd) -> str:
    """The answer's text; for a chat, as its template renders it, and checked to be where it belongs."""
    completion = row["completion"]
    answer: str = completion if isinstance(completion, str) else completion[0]["content"]
    if isinstance(row["prompt"], str) or not answer.strip():
        return answer if answer.strip() else ""
    whole = _rendered(tokenizer, [*row["prompt"], {"role": "assistant", "content": answer}])
    for text in (answer, answer.strip()):
        if whole == prompt + end.before + text + end.after:
            # White space before an answer belongs to it ("[/INST] answer"); other text there, such as an empty
            # thinking block, does not: the prompt that is generated from has none either.
            return end.before + text if end.before.isspace() else text
    what = "answer" if whole.startswith(prompt) else "prompt"
    raise InputError(
        f"the tokenizer's chat template rewrites the {what} of this row; mend its chat_template or the row, "
        "or set template: alpaca"
    )


def _rendered(tokenizer: PreTrainedTokenizerBase, messages: list[Any], add_generation_prompt: bool = False) -> str:
    import jinja2

    if tokenizer.chat_template is None:
        raise InputError("the tokenizer has no chat template; set template: alpaca")
    try:
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=add_generation_prompt, tokenize=False)
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        raise InputError(
            f"the tokenizer's chat template refuses this chat ({one_line(error, 120)}); "
            "mend the row or set template: alpaca"
        ) from None
    return str(text)
