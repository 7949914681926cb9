"""The prompts that are answered and the prefixes that are continued."""

from __future__ import annotations

from typing import Any

from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import EvalSet, load_eval_set
from instruct.data.prefixes import PrefixSet, load_prefixes
from instruct.generation.options import AnswerOptions, ContinuationOptions


def evaluation_set(answers: AnswerOptions) -> EvalSet:
    """The evaluation set, cut to `limit`.

    Raises:
        InputError: no such set, or prompts that cannot be read.
    """
    return load_eval_set(answers.eval_set, files=answers.files, limit=answers.limit)


def prefix_set(options: ContinuationOptions, tokenizer: Any = None) -> PrefixSet:
    """The prefixes, cut to `limit`; lengths in tokens need the `tokenizer`.

    Raises:
        InputError: no such card, texts that cannot be read, or none that can be cut.
    """
    return load_prefixes(
        load_dataset_card(options.card) if options.card else None,
        options.cut,
        files=options.files,
        documents=options.documents,
        encoding=options.encoding,
        column=options.column,
        limit=options.limit,
        tokenizer=tokenizer,
    )
