"""Token ids with a loss mask. Training and generation both tokenize their prompts here.

Prompt and completion are tokenized separately, so that a prompt has the same tokens in training and in generation. Only
the completion and its end token are trained on. Of a plain text, which has no prompt, every token is.
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
        input_ids: prompt, completion, end token; truncated to the maximum length.
        prompt_length: tokens of the prompt before truncation.
        completion_length: tokens of the completion and its end token before truncation.
        status: `kept`: complete; `truncated`: the answer lost its end token and possibly more; `fully_masked`: no
            response token is left; `empty`: there was no response.
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
        """As long as `input_ids`: the token id on the completion and its end token, -100 on the prompt."""
        prompt = min(self.prompt_length, len(self.input_ids))
        return [-100] * prompt + self.input_ids[prompt:]


@dataclass(frozen=True)
class EncodedRows:
    """All rows of a RowSet, encoded.

    Attributes:
        encoded: one for each row of the RowSet, in its order, including those that are not trained on.
        counts: the number of rows by status; `empty` includes those that the RowSet left out. Only `kept` and
            `truncated` rows are trained on.
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

    Text gets the tokenizer's special tokens, such as a beginning-of-sequence token, but never an end token. Messages
    are rendered with the tokenizer's chat template, up to the start of the answer.

    Raises:
        InputError: messages for a tokenizer without a chat template, or a template that rejects them.
    """
    return _all_prompt_token_ids(tokenizer, [_prompt_text(tokenizer, prompt)], isinstance(prompt, list))[0]


def encode_row(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any], max_length: int | None) -> EncodedRow:
    """One row's token ids, truncated to the first `max_length` tokens (None: not truncated).

    Raises:
        InputError: a tokenizer without a chat template or an end token, or a template that does not reproduce the
            prompt and the answer.
    """
    return next(_encode(tokenizer, [row], [None], max_length))


def encode_rows(tokenizer: PreTrainedTokenizerBase, rowset: RowSet, max_length: int | None) -> EncodedRows:
    """Every row's token ids, truncated to the first `max_length` tokens (None: not truncated).

    Raises:
        InputError: as `encode_row`, with the row's place; or a plain text is longer than `max_length`.
    """
    if rowset.plain_text:
        encoded = list(_encode_texts(tokenizer, rowset, max_length))
    else:
        encoded = list(_encode(tokenizer, rowset.rows, rowset.sources, max_length))
    counts = {"kept": 0, "truncated": 0, "empty": rowset.counts["empty"], "fully_masked": 0}
    for row in encoded:
        counts[row.status] += 1
    return EncodedRows(encoded, counts)


def length_percentiles(encoded: EncodedRows) -> dict[str, dict[int, int]]:
    """The lengths in tokens at the 50th, 90th, 95th, 99th and 100th percentile, before truncation.

    Returns:
        `{"prompt": {50: …}, "completion": {…}, "total": {…}}`, including the completion's end token, by nearest rank:
        every number is the length of a row.
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
        # A file may have prompts of both kinds; each kind is one call of the tokenizer.
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


def _encode_texts(tokenizer: PreTrainedTokenizerBase, rowset: RowSet, max_length: int | None) -> Iterator[EncodedRow]:
    """Each text with the tokenizer's special tokens and an end token, as SFTTrainer has it; trained on as a whole."""
    if tokenizer.eos_token_id is None:
        raise InputError("the tokenizer has no end token to mark the end of a text; set train.eos_token")
    end = int(tokenizer.eos_token_id)
    for start in range(0, len(rowset.rows), _BATCH):
        batch = slice(start, start + _BATCH)
        found = tokenizer([row["text"] for row in rowset.rows[batch]])["input_ids"]
        for ids, source in zip(found, rowset.sources[batch], strict=True):
            if ids[-1] != end:
                ids = [*ids, end]
            if max_length is not None and len(ids) > max_length:
                raise InputError(
                    f"{source}: this text has {len(ids):,} tokens, more than max_length {max_length}; set "
                    "train.packing to true and train.packing_strategy to bfd_split or wrapped, which split it, or "
                    "raise train.max_length"
                )
            yield EncodedRow(ids, 0, len(ids), "kept")


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
    # Some tokenizers append the end token to every text. An empty text would not show it: some begin with that token.
    if tokenizer("a")["input_ids"][-1] == tokenizer.eos_token_id:
        return [row[:-1] for row in ids]
    return ids


@dataclass(frozen=True)
class _AnswerEnd:
    """The end of an answer: the tokens to learn, and the text around an answer in a chat template."""

    token_ids: list[int]
    before: str = ""
    after: str = ""


def _plain_answer_end(tokenizer: PreTrainedTokenizerBase) -> _AnswerEnd:
    if tokenizer.eos_token_id is None:
        raise InputError("the tokenizer has no end token, so the model could not learn to stop; set its eos_token")
    return _AnswerEnd([int(tokenizer.eos_token_id)])


_PROBE = "probe"


def _chat_answer_end(tokenizer: PreTrainedTokenizerBase) -> _AnswerEnd:
    """The text that the chat template puts around an answer, found with a chat of one turn."""
    asked = [{"role": "user", "content": "Hello"}]
    prompt = _rendered(tokenizer, asked, add_generation_prompt=True)
    whole = _rendered(tokenizer, [*asked, {"role": "assistant", "content": _PROBE}])
    if not whole.startswith(prompt):
        raise InputError(
            "the tokenizer's chat template changes the prompt when an answer follows; "
            "fix its chat_template or set template: alpaca"
        )
    before, found, after = whole[len(prompt) :].partition(_PROBE)
    if not found:
        raise InputError(
            "the tokenizer's chat template does not render the answer; fix its chat_template or set template: alpaca"
        )
    special = set(tokenizer.all_special_ids)
    special |= {token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special}
    ids = list(tokenizer(after, add_special_tokens=False)["input_ids"])
    for index, token_id in enumerate(ids):
        if token_id in special:
            return _AnswerEnd(ids[: index + 1], before, after)
    raise InputError(
        "the tokenizer's chat template ends an answer without a special token, so the model could not learn to stop; "
        "fix its chat_template or set template: alpaca"
    )


def _answer_text(tokenizer: PreTrainedTokenizerBase, row: dict[str, Any], prompt: str, end: _AnswerEnd) -> str:
    """The answer's text; for a chat, as its template renders it, after checking that the template keeps it."""
    completion = row["completion"]
    answer: str = completion if isinstance(completion, str) else completion[0]["content"]
    if isinstance(row["prompt"], str) or not answer.strip():
        return answer if answer.strip() else ""
    whole = _rendered(tokenizer, [*row["prompt"], {"role": "assistant", "content": answer}])
    for text in (answer, answer.strip()):
        if whole == prompt + end.before + text + end.after:
            # White space before an answer belongs to it ("[/INST] answer"). Other text, such as an empty thinking
            # block, does not: the prompt for generation does not have it either.
            return end.before + text if end.before.isspace() else text
    what = "answer" if whole.startswith(prompt) else "prompt"
    raise InputError(
        f"the tokenizer's chat template changes the {what} of this row; fix its chat_template or the row, "
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
            f"the tokenizer's chat template rejects this chat ({one_line(error, 120)}); "
            "fix the row or set template: alpaca"
        ) from None
    return str(text)
