"""Perplexity of held-out text, per token, word and byte, and of continuations under a reference model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from instruct.base.errors import InputError, InstructError
from instruct.engines.forward import ForwardModel
from instruct.measuring.texts.held_out import HeldOut, Window
from instruct.run.measurements import Number, numbers

_MOST_NATS = 709.0  # whose exponential is a float64


@dataclass(frozen=True)
class Likelihoods:
    """What a model says about texts, one entry a text.

    Attributes:
        nats: −ln p of the scored tokens, end token included; float64.
        tokens: that were scored.
        end_nats: the end token's share; 0 if none was scored.
        words, bytes: of the text that was scored: without what the first token covers, which has nothing before it.
    """

    nats: np.ndarray
    tokens: np.ndarray
    end_nats: np.ndarray
    words: np.ndarray
    bytes: np.ndarray


def likelihoods(model: ForwardModel, held_out: HeldOut, found: Sequence[Window]) -> Likelihoods:
    """The likelihood of each text; `found` are its windows (`held_out.windows`).

    Raises:
        InstructError: the model gives NaN.
    """
    count = len(held_out.texts)
    nats, tokens, end_nats = np.zeros(count), np.zeros(count, int), np.zeros(count)
    for window, values in zip(found, model.log_probabilities([each.row for each in found]), strict=True):
        if np.isnan(values).any():
            raise InstructError(f"{model.engine.options.subject}: gives NaN for a text; its training has diverged")
        place, row = window.place, window.row
        nats[place] -= float(values.sum(dtype=np.float64))
        tokens[place] += len(values)
        if held_out.whole and row.ids[-1] == model.end:
            end_nats[place] = -float(values[-1])
    words, sizes = np.zeros(count, int), np.zeros(count, int)
    for place, text in enumerate(held_out.texts):
        scored = text if held_out.prefixes[place] else _without_first_token(model, text)
        words[place], sizes[place] = len(scored.split()), len(scored.encode())
    return Likelihoods(nats, tokens, end_nats, words, sizes)


def _without_first_token(model: ForwardModel, text: str) -> str:
    """The part of a text that is scored; all of it if the tokenizer puts a token before it."""
    (ids,) = model.encode([text])
    covered = model.tokenizer.decode(ids[:1], skip_special_tokens=True)
    # A token may be a part of a character, which does not decode.
    return text.removeprefix(covered) if text.startswith(covered) else text[1:]


def perplexity(values: Likelihoods) -> list[Number]:
    """exp of the mean negative log-likelihood per token, the end token of a text included, and per word and byte of
    the text without it, so that systems with different tokenizers can be compared.

    Raises:
        InputError: the texts have no token.
    """
    if not values.tokens.sum():
        raise InputError("evaluation.texts.held_out: its texts have no token that the model can read; give other texts")
    text = float(values.nats.sum() - values.end_nats.sum())
    tokens, words, sizes = int(values.tokens.sum()), int(values.words.sum()), int(values.bytes.sum())
    figures = {
        "perplexity": _exp(float(values.nats.sum()) / tokens),
        "word_perplexity": _exp(text / words) if words else None,
        "byte_perplexity": _exp(text / sizes) if sizes else None,
    }
    return numbers(figures, int((values.tokens > 0).sum()), tokens=tokens, words=words, bytes=sizes)


def oracle_perplexity(
    values: Likelihoods, seeds: Sequence[int], reference: str, human: Likelihoods | None = None
) -> list[Number]:
    """Perplexity of continuations under a reference model, per token of the reference, over all and for each seed that
    they were sampled with; beside it that of the human continuations. Empty continuations have no token and are
    counted."""
    by_seed = {}
    for seed in sorted(set(seeds)):
        own = np.array([each == seed for each in seeds])
        if values.tokens[own].sum():
            by_seed[str(seed)] = _exp(float(values.nats[own].sum() / values.tokens[own].sum()))
    tokens = int(values.tokens.sum())
    return numbers(
        {"oracle_perplexity": _exp(float(values.nats.sum()) / tokens) if tokens else None},
        len(values.tokens),
        reference=reference,
        human=_exp(float(human.nats.sum() / human.tokens.sum())) if human and human.tokens.sum() else None,
        by_seed=by_seed,
        tokens=tokens,
        empty=int((values.tokens == 0).sum()),
    )


def _exp(nats: float) -> float:
    return math.exp(min(nats, _MOST_NATS))
