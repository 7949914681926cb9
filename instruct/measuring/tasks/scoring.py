"""Scores of a task's labels: what the labels' prompts share is computed once, the labels themselves as one batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from instruct.base.errors import InputError
from instruct.engines.forward import ForwardModel, TextRow, shared_length
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.prompts import Prompt

if TYPE_CHECKING:
    import torch

# Logits in float32 at a time, in numbers.
_CHUNK = 1 << 22


@dataclass(frozen=True)
class Scores:
    """A score for each label, and the place of the best one, the first of several.

    Under `openicl` a score is the mean cross-entropy of the whole prompt in nats per token, and the lowest is best;
    under `sum` it is the log-probability of the label, and the highest is best.
    """

    values: list[float]
    best: int


def label_rows(model: ForwardModel, prompt: Prompt) -> list[TextRow]:
    """The prompt with each label, tokenized as one text; `start` is where the label's tokens begin."""
    context, *whole = model.encode([prompt.context, *(prompt.context + text for text in prompt.continuations)])
    return [TextRow(ids, max(1, shared_length(context, ids))) for ids in whole]


def scores(totals: Sequence[float], rows: Sequence[TextRow], rule: Rule) -> Scores:
    """The scores that log-probabilities of `rows` give.

    Args:
        totals: of each row's tokens from its `start` on under `sum`, of all tokens but the first under `openicl`.

    Source: OpenICL's PPLInferencer (Wu et al., 2023) divides by the number of all tokens, the first one included, for
    which there is no prediction; lm-eval's `acc` compares sums.
    """
    if rule == "sum":
        values = list(totals)
        return Scores(values, values.index(max(values)))
    values = [-total / len(row.ids) for total, row in zip(totals, rows, strict=True)]
    return Scores(values, values.index(min(values)))


class LabelScorer:
    """Scores the labels of one prompt after the other.

    The keys and values of a prompt are kept, and the next prompt computes only what differs from there on: prompts that
    begin in the same way should follow each other. Models without keys and values (state space models) compute every
    prompt in full.
    """

    def __init__(self, model: ForwardModel, rule: Rule) -> None:
        self._model, self._rule = model, rule
        self._ids: list[int] = []  # whose keys and values the cache holds
        self._logprobs: list[float] = []  # of each of these ids; under `sum`, nan where nobody asked
        self._cache: Any = None

    def scores(self, prompts: Iterable[Sequence[TextRow]]) -> list[Scores]:
        """The scores of the labels of each prompt; see `label_rows`.

        Raises:
            InputError: a row that is longer than the model's context.
        """
        found = []
        with self._model.engine.adapted(self._model.adapter) as network:
            stateful = getattr(network, "_is_stateful", False)
            for rows in prompts:
                longest = max(len(row.ids) for row in rows)
                if longest > self._model.context:
                    raise InputError(
                        f"{self._model.engine.subject}: a prompt of {longest} tokens exceeds its context of "
                        f"{self._model.context}; lower shots"
                    )
                if stateful:
                    found.append(full_prompt_scores(self._model, rows, self._rule))
                else:
                    found.append(scores(self._totals(network, rows), rows, self._rule))
        return found

    def _totals(self, network: Any, rows: Sequence[TextRow]) -> list[float]:
        # Each label keeps at least one token of its own.
        length = min([shared_length(rows[0].ids, row.ids) for row in rows] + [len(row.ids) - 1 for row in rows])
        prefix = list(rows[0].ids[:length])
        starts = [1 if self._rule == "openicl" else row.start for row in rows]
        following = self._advance(network, prefix, min(starts) if self._rule == "sum" else length)
        totals = [sum(self._logprobs[start:length]) for start in starts]
        tails = [list(row.ids[length:]) for row in rows]
        for place, tail in enumerate(tails):
            totals[place] += float(following[tail[0]])
        longer = [place for place, tail in enumerate(tails) if len(tail) > 1]
        if longer:
            rest = self._tail_logprobs(network, [tails[place] for place in longer])
            for place, value in zip(longer, rest, strict=True):
                totals[place] += value
        return totals

    def _advance(self, network: Any, prefix: list[int], asked: int) -> torch.Tensor:
        """Make the cache that of `prefix`; the log-probabilities of the token that follows it, float32: [vocabulary].

        Args:
            asked: the first token whose own log-probability is needed, unless it is known.
        """
        import torch
        from transformers import DynamicCache

        begin = max(0, min(shared_length(self._ids, prefix), len(prefix), asked) - 1)
        if begin:
            if begin < len(self._ids):
                self._cache.crop(begin - len(self._ids))
        else:
            self._cache = DynamicCache()
        kept = len(prefix) - begin if self._rule == "openicl" else len(prefix) - min(len(prefix), asked) + 1
        ids = torch.tensor([prefix[begin:]], device=network.device)
        logits = network(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=kept).logits[
            0, -kept:
        ]
        known = self._logprobs[: begin + 1] or [0.0]
        unknown = [float("nan")] * (len(prefix) - kept + 1 - len(known))
        own = _gathered(logits[:-1], torch.tensor(prefix[len(prefix) - kept + 1 :], device=logits.device))
        self._ids, self._logprobs = prefix, [*known, *unknown, *own]
        return logits[-1].float().log_softmax(-1).cpu()

    def _tail_logprobs(self, network: Any, tails: Sequence[list[int]]) -> list[float]:
        """The log-probability of each tail after the cached ids, without that of its first token."""
        import torch

        width = max(map(len, tails)) - 1
        ids = torch.tensor([(tail[:-1] + [tail[0]] * width)[:width] for tail in tails], device=network.device)
        logits = network(input_ids=ids, past_key_values=_repeated(self._cache, len(tails)), use_cache=True).logits
        return [
            sum(_gathered(row[: len(tail) - 1], torch.tensor(tail[1:], device=row.device)))
            for row, tail in zip(logits, tails, strict=True)
        ]


def full_prompt_scores(model: ForwardModel, rows: Sequence[TextRow], rule: Rule) -> Scores:
    """The same scores from a pass over every whole prompt."""
    asked = rows if rule == "sum" else [TextRow(row.ids) for row in rows]
    totals = [float(values.sum(dtype="float64")) for values in model.log_probabilities(asked)]
    return scores(totals, rows, rule)


def _gathered(logits: torch.Tensor, targets: torch.Tensor) -> list[float]:
    """ln p of each target; float32, of logits [positions, vocabulary]."""
    import torch

    size = max(1, _CHUNK // logits.shape[-1])
    parts = []
    for z, ids in zip(logits.split(size), targets.split(size), strict=True):
        z = z.float()
        parts.append(z.gather(1, ids[:, None])[:, 0] - z.logsumexp(-1))
    found: list[float] = torch.cat(parts).tolist() if parts else []
    return found


def _repeated(cache: Any, count: int) -> Any:
    """A copy of a cache of one row, for `count` rows."""
    from transformers import DynamicCache

    wide = DynamicCache()
    for number, layer in enumerate(cache.layers):
        wide.update(layer.keys.expand(count, -1, -1, -1), layer.values.expand(count, -1, -1, -1), number)
    return wide
