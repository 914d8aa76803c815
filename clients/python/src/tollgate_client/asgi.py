"""A middleware for every ASGI app: one named limit in front of all of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from ._address import address_of
from ._answers import Decision
from ._async_client import AsyncTollgate
from ._calls import cost_of, trace_of
from ._denial import denial, limit_headers
from ._keys import Attributes, attributes_of

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Key: TypeAlias = str | Attributes
By: TypeAlias = Callable[[Scope], Key] | Callable[[Scope], Awaitable[Key]]


def header(scope: Scope, name: str) -> str | None:
    """Returns the first header of this name of a request, for key functions."""
    wanted = name.lower().encode("latin-1")
    for given, value in scope["headers"]:
        if given == wanted:
            return str(value.decode("latin-1"))
    return None


def client_address(scope: Scope) -> Attributes:
    """Returns the address of the client as the attribute `ip`: the default key.

    It is the address that the server gives. Behind a proxy, that is the proxy's, unless
    the server is configured to trust it (`uvicorn --proxy-headers --forwarded-allow-ips`).
    The service counts all addresses of an IPv6 /64 together.
    """
    client = scope.get("client")
    return address_of(str(client[0]) if client else None, header(scope, "x-forwarded-for"))


class TollgateMiddleware:
    """Checks each request of an app under one name, before the app sees it.

    A denied request gets a problem in JSON with status 429, or 503 if the client denies
    without an answer of the service. A denied WebSocket is refused before it opens.

    `by` is called with the ASGI scope and returns attributes or one string; it may be
    async. If it raises, the request ends with that error, and not with the app's answer.
    """

    def __init__(
        self,
        app: App,
        client: AsyncTollgate,
        *,
        name: str,
        by: By = client_address,
        cost: int = 1,
        headers: bool = False,
    ) -> None:
        if not isinstance(client, AsyncTollgate):
            raise TypeError(f"client: expected an AsyncTollgate, got {type(client).__name__}")
        if not isinstance(name, str) or not name:
            raise ValueError("name: expected the name of a check; paths of requests are not names")
        self._app = app
        self._client = client
        self._name = name
        self._by = by
        self._cost = cost_of(cost)
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        decision = await self._decide(scope)
        if not decision.allowed:
            await send_denial(decision, self._headers, scope, receive, send)
        elif self._headers and decision.headers:
            await self._app(scope, receive, with_headers(send, lambda: limit_headers(decision)))
        else:
            await self._app(scope, receive, send)

    async def _decide(self, scope: Scope) -> Decision:
        key = self._by(scope)
        if inspect.isawaitable(key):
            key = await key
        trace = {name: header(scope, name) or "" for name in ("traceparent", "tracestate")}
        return await self._client.check(
            self._name, attributes_of(key), cost=self._cost, **trace_of(trace)
        )


async def send_denial(
    decision: Decision, headers: bool, scope: Scope, receive: Receive, send: Send
) -> None:
    """Answers a denied request or WebSocket."""
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            # Before the handshake, this makes the server answer 403.
            await send({"type": "websocket.close", "code": 1008, "reason": "rate limited"})
            return
        kind = "websocket.http.response"
    response = denial(decision, headers=headers)
    raw = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in response.headers.items()
    ]
    raw.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": f"{kind}.start", "status": response.status, "headers": raw})
    await send({"type": f"{kind}.body", "body": response.body})


def with_headers(send: Send, headers: Callable[[], MutableMapping[str, str]]) -> Send:
    """Returns a `send` that adds headers to the start of a response, unless it has them."""

    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.accept"):
            raw = list(message.get("headers", []))
            present = {bytes(name).lower() for name, _ in raw}
            for name, value in headers().items():
                if name.encode("latin-1") not in present:
                    raw.append((name.encode("latin-1"), value.encode("latin-1")))
            message = {**message, "headers": raw}
        await send(message)

    return sending
