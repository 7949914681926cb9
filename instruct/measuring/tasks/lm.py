"""Our model as one of lm-evaluation-harness: prefixes are computed once, and replies are kept as they arrive.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import copy
import json
import math
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lm_eval.api.model import CacheHook, TemplateLM, hash_args
from lm_eval.models.huggingface import HFLM

from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.forward import TextRow, shared_length
from instruct.engines.weights import context_of
from instruct.measuring.tasks.cards import Rule

if TYPE_CHECKING:
    import torch

# ln p of a token, or the sum of several; whether each is the most probable one.
TokenScore = tuple[float, bool]
# Logits in float32 at a time, in numbers.
_CHUNK = 1 << 22
# Continuations of one context that are computed together, and their tokens.
_TOGETHER, _TOKENS = 16, 2048


class Replies(CacheHook):
    """The replies of one system to lm-eval's requests, a line each in a file that is appended to."""

    def __init__(self, path: Path) -> None:
        super().__init__(None)
        self.known: dict[str, Any] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.is_file() else b""
        for line in before.splitlines():
            try:
                key, reply = json.loads(line)
            except ValueError:  # the line that was being written when the run was killed
                continue
            self.known[key] = tuple(reply) if isinstance(reply, list) else reply
        self._file = path.open("ab")
        if before and not before.endswith(b"\n"):
            self._file.write(b"\n")

    def add_partial(self, attr: str, req: Iterable[Any], res: Any) -> None:
        """Called by lm-eval's models with each reply."""
        key = hash_args(attr, req)
        self.known[key] = res
        self._file.write(json.dumps([key, res]).encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class Kept(TemplateLM):
    """A model of lm-eval that renders chats as the run does, and is not asked again what it was asked before, unless
    the reply is sampled.

    `rule`: what a log-likelihood is. `sum`: of the continuation. `openicl`: of all tokens but the first, for which
    there is no prediction, divided by the number of all tokens, as in OpenICL's PPLInferencer (Wu et al., 2023).
    `shortened`: requests of which tokens were left out from the beginning to fit the context, as lm-eval does.
    `context`: the longest prompt, in tokens. `task`: the name of the one that is asked, for messages.
    """

    rule: Rule = "sum"
    shortened = 0
    task = "asked"
    context: int
    _replies: Replies
    _rendering = DEFAULT

    def keep(self, replies: Replies, rendering: Rendering = DEFAULT) -> Self:
        """Where replies are kept, and how chats become text."""
        self._replies, self._rendering = replies, rendering
        self.set_cache_hook(replies)
        return self

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[TokenScore]:
        return self._resumed(self._kind, super().loglikelihood, requests)

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        return self._resumed("loglikelihood_rolling", self._rolled, requests)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        if any(request.args[1].get("do_sample") for request in requests):
            return self._generated(requests)
        return self._resumed("generate_until", self._generated, requests)

    @abstractmethod
    def _rolled(self, requests: list[Any]) -> list[float]:
        """Log-likelihoods of whole texts, each handed to the cache as it arrives."""

    @abstractmethod
    def _generated(self, requests: list[Any]) -> list[str]:
        """Replies, each handed to the cache as it arrives."""

    @property
    def _kind(self) -> str:
        """Under which log-likelihoods are kept."""
        return "loglikelihood" if self.rule == "sum" else self.rule

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        """The chat as text, without a system message if the template has no place for one, as lm-eval does."""
        ends: dict[str, Any] = {"prompt": add_generation_prompt, "continue_final_message": not add_generation_prompt}
        if not takes_system(self.tokenizer):
            chat_history = [message for message in chat_history if message["role"] != "system"]
        return self._rendering.render(self.tokenizer, chat_history, **ends)

    def _resumed(self, kind: str, ask: Callable[[list[Any]], Sequence[Any]], requests: list[Any]) -> list[Any]:
        keys = [hash_args(kind, request.args) for request in requests]
        due = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._replies.known}
        fresh = dict(zip(due, ask(list(due.values())), strict=True)) if due else {}
        return [fresh[key] if key in fresh else self._replies.known[key] for key in keys]


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
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(len(tails))
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


class PrefixLM(Kept, HFLM):
    """lm-eval's own transformers model, except that requests which begin in the same way share that part's
    computation.
    """

    def __init__(self, network: Any, tokenizer: Any, stops: list[int]) -> None:
        """`stops`: ids of the tokens that end a reply."""
        super().__init__(pretrained=network, tokenizer=tokenizer, batch_size=8)
        self.context, self._stops = context_of(network.config) or sys.maxsize, stops

    def _model_generate(self, **options: Any) -> Any:
        # What follows the end of a reply, while others of its batch go on, must not become part of it.
        return super()._model_generate(eos_token_id=self._stops, **options)

    def _rolled(self, requests: list[Any]) -> list[float]:
        return HFLM.loglikelihood_rolling(self, requests)

    def _generated(self, requests: list[Any]) -> list[str]:
        return HFLM.generate_until(self, requests)

    def _loglikelihood_tokens(
        self, requests: list[tuple[Any, list[int], list[int]]], **kwargs: Any
    ) -> list[TokenScore]:
        if not keeps_prefixes(self.model) and self.rule == "sum":
            return list(super()._loglikelihood_tokens(requests, **kwargs))
        rows = []
        for _, context, continuation in requests:
            ids = (context + continuation)[-(self.max_length + 1) :]
            self.shortened += len(ids) < len(context) + len(continuation)
            rows.append(TextRow(ids, len(ids) - len(continuation)))
        found: dict[int, TokenScore] = {}
        for places in _batches(rows):
            for place, score in zip(places, self._scores([rows[place] for place in places]), strict=True):
                found[place] = score
                if requests[place][0] is not None:  # a window of a longer text has no name
                    self.cache_hook.add_partial(self._kind, requests[place][0], score)
        return [found[place] for place in range(len(rows))]

    @cached_property
    def _scorer(self) -> PrefixScorer:
        return PrefixScorer(self.model)

    def _scores(self, rows: list[TextRow]) -> list[TokenScore]:
        """The scores of rows of one context."""
        if self.rule == "sum":
            return self._scorer.scores(rows)
        whole = [TextRow(row.ids) for row in rows]
        if keeps_prefixes(self.model):
            scores = self._scorer.scores(whole)
        else:
            scores = super()._loglikelihood_tokens([(None, list(row.ids[:1]), list(row.ids[1:])) for row in whole])
        return [(total / len(row.ids), greedy) for (total, greedy), row in zip(scores, rows, strict=True)]


def _batches(rows: Sequence[TextRow]) -> Iterator[list[int]]:
    """The places of rows of one context, a few at a time; contexts that begin in the same way follow each other."""

    def context(place: int) -> list[int]:
        return list(rows[place].ids[: rows[place].start])

    for _, group in groupby(sorted(range(len(rows)), key=context), context):
        batch: list[int] = []
        longest = 0
        for place in group:
            longest = max(longest, len(rows[place].ids) - rows[place].start)
            if batch and (len(batch) == _TOGETHER or longest * (len(batch) + 1) > _TOKENS):
                yield batch
                batch, longest = [], len(rows[place].ids) - rows[place].start
            batch.append(place)
        yield batch
