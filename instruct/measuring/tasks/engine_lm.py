"""A system behind one of our engines as a model of lm-evaluation-harness: vLLM, a Ray cluster, or a server.

Imports lm-eval, which may not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lm_eval.models.utils import has_bos_prefix, normalize_gen_kwargs, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from instruct.base.errors import InputError, StoppedError
from instruct.base.output import progress_bar
from instruct.base.replies import Completion
from instruct.engines.base import Engine, Message, Prompt, Request
from instruct.measuring.tasks.lm import Kept

Value = TypeVar("Value")


class EngineLM(Kept):
    """Token ids go to the engine, so that any engine is asked the same; a server whose tokenizer is not on this machine
    is sent texts and chats, and cannot score given text.

    Args:
        subject: the system, as error messages name it.
        tokenizer: None: only the server knows it.
        adapter: as the engine knows it.
        context: of the model, in tokens; None: only the server knows.
        chats: prompts are chats.
    """

    max_gen_toks = 256  # lm-eval's default

    def __init__(
        self,
        engine: Engine,
        subject: str,
        tokenizer: Any,
        adapter: str | None,
        context: int | None,
        chats: bool,
    ) -> None:
        super().__init__()
        self._engine, self._subject, self._adapter, self._chats = engine, subject, adapter, chats
        self.tokenizer: Any = tokenizer
        engine.start()
        context = getattr(engine, "context", 0) or context  # vLLM's memory may hold less than the model reads
        self.context = (context or 1 << 30) - 1

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
        """The chat as text; as JSON for a server that renders it."""
        if self.tokenizer:
            return super().apply_chat_template(chat_history, add_generation_prompt)
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
            own = get_rolling_token_windows(ids, self.prefix_token_id, max_seq_len=self.context - 1, context_len=1)
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
        asked = []
        for place, (_, before, after) in enumerate(requests):
            ids = (before + after)[-self.context :]
            self.shortened += len(ids) < len(before) + len(after)
            first = 1 if self.rule == "openicl" else max(1, len(ids) - len(after))
            asked.append(self._request(place, tuple(ids), max_tokens=1, scored=first))

        def score(place: int, reply: Completion) -> tuple[float, bool]:
            assert reply.score is not None
            total, greedy = reply.score
            value = (total / len(asked[place].prompt) if self.rule == "openicl" else total), greedy
            if requests[place][0] is not None:  # a window of a longer text has no name
                self.cache_hook.add_partial(self._kind, requests[place][0], value)
            return value

        try:
            return self._values(asked, score)
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
            if options:
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
        room = self.context + 1 - limit
        if room < 1:
            raise InputError(
                f"{self._subject}: replies of {limit} tokens to the task {self.task} leave no room in a context of "
                f"{self.context + 1}; set another max_gen_toks in the task"
            )
        self.shortened += len(ids) > room
        return tuple(ids[-room:])

    def _request(self, place: int, prompt: Prompt, **options: Any) -> Request:
        return Request(str(place), prompt, adapter=self._adapter, **options)

    def _values(self, asked: Sequence[Request], value: Callable[[int, Completion], Value]) -> list[Value]:
        """What `value` makes of each reply, which it keeps as it arrives.

        Raises:
            StoppedError: requests without a reply.
        """
        # Requests of similar length are computed together.
        order = sorted(asked, key=lambda request: len(request.prompt), reverse=True)
        size = self._engine.batch or len(order)
        batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
        found: dict[int, Value] = {}
        reasons: list[str] = []
        with progress_bar() as progress:
            bar = progress.add_task(f"tasks, {self._subject}", total=len(asked))
            for portion in self._engine.complete_batches(batches):
                for request, reply in portion.replies:
                    if isinstance(reply, Completion):
                        found[int(request.key)] = value(int(request.key), reply)
                    else:
                        reasons.append(reply.reason)
                progress.advance(bar, len(portion.replies))
        if reasons:
            raise StoppedError(
                f"{self._subject}: {len(reasons)} of {len(asked)} requests of {self.task} had no reply (the first: "
                f"{reasons[0]}); the others are kept, so rerun the command to ask these again"
            )
        return [found[place] for place in range(len(asked))]
