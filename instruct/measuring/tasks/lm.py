"""A system behind one of our engines as a model of lm-evaluation-harness; replies are kept as they arrive.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Self, TypeVar

from lm_eval.api.model import CacheHook, TemplateLM, hash_args
from lm_eval.models.utils import has_bos_prefix, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from instruct.base.errors import InputError, StoppedError
from instruct.base.output import progress_bar
from instruct.base.replies import Completion
from instruct.data.templates import DEFAULT, Rendering, takes_system
from instruct.engines.base import Engine, Message, Prompt, Request
from instruct.engines.network import batches
from instruct.engines.text_scores import TokenScore
from instruct.measuring.tasks.cards import Rule
from instruct.measuring.tasks.options import TaskOptions

Value = TypeVar("Value")
# Of continuations of one context that are computed together.
_TOKENS = 2048
# What transformers samples from if nothing is set.
_TOP_K = 50


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


class EngineLM(TemplateLM):
    """Renders chats as the run does, and is not asked again what it was asked before, unless the reply is sampled.

    Token ids go to the engine, so that any engine is asked the same; a server whose tokenizer is not on this machine is
    sent texts and chats, and cannot score given text.

    `rule`: what a log-likelihood is. `sum`: of the continuation. `openicl`: of all tokens but the first, for which
    there is no prediction, divided by the number of all tokens, as in OpenICL's PPLInferencer (Wu et al., 2023).
    `shortened`: requests of which tokens were left out from the beginning to fit the context, as lm-eval does.
    `context`: the longest prompt, in tokens. `task`: the name of the one that is asked, for messages.

    Args:
        options: which engine it is, and whether prompts are chats.
        subject: the system, as error messages name it.
        tokenizer: None: only the server knows it.
        adapter: as the engine knows it.
        context: of the model, in tokens; None: only the server knows.
    """

    max_gen_toks = 256  # lm-eval's default
    rule: Rule = "sum"
    shortened = 0
    task = "asked"
    _replies: Replies
    _rendering = DEFAULT

    def __init__(
        self,
        engine: Engine,
        options: TaskOptions,
        subject: str,
        tokenizer: Any,
        adapter: str | None,
        context: int | None,
    ) -> None:
        super().__init__()
        self._engine, self._subject, self._adapter, self._chats = engine, subject, adapter, options.chat
        self._in_transformers = options.engine == "transformers"
        self.tokenizer: Any = tokenizer
        engine.start()
        # vLLM's memory may hold less than the model reads
        self._whole = getattr(engine, "context", 0) or context or 1 << 30
        # of a scored text: other engines generate a token after it, transformers does not even read its last one
        self._after = -1 if self._in_transformers else 1
        self.context = self._whole - max(0, self._after)

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

    @property
    def _kind(self) -> str:
        """Under which log-likelihoods are kept."""
        return "loglikelihood" if self.rule == "sum" else self.rule

    def _resumed(self, kind: str, ask: Callable[[list[Any]], Sequence[Any]], requests: list[Any]) -> list[Any]:
        keys = [hash_args(kind, request.args) for request in requests]
        due = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._replies.known}
        fresh = dict(zip(due, ask(list(due.values())), strict=True)) if due else {}
        return [fresh[key] if key in fresh else self._replies.known[key] for key in keys]

    @property
    def eot_token_id(self) -> int:
        return int(self._words.eos_token_id)

    @property
    def prefix_token_id(self) -> int:
        begin = self._words.bos_token_id
        return self.eot_token_id if begin is None else int(begin)

    @property
    def tokenizer_name(self) -> str:
        """Part of what lm-eval names its own caches by."""
        return self._subject

    @property
    def _words(self) -> Any:
        if self.tokenizer is None:
            raise InputError(
                f"{self._subject}: the task {self.task} scores given text, which needs the model's tokenizer on this "
                "machine; set model.name to a folder or hub id that has it, or choose tasks with generated replies"
            )
        return self.tokenizer

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        """Recorded by lm-eval; "" if the server has its own."""
        return super().chat_template(chat_template) if self.tokenizer else ""

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> list[int]:
        words = self._words
        if add_special_tokens is None and has_bos_prefix(string, words.decode(self.prefix_token_id)):
            add_special_tokens = False
        more = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
        return list(words.encode(string, **more))

    def apply_chat_template(self, chat_history: list[Message], add_generation_prompt: bool = True) -> str:
        """The chat as text, without a system message if the template has no place for one, as lm-eval does; as JSON for
        a server that renders it."""
        if self.tokenizer:
            ends: dict[str, Any] = {
                "prompt": add_generation_prompt,
                "continue_final_message": not add_generation_prompt,
            }
            if not takes_system(self.tokenizer):
                chat_history = [message for message in chat_history if message["role"] != "system"]
            return self._rendering.render(self.tokenizer, chat_history, **ends)
        if not add_generation_prompt:
            raise InputError(
                f"{self._subject}: the task {self.task} begins the reply (gen_prefix), which a server's chat cannot "
                "continue; set --no-chat, or model.name to a folder or hub id with the tokenizer"
            )
        return json.dumps(chat_history)

    def _rolled(self, requests: list[Any]) -> list[float]:
        windows: list[tuple[None, list[int], list[int]]] = []
        counts = []
        for request in requests:
            ids = self.tok_encode(request.args[0])
            longest = self._whole - self._after - 1
            own = get_rolling_token_windows(ids, self.prefix_token_id, max_seq_len=longest, context_len=1)
            windows += [(None, *make_disjoint_window(window)) for window in own]
            counts.append(len(windows))
        values = [value for value, _ in self._loglikelihood_tokens(windows)]
        totals = [sum(values[begin:end]) for begin, end in zip([0, *counts], counts, strict=False)]
        for request, total in zip(requests, totals, strict=True):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def _loglikelihood_tokens(
        self, requests: Sequence[tuple[Any, list[int], list[int]]], **kwargs: Any
    ) -> list[tuple[float, bool]]:
        asked, contexts = [], []
        for place, (_, before, after) in enumerate(requests):
            ids = (before + after)[-(self._whole - self._after) :]
            self.shortened += len(ids) < len(before) + len(after)
            first = max(1, len(ids) - len(after))
            contexts.append(ids[:first])
            scored = 1 if self.rule == "openicl" else first
            asked.append(self._request(place, tuple(ids), max_tokens=self._after, scored=scored))

        def score(place: int, reply: Completion) -> tuple[float, bool]:
            assert reply.score is not None
            total, greedy = reply.score
            value = (total / len(asked[place].prompt) if self.rule == "openicl" else total), greedy
            if requests[place][0] is not None:  # a window of a longer text has no name
                self.cache_hook.add_partial(self._kind, requests[place][0], value)
            return value

        try:
            return self._values(asked, score, contexts)
        except InputError as error:
            raise InputError(f"the task {self.task} scores given text: {error}") from error

    def _generated(self, requests: list[Any]) -> list[str]:
        asked, stops = [], []
        for place, request in enumerate(requests):
            prompt, options = request.args
            options = dict(normalize_gen_kwargs(options, self.max_gen_toks))
            until = options.pop("until", None) or []
            stop = [until] if isinstance(until, str) else list(until)
            limit, temperature = options.pop("max_gen_toks"), options.pop("temperature", 0.0)
            sampled = options.pop("do_sample", False)
            if options and not self._in_transformers:
                raise InputError(
                    f"{self._subject}: the task {self.task} sets {', '.join(map(str, options))} for its replies, which "
                    "this engine does not know; leave evaluation.tasks.engine out"
                )
            asked.append(
                self._request(
                    place,
                    self._prompt(prompt, limit),
                    max_tokens=limit,
                    temperature=float(temperature),
                    seed=place if sampled else None,
                    stop=tuple(filter(None, stop)),
                    settings=tuple(({"top_k": _TOP_K} | options if sampled else options).items())
                    if self._in_transformers
                    else (),
                )
            )
            stops.append(stop)

        def text(place: int, reply: Completion) -> str:
            value: str = postprocess_generated_text(reply.text, stops[place], None)
            self.cache_hook.add_partial("generate_until", requests[place].args, value)
            return value

        return self._values(asked, text)

    def _prompt(self, prompt: str, limit: int) -> Prompt:
        """What the engine is sent; of a prompt that does not fit, its end, as lm-eval does."""
        if self.tokenizer is None:
            return list(json.loads(prompt)) if self._chats else prompt
        ids = self.tok_encode(prompt)
        room = self._whole - limit
        if room < 1:
            raise InputError(
                f"{self._subject}: replies of {limit} tokens to the task {self.task} leave no room in a context of "
                f"{self._whole}; set another max_gen_toks in the task"
            )
        self.shortened += len(ids) > room
        return tuple(ids[-room:])

    def _request(self, place: int, prompt: Prompt, **options: Any) -> Request:
        return Request(str(place), prompt, adapter=self._adapter, **options)

    def _batches(
        self, asked: Sequence[Request], contexts: Sequence[list[int]] | None = None
    ) -> Iterator[Sequence[Request]]:
        """The requests that are computed together: of similar length, or with `contexts`, of the same one; contexts
        that begin in the same way follow each other."""
        size = self._engine.batch
        if contexts is None or not size:
            order = sorted(asked, key=lambda request: len(request.prompt), reverse=True)
            size = size or len(order)
            yield from (order[begin : begin + size] for begin in range(0, len(order), size))
            return
        for context, places in groupby(sorted(range(len(asked)), key=contexts.__getitem__), contexts.__getitem__):
            own = [asked[place] for place in places]
            for batch in batches([len(request.prompt) - len(context) for request in own], _TOKENS):
                yield [own[place] for place in batch]

    def _values(
        self,
        asked: Sequence[Request],
        value: Callable[[int, Completion], Value],
        contexts: Sequence[list[int]] | None = None,
    ) -> list[Value]:
        """What `value` makes of each reply, which it keeps as it arrives.

        Raises:
            StoppedError: requests without a reply.
        """
        values: dict[int, Value] = {}
        reasons: list[str] = []
        with progress_bar() as progress:
            bar = progress.add_task(f"tasks, {self._subject}", total=len(asked))
            for portion in self._engine.complete_batches(self._batches(asked, contexts)):
                for request, reply in portion.replies:
                    if isinstance(reply, Completion):
                        values[int(request.key)] = value(int(request.key), reply)
                    else:
                        reasons.append(reply.reason)
                progress.advance(bar, len(portion.replies))
        if reasons:
            raise StoppedError(
                f"{self._subject}: {len(reasons)} of {len(asked)} requests of {self.task} had no reply (the first: "
                f"{reasons[0]}); the others are kept, so rerun the command to ask these again"
            )
        return [values[place] for place in range(len(asked))]
