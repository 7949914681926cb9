"""Scores of texts that begin in the same way: what they share is computed once, the rest as one batch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from instruct.engines.forward import TextRow, shared_length

if TYPE_CHECKING:
    import torch

# ln p of a token, or the sum of several; whether each is the most probable one.
TokenScore = tuple[float, bool]
# Logits in float32 at a time, in numbers.
_CHUNK = 1 << 22


class PrefixScorer:
    """Scores texts that begin in the same way, on one network with one adapter.

    The keys and values of a prefix are kept, and the next one computes only what differs from there on: prompts that
    begin in the same way should follow each other. Models without keys and values (state space models) cannot.
    """

    def __init__(self, network: Any) -> None:
        self._network = network
        self._ids: list[int] = []  # whose keys and values the cache holds
        self._known: list[TokenScore] = []  # of each of these ids; nan where nobody asked
        self._cache: Any = None

    def scores(self, rows: Sequence[TextRow]) -> list[TokenScore]:
        """Of each row, the sum over its tokens from `start` on, and whether all of them are the most probable ones.

        Args:
            rows: at least two ids each; of several rows, the first id is the same.
        """
        # Each row keeps at least one token of its own.
        length = min([shared_length(rows[0].ids, row.ids) for row in rows] + [len(row.ids) - 1 for row in rows])
        following = self._advance(list(rows[0].ids[:length]), min(row.start for row in rows))
        best = int(following.argmax())
        tails = [list(row.ids[length:]) for row in rows]
        longer = [place for place, tail in enumerate(tails) if len(tail) > 1]
        rest = dict(zip(longer, self._tails([tails[place] for place in longer]), strict=True)) if longer else {}
        found = []
        for place, (row, tail) in enumerate(zip(rows, tails, strict=True)):
            before = self._known[row.start : length] if row.start < length else []
            first = [(float(following[tail[0]]), tail[0] == best)]
            own = [*before, *first, *rest.get(place, [])][max(0, row.start - length) :]
            found.append((sum(value for value, _ in own), all(greedy for _, greedy in own)))
        return found

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
        own = _gathered(logits[:-1], torch.tensor(prefix[length - kept + 1 :], device=logits.device))
        self._ids, self._known = prefix, [*known, *skipped, *own]
        return logits[-1].float().log_softmax(-1).cpu()

    def _tails(self, tails: Sequence[list[int]]) -> list[list[TokenScore]]:
        """Of each tail after the cached ids, the scores of its tokens but the first."""
        import torch

        width = max(map(len, tails)) - 1
        ids = torch.tensor([(tail[:-1] + [tail[0]] * width)[:width] for tail in tails], device=self._network.device)
        cache = _repeated(self._cache, len(tails))
        logits = self._network(input_ids=ids, past_key_values=cache, use_cache=True).logits
        return [
            _gathered(row[: len(tail) - 1], torch.tensor(tail[1:], device=row.device))
            for row, tail in zip(logits, tails, strict=True)
        ]


def keeps_prefixes(network: Any) -> bool:
    """Whether a network has keys and values to keep."""
    return not getattr(network, "_is_stateful", False)


def _gathered(logits: torch.Tensor, targets: torch.Tensor) -> list[TokenScore]:
    """The score of each target; float32, of logits [positions, vocabulary]."""
    size = max(1, _CHUNK // logits.shape[-1])
    found: list[TokenScore] = []
    for z, ids in zip(logits.split(size), targets.split(size), strict=True):
        z = z.float()
        values = z.gather(1, ids[:, None])[:, 0] - z.logsumexp(-1)
        found += zip(values.tolist(), (z.argmax(-1) == ids).tolist(), strict=True)
    return found


def _repeated(cache: Any, count: int) -> Any:
    """A copy of a cache of one row, for `count` rows."""
    from transformers import DynamicCache

    wide = DynamicCache()
    for number, layer in enumerate(cache.layers):
        wide.update(layer.keys.expand(count, -1, -1, -1), layer.values.expand(count, -1, -1, -1), number)
    return wide
