"""Rate limits as dependencies of FastAPI.

`install` once gives an app its client and its answer to denials. `rate_limit` then makes
a dependency: `dependencies=[Depends(rate_limit("search", by=user_id))]`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Depends, FastAPI
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from . import asgi
from ._answers import Decision
from ._async_client import AsyncTollgate
from ._calls import cost_of, trace_of
from ._denial import denial, limit_headers
from ._keys import Attributes, attributes_of
from ._limited import RateLimited

__all__ = ["client_address", "install", "rate_limit"]

_PASSED = "tollgate_client.passed"


def client_address(connection: HTTPConnection) -> Attributes:
    """Returns the address of the client as the attribute `ip`: the default key.

    It is the address that the server gives. Behind a proxy, that is the proxy's, unless
    the server is configured to trust it (`uvicorn --proxy-headers --forwarded-allow-ips`).
    """
    return asgi.client_address(connection.scope)


def install(app: FastAPI, client: AsyncTollgate, *, headers: bool = False) -> None:
    """Gives an app its client, and answers `RateLimited` with 429 or 503.

    With `headers`, responses have the limit headers that the service sent; after several
    checks, those of the last one. Close the client yourself, in the app's `lifespan`.
    """
    if not isinstance(client, AsyncTollgate):
        raise TypeError(f"client: expected an AsyncTollgate, got {type(client).__name__}")
    if hasattr(app.state, "tollgate"):
        raise RuntimeError("this app has a client of Tollgate already")
    app.state.tollgate = client

    async def answer(connection: Any, error: RateLimited) -> Response | None:
        if isinstance(connection, WebSocket):
            scope, receive, send = connection.scope, connection.receive, connection.send
            await asgi.send_denial(error.decision, headers, scope, receive, send)
            return None
        written = denial(error.decision, headers=headers)
        return Response(written.body, written.status, written.headers)

    # Starlette's type wants one handler for requests and another for WebSockets.
    handler: Any = answer
    app.add_exception_handler(RateLimited, handler)
    if headers:
        app.add_middleware(_PassedHeaders)


def rate_limit(
    name: str,
    *,
    by: Callable[..., Any] = client_address,
    cost: int = 1,
) -> Callable[..., Awaitable[Decision]]:
    """Makes a dependency that checks a request, and returns the decision.

    `by` is a dependency itself, so it may depend on whatever FastAPI gives. It returns
    attributes, or one string. If it raises, its error is the answer; `HTTPException` for a
    missing user works.

    Raises `RateLimited` on a denial, which `install` turns into a response.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("name: expected the name of a check, such as 'search'")
    cost_of(cost)

    async def check_limit(connection: HTTPConnection, key: Any = Depends(by)) -> Decision:  # noqa: B008
        client = _client(connection)
        decision = await client.check(
            name, attributes_of(key), cost=cost, **trace_of(connection.headers)
        )
        if not decision.allowed:
            raise RateLimited(name, decision)
        passed = connection.scope.get(_PASSED)
        if passed is not None:
            passed.clear()
            passed.update(limit_headers(decision))
        return decision

    return check_limit


class _PassedHeaders:
    """Adds the headers that a dependency found to the response of whatever kind."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            passed: dict[str, str] = {}
            scope[_PASSED] = passed
            send = asgi.with_headers(send, lambda: passed)
        await self._app(scope, receive, send)


def _client(connection: HTTPConnection) -> AsyncTollgate:
    client = getattr(connection.app.state, "tollgate", None)
    if client is None:
        raise RuntimeError("this app has no client: call tollgate_client.fastapi.install(app, ...)")
    assert isinstance(client, AsyncTollgate)
    return client
