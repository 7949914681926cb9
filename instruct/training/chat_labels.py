"""Chats given to EMOTrainer in TRL's formats, as token ids with labels."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import Any

from trl.data_utils import is_conversational, maybe_convert_to_chatml, prepare_multimodal_messages

from instruct.base.errors import InputError
from instruct.data.bad_rows import BadRows
from instruct.data.chats import TrainOn, chat_row, has_answer, more_of, unused_keys
from instruct.data.replies import ChatTemplate
from instruct.data.templates import Rendering
from instruct.data.tokens import chat_token_ids, fact_notes, join_pieces

logger = logging.getLogger(__name__)
# Columns of a labeled data set besides the tokens and labels of its rows.
_BESIDE = ["chat", "problem", "facts"]


def has_chats(dataset: Any, args: Any) -> bool:
    """Whether the rows are chats whose mask `train_on` decides, and not TRL's own flags or a `labels` column."""
    if "input_ids" in (dataset.column_names or ()):  # of a stream, the first row may be slow to read
        return False
    first = maybe_convert_to_chatml(dict(next(iter(dataset))))
    if "input_ids" in first or not is_conversational(first):
        return False
    flag = args.completion_only_loss if "prompt" in first else args.assistant_only_loss
    return flag is None and args.train_on != "all_tokens"


def label_chats(dataset: Any, processing_class: Any, args: Any, name: str) -> Any:
    """The data set's chats as `input_ids` and `labels`, not truncated; chats without an answer are left out.

    Args:
        name: of the data set, for warnings and errors.

    Raises:
        InputError: a chat that the template cannot represent; the message names its row, counted from 0.
    """
    sized = hasattr(dataset, "__len__")
    more = {"num_proc": args.dataset_num_proc, "desc": f"Masking {name} dataset"} if sized else {}
    labeled = dataset.map(
        _label,
        batched=True,
        with_indices=True,
        remove_columns=list(next(iter(dataset))),
        fn_kwargs={"processing_class": processing_class, "args": args, "name": name},
        **more,
    )
    if not sized or _rejected(labeled, len(dataset), args, f"{name} dataset"):
        labeled = labeled.filter(lambda problem: not problem, input_columns="problem")
    return labeled.remove_columns(_BESIDE)


def _rejected(labeled: Any, read: int, args: Any, name: str) -> int:
    """How many of the chats the template rejects, after warnings of all that the user should know of them."""
    bad = BadRows(args.on_bad_row)
    for problem in filter(None, labeled["problem"]):
        bad.add(InputError(problem))
    bad.check(read)
    chats = len(labeled.unique("chat"))
    if chats < read:
        logger.warning(f"{name}: {read - chats} of {read} chats have no answer to train on and are left out")
    if bad.rejected:
        logger.warning(
            f"{name}: {bad.rejected} of {read} chats are left out, because the chat template rejects them; "
            f"{bad.listed[0]}"
        )
    rows = len(labeled) - bad.rejected
    if rows > chats - bad.rejected:
        logger.warning(
            f"{name}: {chats - bad.rejected} chats are {rows} rows, because the chat template renders their past "
            "differently for each answer; epochs and max_steps count rows"
        )
    facts: Counter[str] = Counter()
    for of_batch in filter(None, labeled["facts"]):
        facts.update(json.loads(of_batch))
    for note in fact_notes(facts):  # with the arguments as EMOConfig calls them
        said = note.replace("train.max_length", "max_length").replace("data.empty_thinking: train", "empty_thinking")
        logger.warning(f"{name}: {said}")
    return bad.rejected


def _label(
    batch: dict[str, list[Any]], indices: list[int], processing_class: Any, args: Any, name: str
) -> dict[str, list[Any]]:
    rendering = Rendering(
        empty_thinking=args.empty_thinking == "train", remedy="use TRL's own mask, assistant_only_loss=True"
    )
    template = ChatTemplate(processing_class, rendering)
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    parts = tokenizer is not processing_class  # a processor's template takes a message's content as a list of parts
    texts: list[list[str]] = []
    chats: list[int] = []
    problems: list[str] = []
    for index, values in zip(indices, zip(*batch.values(), strict=True), strict=True):
        example = maybe_convert_to_chatml(dict(zip(batch, values, strict=True)))
        problem = ""
        own: list[list[str]] = [[]]
        try:
            row = _row(example, args.train_on, parts)
            if row is None:
                continue
            own = template.rows(row, **(example.get("chat_template_kwargs") or {}))
        except InputError as error:
            problem = f"{name} dataset, row {index}: {error}"
            if args.on_bad_row == "stop":
                raise InputError(problem) from None
        texts += own
        chats += [index] * len(own)
        problems += [problem] * len(own)
    rows = [join_pieces(pieces, None, args.train_on) for pieces in chat_token_ids(tokenizer, texts)]
    ends = [end for row in rows for _, end in row.trained]
    cuts = args.max_length is not None and (not args.packing or args.packing_strategy == "bfd")  # others split a row
    facts = {**template.facts, "ends": len(ends), "cut": sum(cuts and end > args.max_length for end in ends)}
    return {
        "input_ids": [row.input_ids for row in rows],
        "labels": [row.labels for row in rows],
        "chat": chats,
        "problem": problems,
        "facts": [json.dumps(facts) if number == 0 else "" for number in range(len(rows))],  # of the batch
    }


def _row(example: dict[str, Any], train_on: TrainOn, parts: bool) -> dict[str, Any] | None:
    tools = example.get("tools")
    tools = json.loads(tools) if isinstance(tools, str) else _without_nulls(tools)

    def messages(key: str) -> list[dict[str, Any]]:
        # Arrow gives every message the keys of all of them; a template may ask whether there is a key.
        own = []
        for number, turn in enumerate(example[key]):
            others = {name: turn[name] for name in unused_keys(turn, turn["role"], ("role", "content"))}
            try:
                more = more_of(turn, turn["role"])
            except InputError as error:
                raise InputError(f"{key}[{number}].{error}") from None
            if "tool_calls" in more:
                more["tool_calls"] = _without_nulls(more["tool_calls"])
            content = "" if turn.get("content") is None else turn["content"]
            own.append({"role": turn["role"], "content": content, **others, **more})
        return prepare_multimodal_messages(own) if parts else own

    if "messages" in example:
        return chat_row(messages("messages"), tools, train_on, Counter())
    row = {"prompt": messages("prompt"), "completion": messages("completion")}
    if not has_answer(row):
        return None
    if train_on == "last_turn":
        return chat_row([*row["prompt"], *row["completion"]], tools, train_on, Counter())
    return {**row, "tools": tools} if tools else row


def _without_nulls(value: Any) -> Any:
    """Calls and tools without what Arrow adds: it gives every call the arguments of all others, with null."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def mask_pictures(args: Any, dataset: Any) -> None:
    """Have TRL's collator mask chats with pictures, which are tokenized when a batch is made.

    Raises:
        ValueError: `train_on="last_turn"`, which TRL's collator does not know.
    """
    if dataset is None or args.assistant_only_loss is not None or "input_ids" in (dataset.column_names or ()):
        return
    first = next(iter(dataset))
    if "messages" in first and ("image" in first or "images" in first):
        if args.train_on != "assistant_turns":
            raise ValueError(f"train_on={args.train_on!r} does not work with pictures; use prompt-completion rows")
        args.assistant_only_loss = True  # TRL refuses a template without generation markers
