"""HTTP below the openai client: one attempt, which stays at its server and reads no body past a limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import aiohttp
import httpx2

from instruct.engines.server_replies import NO_CONNECTION, ErrorStatus, Fault, problem_in, without_key

# Bytes that are read of a reply, and of an error.
LARGEST_REPLY = 64 * 2**20
_LARGEST_ERROR = 64 * 2**10


class Transport(httpx2.AsyncBaseTransport):
    """What the openai client sends through. It waits and sends a request again as long as an attempt returns a fault.

    Whatever an attempt raises ends the request.
    """

    def __init__(self, attempt: Callable[[httpx2.Request], Awaitable[Fault | None]]) -> None:
        self._attempt = attempt

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        fault = await self._attempt(request)
        if fault is None:
            return httpx2.Response(200, json={})
        return httpx2.Response(503, headers={"retry-after": fault.wait} if fault.wait else {})


class Redirected(Exception):
    """A redirect, which is not followed: it may lead the prompts and the key elsewhere. Its text is host and path."""


async def fetch(client: httpx2.AsyncClient, url: str, sent: httpx2.Request) -> bytes:
    """The body of the reply to a request that is sent to `url`.

    Raises:
        ErrorStatus: its status is an error.
        Fault: it did not arrive, or is longer than a reply can be.
        Redirected: the server is elsewhere.
    """
    headers = {name: value for name, value in sent.headers.items() if name != "host"}
    request = client.build_request("POST", url, content=sent.content, headers=headers)
    try:
        response = await client.send(request, stream=True, follow_redirects=False)
    except httpx2.RequestError as error:
        unsent = isinstance(error, httpx2.ConnectError | httpx2.ProxyError | httpx2.UnsupportedProtocol)
        # A reset is a ConnectTimeout, too; no other time limit than the connection's is set.
        unsent = unsent or isinstance(error.__cause__, TimeoutError | aiohttp.ClientConnectorError)
        raise Fault(NO_CONNECTION, answered=not unsent) from None
    if response.next_request is not None:
        await response.aclose()
        there = response.next_request.url
        raise Redirected(without_key(there.host + there.path))
    body = bytearray()
    try:
        async for part in response.aiter_bytes():
            body += part
            if len(body) > (_LARGEST_ERROR if response.is_error else LARGEST_REPLY):
                break
        else:
            if not response.is_error:
                return bytes(body)
    except httpx2.RequestError:
        raise Fault("the connection broke off", answered=True) from None
    finally:
        await response.aclose()
    if response.is_error:
        raise ErrorStatus(response.status_code, response.headers, problem_in(body))
    raise Fault("malformed reply: no end", answered=True)
