"""Scores of given texts in transformers; what texts begin with is computed once."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instruct.engines.network import TextRow, padded, shared_length

if TYPE_CHECKING:
    import torch

# ln p of a token; whether it is the most probable one.
TokenScore = tuple[float, bool]
_ATTENTION = {"full_attention", "sliding_attention", "chunked_attention"}
# Logits in float32 at a time, in numbers.
_CHUNK = 1 << 22


class PrefixScorer:
    """Scores texts that begin in the same way, on one network with one adapter.

    The keys and values of a prefix are kept, and the next one computes only what differs from there on: prompts that
    begin in the same way should follow each other. Models without keys and values (state space models) compute all.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._ids: list[int] = []  # whose keys and values the cache holds
        self._known: list[TokenScore] = []  # of each of these ids; nan where nobody asked
        self._cache: Any = None

    def scores(self, rows: Sequence[TextRow]) -> list[list[TokenScore]]:
        """Of each row, of at least two ids, the scores of its tokens from `start` on."""
        # Each row keeps at least one token of its own.
        length = min([shared_length(rows[0].ids, row.ids) for row in rows] + [len(row.ids) - 1 for row in rows])
        if not length or not keeps_prefixes(self._network):
            return self._whole(rows)
        following = self._advance(list(rows[0].ids[:length]), min(row.start for row in rows))
        best = int(following.argmax())
        tails = [list(row.ids[length:]) for row in rows]
        longer = [place for place, tail in enumerate(tails) if len(tail) > 1]
        rest = dict(zip(longer, self._tails([tails[place] for place in longer]), strict=True)) if longer else {}
        scores = []
        for place, (row, tail) in enumerate(zip(rows, tails, strict=True)):
            before = self._known[row.start : length] if row.start < length else []
            first = [(float(following[tail[0]]), tail[0] == best)]
            scores.append([*before, *first, *rest.get(place, [])][max(0, row.start - length) :])
        return scores

    def _whole(self, rows: Sequence[TextRow]) -> list[list[TokenScore]]:
        """The scores in one pass. What follows a text cannot change it: no mask."""
        ids, _ = padded([row.ids for row in rows], 0)
        logits = self._network(input_ids=ids.to(self._network.device), use_cache=False).logits
        return [
            _gathered(own[row.start - 1 : len(row.ids) - 1], row.ids[row.start :])
            for own, row in zip(logits, rows, strict=True)
        ]

    def _advance(self, prefix: list[int], asked: int) -> torch.Tensor:
        """Make the cache that of `prefix`; the log-probabilities of the token that follows it, float32: [vocabulary].

        Args:
            asked: the first token whose own log-probability is needed, unless it is known.
        """
        import torch
        from transformers import DynamicCache

        length, shared = len(prefix), shared_length(self._ids, prefix)
        unknown = (place for place in range(asked, shared) if math.isnan(self._known[place][0]))
        begin = max(0, min(shared, next(unknown, length)) - 1)
        if begin:
            if begin < len(self._ids):
                self._cache.crop(begin - len(self._ids))
        else:
            self._cache = DynamicCache()
        kept = length - min(length, max(asked, begin + 1)) + 1
        ids = torch.tensor([prefix[begin:]], device=self._network.device)
        logits = self._network(input_ids=ids, past_key_values=self._cache, use_cache=True, logits_to_keep=kept).logits[
            0, -kept:
        ]
        known = self._known[: begin + 1] or [(0.0, True)]
        skipped = [(math.nan, False)] * (length - kept + 1 - len(known))
        self._ids, self._known = prefix, [*known, *skipped, *_gathered(logits[:-1], prefix[length - kept + 1 :])]
        return logits[-1].float().log_softmax(-1).cpu()

    def _tails(self, tails: Sequence[list[int]]) -> list[list[TokenScore]]:
        """Of each tail after the cached ids, the scores of its tokens but the first."""
        ids, _ = padded([tail[:-1] for tail in tails], 0)
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(len(tails))
        ids = ids.to(self._network.device)
        logits = self._network(input_ids=ids, past_key_values=cache, use_cache=True).logits
        return [_gathered(own[: len(tail) - 1], tail[1:]) for own, tail in zip(logits, tails, strict=True)]


def keeps_prefixes(network: Any) -> bool:
    """Whether a network has keys and values alone to keep: the state of a recurrent layer cannot be cut."""
    layers = getattr(network.config.get_text_config(), "layer_types", None) or ()
    return not getattr(network, "_is_stateful", False) and _ATTENTION.issuperset(layers)


def _gathered(logits: torch.Tensor, targets: Sequence[int]) -> list[TokenScore]:
    """The score of each target; float32, of logits [positions, vocabulary]."""
    import torch

    size = max(1, _CHUNK // logits.shape[-1])
    scores: list[TokenScore] = []
    for z, ids in zip(logits.split(size), torch.tensor(targets, device=logits.device).split(size), strict=True):
        z = z.float()
        values = z.gather(1, ids[:, None])[:, 0] - z.logsumexp(-1)
        scores += zip(values.tolist(), (z.argmax(-1) == ids).tolist(), strict=True)
    return scores
