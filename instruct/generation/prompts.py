"""The prompts that are answered and the prefixes that are continued."""

from __future__ import annotations

from typing import Any

from instruct.base.models import ModelOptions, model_path
from instruct.data.cards import load_dataset_card
from instruct.data.evaluation import EvalSet, load_eval_sets
from instruct.data.prefixes import PrefixSet, load_prefixes
from instruct.engines.local import load_tokenizer
from instruct.generation.continuations import lengths
from instruct.generation.options import AnswerOptions, ContinuationOptions


def evaluation_set(answers: AnswerOptions) -> EvalSet:
    """The evaluation set, cut to `limit`.

    Raises:
        InputError: no such set, or prompts that cannot be read.
    """
    return load_eval_sets(answers.eval_set, files=answers.files, limit=answers.limit)


def config_prefixes(model: ModelOptions, options: ContinuationOptions) -> PrefixSet:
    """The prefixes, cut to `limit`; lengths in tokens are those of `model`.

    Raises:
        InputError: no such card, texts that cannot be read, or none that can be cut.
    """
    card = load_dataset_card(options.card) if options.card else None
    cuts = [options.cut, *([card.cut] if card and card.cut else [])]
    cut_lengths = [length for cut in cuts for length in (cut.prefix, cut.continuation) if length]
    tokenizer: Any = None
    if options.generation.engine != "server" and any(length.endswith(" tokens") for length in cut_lengths):
        name = model_path(model.name)
        tokenizer = load_tokenizer(f"model {model.name}", name, model.revision)
    return load_prefixes(
        card,
        options.cut,
        files=options.files,
        documents=options.documents,
        encoding=options.encoding,
        column=options.column,
        limit=options.limit,
        tokenizer=tokenizer,
    )


def prefixes_text(prefixes: PrefixSet, options: ContinuationOptions) -> str:
    """How many prefixes there are, of what, and how they will be continued, for people."""
    most, least = lengths(prefixes, options)
    draws = options.samples * len(options.seeds)
    tokens = f"{most} tokens" if least == most else f"{least} to {most} tokens"
    read = f"{prefixes.counts['read']:,} rows"
    left_out = [
        f"{count:,} {reason}"
        for reason, count in prefixes.counts.items()
        if reason not in ("read", "kept", "windows") and count
    ]
    return (
        f"{prefixes.name}: {len(prefixes.prefixes):,} prefixes"
        + (f" of {prefixes.cut.prefix} from {read}" if prefixes.cut.prefix else "")
        + (f" ({', '.join(left_out)} left out)" if left_out else "")
        + f", {draws} {'continuation' if draws == 1 else 'continuations'} of {tokens} each"
    )
