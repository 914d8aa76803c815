"""Rate limits for Django: a decorator for views, and a middleware for every route.

    @rate_limit("search", by=lambda request: str(request.user.pk))
    def search(request): ...

`settings.py` has the arguments of the client: `TOLLGATE_URL`, `TOLLGATE_TOKEN`,
`TOLLGATE_TIMEOUT`, `TOLLGATE_ON_FAILURE`, `TOLLGATE_NAMES` and `TOLLGATE_MAX_CONNECTIONS`.
The README describes them and the other settings.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.module_loading import import_string

from ._address import address_of
from ._answers import Decision
from ._async_client import AsyncTollgate
from ._calls import cost_of, trace_of
from ._client import Tollgate
from ._config import client_arguments
from ._denial import denial, limit_headers
from ._keys import Attributes, attributes_of

__all__ = ["TollgateMiddleware", "client_address", "rate_limit"]

By = Callable[[HttpRequest], Any]
T = TypeVar("T")
View = TypeVar("View", bound=Callable[..., Any])

# Settings that are no arguments of the client.
_OTHERS = (
    "TOLLGATE_ASYNC_CLIENT",
    "TOLLGATE_BY",
    "TOLLGATE_CLIENT",
    "TOLLGATE_DENIED",
    "TOLLGATE_HEADERS",
    "TOLLGATE_NAME",
)


def client_address(request: HttpRequest) -> Attributes:
    """Returns the address of the client as the attribute `ip`: the default key.

    It is `REMOTE_ADDR`, as the server gives it. Behind a proxy, that is the proxy's,
    unless the server is configured to trust it. The service counts all addresses of an
    IPv6 /64 together.
    """
    return address_of(request.META.get("REMOTE_ADDR"), request.headers.get("X-Forwarded-For"))


def rate_limit(name: str, *, by: By | None = None, cost: int = 1) -> Callable[[View], View]:
    """Makes a decorator that checks a request before its view, sync or async.

    `by` gets the request and returns attributes, or one string; it may be async if the view
    is. The decision is `request.tollgate`. For a class-based view, use `method_decorator`.
    """
    if not isinstance(name, str) or not name:
        raise ValueError("name: expected the name of a check, such as 'search'")
    cost_of(cost)

    def decorate(view: View) -> View:
        if iscoroutinefunction(view):

            @functools.wraps(view)
            async def limited_async(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
                decision = await _decide_async(request, name, by, cost)
                if not decision.allowed:
                    return _denied(request, decision)
                return _with_headers(await view(request, *args, **kwargs), decision)

            return cast(View, limited_async)

        @functools.wraps(view)
        def limited(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
            decision = _decide(request, name, by, cost)
            if not decision.allowed:
                return _denied(request, decision)
            return _with_headers(view(request, *args, **kwargs), decision)

        return cast(View, limited)

    return decorate


class TollgateMiddleware:
    """Checks each request that matches a route, before its view.

    The name of the check is `TOLLGATE_NAME`, or the route's template after a slash, such as
    `/users/<int:pk>/`. Requests without a route are not checked.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        # Django calls the view hook in the mode that it finds it in.
        self.process_view: Callable[..., Any] = self._check
        if self._is_async:
            markcoroutinefunction(self)
            self.process_view = self._check_async

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._respond_async(request)
        return self._respond(request, self._get_response(request))

    async def _respond_async(self, request: HttpRequest) -> HttpResponseBase:
        return self._respond(request, await self._get_response(request))

    def _respond(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        decision: Decision | None = getattr(request, "tollgate", None)
        return response if decision is None else _with_headers(response, decision)

    def _check(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        decision = _decide(request, _name_of(request), None, 1)
        return None if decision.allowed else _denied(request, decision)

    async def _check_async(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        decision = await _decide_async(request, _name_of(request), None, 1)
        return None if decision.allowed else _denied(request, decision)


def _decide(request: HttpRequest, name: str, by: By | None, cost: int) -> Decision:
    if _in_event_loop():
        raise RuntimeError(
            "rate_limit: this check would block the event loop: for an async class-based view, "
            "decorate its handlers (`async def get`), and not `dispatch`"
        )
    return _check(request, name, (by or _by())(request), cost)


async def _decide_async(request: HttpRequest, name: str, by: By | None, cost: int) -> Decision:
    key = (by or _by())(request)
    if inspect.isawaitable(key):
        key = await key
    if not isinstance(request, ASGIRequest):
        # An async view under WSGI has a loop for this request alone, whose connections
        # nobody could use again.
        return await sync_to_async(_check)(request, name, key, cost)
    decision = await _async_client().check(
        name, attributes_of(key), cost=cost, **trace_of(request.headers)
    )
    return _noted(request, decision)


def _check(request: HttpRequest, name: str, key: Any, cost: int) -> Decision:
    decision = _client().check(name, attributes_of(key), cost=cost, **trace_of(request.headers))
    return _noted(request, decision)


def _noted(request: HttpRequest, decision: Decision) -> Decision:
    request.tollgate = decision  # type: ignore[attr-defined]
    return decision


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _name_of(request: HttpRequest) -> str:
    name: str | None = getattr(settings, "TOLLGATE_NAME", None)
    if name is not None:
        return name
    match = request.resolver_match
    assert match is not None, "Django resolves a request before its view"
    return f"/{match.route}"


def _denied(request: HttpRequest, decision: Decision) -> HttpResponseBase:
    """The response to a denied request: that of `TOLLGATE_DENIED`, or a problem in JSON."""
    written = denial(decision, headers=_headers())
    respond = _function("TOLLGATE_DENIED")
    if respond is None:
        return HttpResponse(written.body, status=written.status, headers=written.headers)
    response: HttpResponseBase = respond(request, decision)
    for name, value in written.headers.items():
        response.headers.setdefault(name, value)
    return response


def _with_headers(response: Any, decision: Decision) -> Any:
    if _headers():
        for name, value in limit_headers(decision).items():
            response.headers.setdefault(name, value)
    return response


def _headers() -> bool:
    return bool(getattr(settings, "TOLLGATE_HEADERS", False))


def _by() -> By:
    return _function("TOLLGATE_BY") or client_address


def _function(setting: str) -> Callable[..., Any] | None:
    """A setting that is a function, or the path of one."""
    given = getattr(settings, setting, None)
    function = import_string(given) if isinstance(given, str) else given
    if function is not None and not callable(function):
        raise ImproperlyConfigured(f"{setting}: expected a function, or its path")
    return cast("Callable[..., Any] | None", function)


def _client() -> Tollgate:
    return _given("TOLLGATE_CLIENT", Tollgate) or _own_client()


def _async_client() -> AsyncTollgate:
    return _given("TOLLGATE_ASYNC_CLIENT", AsyncTollgate) or _own_async_client()


@functools.cache
def _own_client() -> Tollgate:
    return _made(Tollgate)


@functools.cache
def _own_async_client() -> AsyncTollgate:
    return _made(AsyncTollgate)


def _given(setting: str, client: type[T]) -> T | None:
    given = getattr(settings, setting, None)
    if given is not None and not isinstance(given, client):
        raise ImproperlyConfigured(f"{setting}: expected a client, {client.__name__}")
    return given


def _made(client: Callable[..., T]) -> T:
    try:
        return client(**_arguments())
    except (TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"settings of Tollgate: {error}") from error


def _arguments() -> dict[str, Any]:
    given = [name for name in dir(settings) if name.startswith("TOLLGATE_")]
    return client_arguments({name: getattr(settings, name) for name in given}, _OTHERS)


def _forget_clients(*, setting: str, **_: Any) -> None:
    """Makes new clients when a test overrides a setting."""
    if setting.startswith("TOLLGATE_"):
        if _own_client.cache_info().currsize:
            _own_client().close()
        _own_client.cache_clear()
        _own_async_client.cache_clear()


setting_changed.connect(_forget_clients)
