"""Our model as one of lm-evaluation-harness: prefixes are computed once, and replies are kept as they arrive.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from lm_eval.api.model import CacheHook, TemplateLM, hash_args
from lm_eval.models.huggingface import HFLM

from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.forward import TextRow
from instruct.engines.weights import context_of
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.scoring import PrefixScorer, keeps_prefixes

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

    def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
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
    ) -> list[tuple[float, bool]]:
        if not keeps_prefixes(self.model) and self.rule == "sum":
            return list(super()._loglikelihood_tokens(requests, **kwargs))
        rows = []
        for _, context, continuation in requests:
            ids = (context + continuation)[-(self.max_length + 1) :]
            self.shortened += len(ids) < len(context) + len(continuation)
            rows.append(TextRow(ids, len(ids) - len(continuation)))
        found: dict[int, tuple[float, bool]] = {}
        for places in _batches(rows):
            for place, score in zip(places, self._scores([rows[place] for place in places]), strict=True):
                found[place] = score
                if requests[place][0] is not None:  # a window of a longer text has no name
                    self.cache_hook.add_partial(self._kind, requests[place][0], score)
        return [found[place] for place in range(len(rows))]

    @cached_property
    def _scorer(self) -> PrefixScorer:
        return PrefixScorer(self.model)

    def _scores(self, rows: list[TextRow]) -> list[tuple[float, bool]]:
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
