"""A model behind an OpenAI-compatible server: the openai client waits and retries, and each attempt is read here."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from instruct.base.errors import InputError, InstructError, StoppedError, one_line, refused_by_library
from instruct.base.interrupts import GRACE, hold_interrupts, release_interrupts
from instruct.base.output import log_once, say, warn
from instruct.base.replies import PROMPT_CUT, Completion, Failure, Reply, ScoredCompletion
from instruct.engines.base import (
    EngineOptions,
    Prompt,
    Request,
    is_loopback,
    least_tokens,
    most_tokens,
    proxy_of,
    server_address,
)
from instruct.engines.server_replies import (
    NO_CONNECTION,
    ErrorStatus,
    Fault,
    NoLogprobs,
    NoScore,
    Refused,
    api_key,
    changed_body,
    new_change,
    read_refusal,
    read_reply,
    read_score,
    refused_part,
    request_body,
)

# Requests in flight at a server.
CONCURRENCY = 64
# Seconds for one attempt, from its first byte sent to the last received.
TIMEOUT = 300.0
# Attempts per request at most, within a minute; and those that the server may have charged for.
ATTEMPTS = 12
PAID_ATTEMPTS = 3
# Failed requests in a row after which the work stops.
FAILURES_IN_A_ROW = 20
# Seconds to wait for replies in flight once no more requests are sent: they may have been charged for.
LAST_REPLIES = 30.0
# The same after Ctrl-C, within the time that an interrupted command has.
INTERRUPTED_REPLIES = GRACE - 1.5
# Seconds for a connection.
_CONNECT_TIMEOUT = 5.0
_TIMED_OUT = "timed out"
_OPENAI = "https://api.openai.com/v1"

Counts = tuple[int | None, int | None]  # tokens of a prompt and of its reply, as a server states them


class ServerEngine:
    """A model behind an OpenAI-compatible server. The key is read from OPENAI_API_KEY and stored nowhere.

    At most `concurrency` requests are in flight; the next is taken when one is done and the caller asks for more.
    `replicas` are further addresses of the same model: attempts go to all addresses in turn, so that a retry asks
    another server. After an attempt without a connection, `look` says which addresses there are now.

    A parameter that the server refuses by name is left out of all further requests, or given the name that the server
    takes; that is said, and each completion has it as `changes`.

    Temporary faults (429, 5xx, no connection, no complete reply within `timeout` seconds, a malformed reply) are
    retried by the openai client, after waits that grow, or that the server asks for; a refusal of one prompt (too long,
    content filter) is a Failure with the reason.

    Raises:
        InputError: no request can succeed: no key, no access, an unknown model, no server at the address, missing
            log-probabilities.
        StoppedError: too many failures in a row, or the key's quota is used up.
    """

    def __init__(
        self,
        options: EngineOptions,
        base_url: str | None,
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT,
        replicas: Sequence[str] = (),
        look: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        """`base_url` None: OpenAI's."""
        base_url = base_url or os.environ.get("OPENAI_BASE_URL")
        self._options = options
        self._base_url = base_url or _OPENAI
        self._endpoint = _endpoint(base_url) if base_url else "api.openai.com"
        self._addresses = [self._base_url.rstrip("/"), *map(_endpoint, replicas)]
        self._look = look
        self.identity: dict[str, Any] = {"endpoint": self._endpoint, "model": options.model}
        self.notes: list[str] = []
        if (beams := options.decoding.beams) > 1:
            self.notes.append(f"decoded greedily by the server, not with the authors' {beams} beams")
        self._concurrency = concurrency
        self._timeout = timeout
        # OpenAI's newer models do not accept max_tokens; other servers may accept nothing else.
        self._max_tokens_name = "max_tokens" if base_url else "max_completion_tokens"
        self._changes: dict[str, str | None] = {}  # of requests, to what the server takes
        self._client: Any = None
        self._clients: dict[str, Any] = {}  # of HTTP, by the address that each asks
        self._turns = itertools.count()
        self._waiting: set[Any] = set()  # tasks that are between two attempts
        self._ended = False
        self._fatal: InstructError | None = None
        self._answered = False  # whether the server has ever responded
        self._logprobs_seen = False
        self._failed_in_a_row = 0
        self._worked = False  # whether a request has had its reply
        self._more = True  # whether there may be unsent requests
        self._said: set[str] = set()  # of what the user was told

    def start(self) -> str:
        """The server's address; nothing is loaded here."""
        self.check()
        return f"server {self._endpoint}"

    def check(self) -> None:
        """Check the key before anything is sent.

        Raises:
            InputError: no key for OpenAI's own endpoint, or an invalid one.
        """
        key = api_key()
        if not key and self._endpoint == "api.openai.com":
            needs = self._options.needs or "OPENAI_API_KEY, or `base_url` of a server"
            raise InputError(f"{self._options.subject}: needs {needs}")
        if not (key.isascii() and key.isprintable()):
            raise InputError("OPENAI_API_KEY: contains a line break or a non-ASCII character; set it to the key alone")
        if proxy := proxy_of(self._base_url):
            log_once(say, f"{self._options.subject}: {self._endpoint} is asked through the proxy {proxy}")

    def tokens(self, prompt: Prompt) -> None:
        return None

    def complete(self, requests: Iterable[Request]) -> Iterator[list[tuple[Request, Reply]]]:
        """See `Engine`. Connections are open only until the last portion is taken or the iterator is closed."""
        self.check()
        self._ended, self._fatal, self._failed_in_a_row, self._worked = False, None, 0, False
        waiting = iter(requests)
        running: dict[asyncio.Task[Reply | None], Request] = {}
        with asyncio.Runner() as runner:
            runner.run(self._open())
            try:
                while True:
                    # Only now that the caller has stored the last portion: a kill loses only what is in flight.
                    free = self._concurrency - len(running)
                    taken = list(itertools.islice(waiting, free))
                    self._more = len(taken) == free
                    running |= {runner.get_loop().create_task(self._ask(request)): request for request in taken}
                    if not running:
                        return
                    try:
                        release_interrupts()
                        done = runner.run(_done(running))
                    except KeyboardInterrupt:
                        self._send_no_more()
                        yield _portion(runner.run(_done(running, within=INTERRUPTED_REPLIES)), running)
                        raise
                    hold_interrupts()  # while the caller stores them: then what is in flight can still be waited for
                    yield _portion(done, running)
                    if self._fatal:
                        if running:
                            yield _portion(runner.run(_done(running, within=LAST_REPLIES)), running)
                            # What is still in flight may have been charged for.
                            yield [
                                (late, Failure("no reply in time", late.usd, tried=False)) for late in running.values()
                            ]
                        raise self._fatal
            finally:
                runner.run(self._hang_up(running))
                release_interrupts()

    async def _open(self) -> None:
        import openai

        from instruct.engines.transport import Transport

        with refused_by_library(
            f"{self._options.subject}: {self._endpoint} cannot be connected to",
            "check SSL_CERT_FILE and the proxies in the environment (http_proxy, https_proxy, all_proxy)",
        ):
            for address in self._addresses:
                self._client_of(address)
            self._client = openai.AsyncOpenAI(
                api_key=api_key() or "none",
                base_url=self._addresses[0],
                max_retries=ATTEMPTS,
                http_client=openai.DefaultAsyncHttpxClient(transport=Transport(self._attempt)),
            )

    def _client_of(self, address: str) -> Any:
        if address not in self._clients:
            import httpx2
            import openai

            limits = httpx2.Timeout(None, connect=min(self._timeout, _CONNECT_TIMEOUT))
            self._clients[address] = openai.DefaultAioHttpClient(timeout=limits, trust_env=not is_loopback(address))
        return self._clients[address]

    async def _hang_up(self, running: Iterable[asyncio.Task[Any]]) -> None:
        """Cancel what is in flight, and close the connections."""
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    async def _ask(self, request: Request) -> Reply | None:
        """The reply, after as many attempts as it takes; None if the whole work ends instead."""
        import openai

        asked = _Asked(request, next(self._turns))
        _asked.set(asked)
        paid = asked.paid
        try:
            while asked.completion is None:  # again in a form that the server takes; what it refused is not charged
                asked.path, body = self._body(request)
                asked.body, asked.changes = changed_body(body, self._changes)
                await self._client.post(asked.path, cast_to=object, body=asked.body)
        except InstructError as error:
            self._end(error)
            return None
        except (_Ended, asyncio.CancelledError):
            # Nobody knows what its reply would have been; only what it cost is kept.
            return Failure(paid[-1].reason, request.usd * len(paid), tried=False) if paid else None
        except Refused as refusal:
            if refusal.ill:
                self._count_failure(refusal.reason)
            return Failure(refusal.reason, request.usd * len(paid), permanent=True)
        except (Fault, openai.APIStatusError):  # the client does not wait for as long as a server may ask
            reason = asked.faults[-1].reason
            if not self._answered:
                self._end(
                    InputError(
                        f"{self._options.subject}: {self._endpoint} does not answer ({reason}); "
                        "start the server, or check `base_url`"
                    )
                )
                return None
            self._count_failure(reason)
            return Failure(reason, request.usd * len(paid))
        except Exception as error:  # of what was to be sent
            self._end(InputError(f"{self._options.subject}: cannot be sent as JSON ({type(error).__name__})"))
            return None
        self._failed_in_a_row, self._worked = 0, True
        completion = asked.completion
        if not paid:
            return completion
        # The tokens of all attempts that may be charged, by upper bound if not counted.
        most = self._most_prompt_tokens(request.prompt), self._most_reply_tokens
        usages = [(completion.prompt_tokens, completion.completion_tokens), *(fault.usage for fault in paid)]
        used, answered = zip(*(most if None in usage else usage for usage in usages), strict=True)
        return dataclasses.replace(completion, prompt_tokens=sum(used), completion_tokens=sum(answered))

    async def _attempt(self, sent: Any) -> Fault | None:
        """One attempt; returns the fault after which the client is to make another."""
        asked = _asked.get()
        request, paid, task = asked.request, asked.paid, asyncio.current_task()
        self._waiting.discard(task)
        if self._ended or (paid and request.may_try is not None and not request.may_try(len(paid) + 1)):
            raise _Ended
        try:
            asked.completion = await self._reply(asked, sent)
            return None
        except Fault as fault:
            asked.faults.append(fault.with_traceback(None))  # whose frames hold the reply
            if self._look and fault.reason == NO_CONNECTION:
                self._addresses = [*self._look()]
            if fault.answered:
                fault.usage = self._believed(request, fault.usage)
                paid.append(fault)
            if fault.wait is None and not fault.reason.startswith("malformed"):
                limit = f" within {self._timeout:g} s (`timeout`)" if fault.reason == _TIMED_OUT else ""
                self._say_once(fault.reason, f"{fault.reason}{limit}; the request is sent again")
            most = ATTEMPTS if self._answered else PAID_ATTEMPTS
            if len(asked.faults) >= most or len(paid) >= PAID_ATTEMPTS:
                raise
            self._waiting.add(task)
            return fault

    def _say_once(self, reason: str, words: str) -> None:
        """Tell the user at once what a server does; the first time that it is for this reason."""
        if reason not in self._said:
            self._said.add(reason)
            warn(f"{self._options.subject}: {self._endpoint}: {words}")

    async def _reply(self, asked: _Asked, sent: Any) -> Completion | None:
        """What the server answers; None if it refuses a part of the request that it can be asked without."""
        from instruct.engines.transport import Redirected, fetch

        request, changes = asked.request, asked.changes and f"{asked.changes}, as the server demands"
        address = self._addresses[(asked.turn + len(asked.faults)) % len(self._addresses)]
        try:
            async with asyncio.timeout(self._timeout):
                data = await fetch(self._client_of(address), f"{address}{asked.path}", sent)
            self._answered = True
            completion = self._completion(data, request)
            if isinstance(completion, ScoredCompletion):
                return completion
            if 0 < (completion.prompt_tokens or 0) < least_tokens(request.prompt):
                self._say_once(
                    PROMPT_CUT, f"counts {completion.prompt_tokens} tokens in a prompt of more, which it seems to cut"
                )
                changes = ", ".join(filter(None, [changes, PROMPT_CUT]))
            counts = self._believed(request, (completion.prompt_tokens, completion.completion_tokens), completion.text)
            completion = dataclasses.replace(
                completion, prompt_tokens=counts[0], completion_tokens=counts[1], changes=changes or None
            )
        except Fault as fault:
            self._answered = self._answered or fault.reason != NO_CONNECTION
            raise
        except Refused:
            raise
        except NoScore:
            raise InputError(
                f"{self._options.subject}: {self._endpoint} does not score given text (echo with logprobs); "
                f"{self._options.other_model}"
            ) from None
        except NoLogprobs as lacking:
            if not self._logprobs_seen:
                raise InputError(
                    f"{self._options.subject}: {self._endpoint} gives no log-probabilities, which are needed; use a "
                    "server that returns them"
                ) from None
            return dataclasses.replace(lacking.completion, changes=changes or None)
        except ErrorStatus as error:
            self._answered = True
            if self._changed(error, asked.body):
                return None
            if error.status == 403 and self._worked:  # a provider's filter
                raise Refused(error.quoted()) from None
            refusal = read_refusal(self._options, self._endpoint, error, asked.body)
            if isinstance(refusal, Refused) and refusal.remedy:
                self._say_once(refusal.reason, f"{error.quoted()}; {refusal.remedy}")
            raise refusal from None
        except Redirected as redirected:
            raise InputError(
                f"{self._options.subject}: {self._endpoint} redirects to {one_line(redirected, 80)}; nothing was "
                "sent there: give the address that is meant as `base_url`"
            ) from None
        except TimeoutError:
            raise Fault(_TIMED_OUT, answered=True) from None
        except Exception as error:  # whatever a library raises on a reply fails that request alone
            raise Fault(f"malformed reply ({type(error).__name__})", answered=True) from None
        self._logprobs_seen = True
        return completion

    def _body(self, request: Request) -> tuple[str, dict[str, Any]]:
        """The path below the address, and what is sent there."""
        return request_body(self._options, request, self._max_tokens_name)

    def _completion(self, data: bytes, request: Request) -> Completion:
        """The completion in the body of a reply."""
        return read_reply(self._options, data, request.prompt) if request.scored is None else read_score(data, request)

    def _changed(self, error: ErrorStatus, body: dict[str, Any]) -> bool:
        """Whether what the server refuses can be asked in another form, as it is from now on."""
        part = refused_part(error, body, self._options.merges_system)
        if part is None:
            return False
        if part in self._changes:  # since this request was sent
            return True
        if (change := new_change(part, self._changes)) is None:
            return False
        self._changes |= change
        _, words = changed_body(body, change)
        self._say_once(words, f"{error.quoted()}; asked {words}")
        return True

    def _believed(self, request: Request, counts: Counts, text: str = "") -> Counts:
        """A server's count; none, if it is to be paid for and the request or its reply cannot have so many."""
        asked, answered = counts
        if not request.usd or asked is None or answered is None:
            return counts
        most = self._most_prompt_tokens(request.prompt), self._most_reply_tokens
        fits = least_tokens(request.prompt) <= asked <= most[0] and least_tokens(text) <= answered <= most[1]
        return counts if fits else (None, None)

    def _most_prompt_tokens(self, prompt: Prompt) -> int:
        return most_tokens(prompt, [self._options.decoding.extra, self._options.response_schema])

    @property
    def _most_reply_tokens(self) -> int:
        return self._options.decoding.most_tokens(self._options.context_length)

    def _count_failure(self, reason: str) -> None:
        self._failed_in_a_row += 1
        # At the end only failing requests are left, since they are retried the longest: no sign of a broken server.
        if self._failed_in_a_row >= FAILURES_IN_A_ROW and (self._more or not self._worked):
            self._end(
                StoppedError(
                    f"{self._options.subject}: {self._failed_in_a_row} requests in a row failed at {self._endpoint} "
                    f"(the last: {reason}); finished work is kept: rerun the command when the server is healthy"
                )
            )

    def _end(self, error: InstructError) -> None:
        # The exception it came from holds the server's own words.
        error.__context__ = None
        self._fatal = self._fatal or error.with_traceback(None)
        self._send_no_more()

    def _send_no_more(self) -> None:
        self._ended = True
        for task in self._waiting:
            task.cancel()
        self._waiting.clear()

    def close(self) -> None:
        """Nothing is open between calls of `complete`."""


class _Ended(Exception):
    """The whole work, or the money for it, ended before a request had its reply."""


@dataclass
class _Asked:
    """A request under way: what is sent where, what went wrong so far, and its completion."""

    request: Request
    turn: int  # which address is asked first
    path: str = ""
    body: dict[str, Any] = field(default_factory=dict)
    changes: str = ""
    faults: list[Fault] = field(default_factory=list)
    paid: list[Fault] = field(default_factory=list)  # those that the server may have charged for
    completion: Completion | None = None


_asked: ContextVar[_Asked] = ContextVar("asked")  # by the task that runs


def _portion(
    done: Iterable[asyncio.Task[Reply | None]], running: dict[asyncio.Task[Reply | None], Request]
) -> list[tuple[Request, Reply]]:
    # A task that has an exception was interrupted itself.
    replies = [(running.pop(task), task.result()) for task in done if not task.exception()]
    return [(request, reply) for request, reply in replies if reply is not None]


async def _done(tasks: Iterable[asyncio.Task[Any]], within: float | None = None) -> set[asyncio.Task[Any]]:
    """The tasks that are done as soon as one is; or, `within` seconds, all that are done by then."""
    when = asyncio.FIRST_COMPLETED if within is None else asyncio.ALL_COMPLETED
    return (await asyncio.wait(tasks, timeout=within, return_when=when))[0]


def _endpoint(base_url: str) -> str:
    """The address as it is printed and stored.

    Raises:
        InputError: not an http(s) URL, or one that may contain a secret.
    """
    try:
        return server_address(base_url)
    except ValueError as error:
        raise InputError(f"`base_url`: {error}") from None
