"""A judge behind an OpenAI-compatible server."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from instruct.errors import InputError
from instruct.judging.cards import JudgeCard
from instruct.judging.engines.base import Failure, Reply, Request
from instruct.judging.prompts import JudgePrompt
from instruct.judging.store import Completion

# Requests under way at a server.
CONCURRENCY = 8


class ServerJudge:
    """A judge behind an OpenAI-compatible server. The key is taken from OPENAI_API_KEY and kept nowhere.

    A request that fails for itself is a Failure with the reason; one that shows that none can succeed (no access, no
    such model) ends the work.
    """

    def __init__(self, card: JudgeCard, base_url: str | None) -> None:
        import openai

        key = os.environ.get("OPENAI_API_KEY")
        if key is None and base_url is None:
            raise InputError(f"judge {card.name}: needs {card.needs}")
        self._card = card
        self.identity: dict[str, Any] = {"endpoint": base_url or "api.openai.com", "model": card.model}
        self.notes: list[str] = []
        self.batch: int | None = None
        self._client = openai.OpenAI(api_key=key or "none", base_url=base_url, max_retries=4, timeout=120)

    def tokens(self, prompt: JudgePrompt) -> None:
        return None

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        waiting = iter(requests)
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            under_way = {pool.submit(self._ask, request): request for request in itertools.islice(waiting, CONCURRENCY)}
            while under_way:
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                yield [(under_way.pop(future), future.result()) for future in done]
                # Only now that the caller has kept those: a kill loses no more than is under way.
                for request in itertools.islice(waiting, len(done)):
                    under_way[pool.submit(self._ask, request)] = request

    def _ask(self, request: Request) -> Reply:
        import openai

        try:
            return self._completion(request.prompt)
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            raise InputError(
                f"judge {self._card.name}: {self.identity['endpoint']} refuses model {self._card.model} "
                f"(HTTP {error.status_code}); check OPENAI_API_KEY, --base-url and the card's model"
            ) from None
        except openai.APIStatusError as error:
            # The server's own words may repeat the key or the prompt: the status alone is told.
            return Failure(f"HTTP {error.status_code}")
        except openai.APITimeoutError:
            return Failure("timed out")
        except openai.APIConnectionError:
            return Failure("no connection")
        except (openai.OpenAIError, LookupError, TypeError, ValueError, AttributeError) as error:
            return Failure(f"malformed reply ({type(error).__name__})")

    def _completion(self, prompt: JudgePrompt) -> Completion:
        decoding = self._card.decoding
        labels = self._card.verdict.labels
        arguments: dict[str, Any] = {
            "model": self._card.model,
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "max_tokens": decoding.max_tokens,
        }
        if decoding.repetition_penalty is not None:
            arguments["extra_body"] = {"repetition_penalty": decoding.repetition_penalty}
        top: dict[str, float] = {}
        if isinstance(prompt, str):
            if labels:
                arguments["logprobs"] = 5  # the most that OpenAI's own endpoint gives
            text_reply = self._client.completions.create(prompt=prompt, **arguments)
            choice: Any = text_reply.choices[0]
            text, usage = choice.text, text_reply.usage
            if labels:
                top = choice.logprobs.top_logprobs[0]
        else:
            if labels:
                arguments |= {"logprobs": True, "top_logprobs": 20}
            messages: Any = prompt
            chat_reply = self._client.chat.completions.create(messages=messages, **arguments)
            choice = chat_reply.choices[0]
            text, usage = choice.message.content, chat_reply.usage
            if labels:
                top = {entry.token: entry.logprob for entry in choice.logprobs.content[0].top_logprobs}
        # A label that is not among the server's top tokens has no log-probability: the verdict is unparsed.
        logprobs = {label: top[label] for label in (labels.first, labels.second) if label in top} if labels else None
        if not isinstance(text, str):
            raise ValueError("no text")
        return Completion(
            text,
            logprobs,
            choice.finish_reason,
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
        )

    def close(self) -> None:
        self._client.close()
