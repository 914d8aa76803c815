"""Rate limits for Flask: on single views, or on every route.

tollgate = FlaskTollgate(app)

@app.get("/search")
@tollgate.limit("search", by=lambda: session["user"])
def search(): ...
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import flask
from werkzeug.exceptions import HTTPException, default_exceptions

from ._address import address_of
from ._answers import Decision
from ._calls import cost_of, trace_of
from ._client import Tollgate
from ._config import client_arguments
from ._denial import denial, limit_headers
from ._keys import Attributes, attributes_of
from ._limited import RateLimited

__all__ = ["Denied", "FlaskTollgate", "client_address"]

By: TypeAlias = Callable[[], str | Attributes]
View = TypeVar("View", bound=Callable[..., Any])

_EXTENSION = "tollgate"


def client_address() -> Attributes:
    """Returns the address of the client as the attribute `ip`: the default key.

    It is the address that the server gives. Behind a proxy, that is the proxy's, unless
    the app trusts it (`werkzeug.middleware.proxy_fix.ProxyFix`). The service counts all
    addresses of an IPv6 /64 together.
    """
    request = flask.request
    return address_of(request.remote_addr, request.headers.get("X-Forwarded-For"))


class Denied(HTTPException):
    """A request was denied. An `errorhandler` for it, or for 429, replaces the response.

    `decision` says why, and `limit_name` what was limited.
    """

    decision: Decision
    limit_name: str

    @classmethod
    def of(cls, limit_name: str, decision: Decision, *, headers: bool = False) -> Denied:
        """Makes the exception, which is also that of Werkzeug for its status."""
        written = denial(decision, headers=headers)
        response = flask.Response(written.body, written.status, written.headers)
        denied = _class_of(written.status)(f"{limit_name}: denied", response=response)
        denied.decision = decision
        denied.limit_name = limit_name
        return denied


@functools.cache
def _class_of(status: int) -> type[Denied]:
    """Flask finds an `errorhandler` for a status by the class of an exception."""
    common = default_exceptions.get(status)
    bases = (Denied,) if common is None else (Denied, common)
    return type("Denied", bases, {"code": status})


@dataclass(frozen=True)
class _Installed:
    """What the extension has in an app."""

    client: Tollgate
    headers: bool


class FlaskTollgate:
    """The extension: checks requests with a client, and answers denials.

    The client is `client`, or made from `app.config`: `TOLLGATE_URL`, `TOLLGATE_TOKEN`,
    `TOLLGATE_TIMEOUT`, `TOLLGATE_ON_FAILURE`, `TOLLGATE_NAMES` and
    `TOLLGATE_MAX_CONNECTIONS` are its arguments. With `headers`, responses have the limit
    headers that the service sent; after several checks, those of the last one.

    With `every_route`, each request that matches a route is checked before its view,
    under the route's template, such as `/users/<id>`. Requests without a route are not.
    """

    def __init__(
        self,
        app: flask.Flask | None = None,
        client: Tollgate | None = None,
        *,
        by: By = client_address,
        headers: bool = False,
        every_route: bool = False,
    ) -> None:
        if client is not None and not isinstance(client, Tollgate):
            raise TypeError(f"client: expected a Tollgate, got {type(client).__name__}")
        self._client = client
        self._clients: weakref.WeakSet[Tollgate] = weakref.WeakSet()
        self._by = by
        self._headers = headers
        self._every_route = every_route
        if app is not None:
            self.init_app(app)

    def init_app(self, app: flask.Flask) -> None:
        """Gives an app its client, and its answer to denials."""
        if _EXTENSION in app.extensions:
            raise RuntimeError("this app has a client of Tollgate already")
        client = self._client
        if client is None:
            client = Tollgate(**client_arguments(app.config))
            weakref.finalize(app, client.close)
        self._clients.add(client)
        app.extensions[_EXTENSION] = _Installed(client, self._headers)
        app.register_error_handler(RateLimited, _answer)
        app.after_request(_add_headers)
        if self._every_route:
            app.before_request(self._check_route)

    @property
    def client(self) -> Tollgate:
        """The client of the current app; outside of one, of the only app with this extension.

        Raises `RuntimeError` if the client is ambiguous or there is none.
        """
        if flask.has_app_context():
            return _installed().client
        clients = list(self._clients)
        if len(clients) != 1:
            raise RuntimeError(
                f"outside of an app, this extension has {len(clients)} clients: "
                "use `with app.app_context()` after FlaskTollgate.init_app(app)"
            )
        return clients[0]

    @property
    def failures(self) -> dict[str, int]:
        """How many calls of `client` had no decision of the service, by kind."""
        return self.client.failures

    def limit(self, name: str, *, by: By | None = None, cost: int = 1) -> Callable[[View], View]:
        """Makes a decorator that checks a request before its view.

        `by` is called without arguments and returns attributes, or one string. Put the
        decorator below that of the route.
        """
        if not isinstance(name, str) or not name:
            raise ValueError("name: expected the name of a check, such as 'search'")
        cost_of(cost)

        def decorate(view: View) -> View:
            @functools.wraps(view)
            def limited(*args: Any, **kwargs: Any) -> Any:
                self.check(name, by=by, cost=cost)
                return flask.current_app.ensure_sync(view)(*args, **kwargs)

            return cast(View, limited)

        return decorate

    def check(self, name: str, *, by: By | None = None, cost: int = 1) -> Decision:
        """Checks the current request. Raises `Denied`, which Flask turns into a response."""
        installed = _installed()
        given = flask.request.headers
        trace = {each: given.get(each, "") for each in ("traceparent", "tracestate")}
        decision = installed.client.check(
            name,
            attributes_of((by or self._by)()),
            cost=cost,
            **trace_of(trace),
        )
        flask.g.tollgate = decision
        if not decision.allowed:
            raise Denied.of(name, decision, headers=installed.headers)
        return decision

    def _check_route(self) -> None:
        rule = flask.request.url_rule
        if rule is not None:
            self.check(rule.rule)


def _installed() -> _Installed:
    installed = flask.current_app.extensions.get(_EXTENSION)
    if installed is None:
        raise RuntimeError("this app has no client of Tollgate: call FlaskTollgate.init_app(app)")
    return cast(_Installed, installed)


def _answer(error: RateLimited) -> Any:
    """Answers the exception of a function that a client's own decorator limits."""
    flask.g.tollgate = error.decision
    denied = Denied.of(error.name, error.decision, headers=_installed().headers)
    return flask.current_app.handle_http_exception(denied)


def _add_headers(response: flask.Response) -> flask.Response:
    decision: Decision | None = flask.g.get("tollgate")
    if decision is None:
        return response
    headers = limit_headers(decision) if _installed().headers else {}
    if not decision.allowed:
        # A response of the app's own needs them as well.
        headers = dict(denial(decision).headers, **headers)
        del headers["content-type"]
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    return response
