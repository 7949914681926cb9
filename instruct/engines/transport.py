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
    """A redirect that would send the prompts and the key to another origin, or no prompt; its text is the host."""


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
        if response.has_redirect_location:
            response = await _followed(client, response)
    except httpx2.RequestError as error:
        unsent = isinstance(error, httpx2.ConnectError | httpx2.ProxyError | httpx2.UnsupportedProtocol)
        # A reset is a ConnectTimeout, too; no other time limit than the connection's is set.
        unsent = unsent or isinstance(error.__cause__, TimeoutError | aiohttp.ClientConnectorError)
        raise Fault(NO_CONNECTION, answered=not unsent) from None
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


async def _followed(client: httpx2.AsyncClient, response: httpx2.Response) -> httpx2.Response:
    """What the place answers that a server redirects to, once; nothing is read of the redirect."""
    await response.aclose()
    again = response.next_request
    assert again is not None
    here, there = response.url, again.url
    same = (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
    if same and response.status_code in (307, 308):  # the client makes a GET of the POST after another status
        response = await client.send(again, stream=True, follow_redirects=False)
        if not response.has_redirect_location:
            return response
        await response.aclose()
    raise Redirected(without_key(there.host))
