"""Connections to a server: redirects to another origin are refused, and no body is read past a limit."""

from __future__ import annotations

import json
import os
from typing import Any

from instruct.engines.server_replies import Fault

# Bytes of a reply, for each of its tokens, which may have 20 log-probabilities, and the most; a longer one is not read.
_PER_TOKEN = 10 * 2**10
LARGEST_REPLY = 32 * 2**20
# Bytes that are read of an error's body.
_LARGEST_ERROR = 64 * 2**10
# Seconds for a connection.
_CONNECT_TIMEOUT = 5.0


class ErrorStatus(Exception):
    """A reply with an error's status. `problem`: the object in its body that says what is wrong; {} if it has none."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        super().__init__(status)
        self.status, self.headers = status, headers
        try:
            problem = json.loads(body)
        except (ValueError, RecursionError):
            problem = {}
        self.problem = problem.get("error", problem) if isinstance(problem, dict) else {}


class Redirected(Exception):
    """A redirect to another origin, which would be sent the prompts and the key. `host`: of that origin."""

    def __init__(self, host: str) -> None:
        super().__init__(host)
        self.host = host


def open_client(address: str, timeout: float) -> Any:
    """A client of the server at an address, with the key in OPENAI_API_KEY; to be closed."""
    import httpx2
    import openai

    limits = httpx2.Timeout(None, connect=min(timeout, _CONNECT_TIMEOUT))
    return openai.AsyncOpenAI(
        api_key=os.environ.get("OPENAI_API_KEY", "").strip() or "none",
        base_url=address,
        max_retries=0,
        timeout=limits,
        http_client=openai.DefaultAioHttpClient(timeout=limits, event_hooks={"response": [_look_at]}),
    )


async def send(client: Any, path: str, body: dict[str, Any]) -> Any:
    """Post a request; returns the response, whose body is not read.

    Raises:
        ErrorStatus, Redirected: see there.
        openai.APIConnectionError, httpx2.HTTPError: no connection, or it broke off.
    """
    import httpx2
    import openai

    return await client.post(path, cast_to=httpx2.Response, body=body, stream=True, stream_cls=openai.AsyncStream[Any])


async def _look_at(response: Any) -> None:
    """What the client calls with each response, before it follows a redirect or reads the body of an error."""
    if response.has_redirect_location:
        there = response.url.join(response.headers["location"])
        if (there.scheme, there.host, there.port) != (response.url.scheme, response.url.host, response.url.port):
            raise Redirected(there.host)
    elif response.is_error:
        body, _ = await _start_of(response, _LARGEST_ERROR)
        raise ErrorStatus(response.status_code, response.headers, body)


async def whole(response: Any, tokens: int) -> bytes:
    """The body of a reply of so many tokens at most, to its end.

    Raises:
        Fault: it is longer than such a reply can be.
    """
    most = min(LARGEST_REPLY, 2**20 + _PER_TOKEN * tokens)
    data, ended = b"", False
    try:
        length = response.headers.get("content-length", "")
        if not (length.isdigit() and int(length) > most):
            data, ended = await _start_of(response, most)
    finally:
        await response.aclose()
    if not ended:
        raise Fault("malformed reply: no end", answered=True)
    return data


async def _start_of(response: Any, most: int) -> tuple[bytes, bool]:
    """The first `most` bytes of a body, and whether it ended by then."""
    data = bytearray()
    async for part in response.aiter_bytes():
        data += part[: most + 1 - len(data)]
        if len(data) > most:
            return bytes(data[:most]), False
    return bytes(data), True
