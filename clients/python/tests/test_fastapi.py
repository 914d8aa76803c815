"""Limits as dependencies of FastAPI."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from apps import App, Load, in_parallel, uvicorn
from conftest import StartPeer
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response, WebSocket
from fastapi.testclient import TestClient
from servers import Redis, Relay, Service, until
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from tollgate_client import _address, asgi
from tollgate_client.fastapi import install, rate_limit
from tollgate_client.testing import Call, FakeAsyncTollgate, FakeTollgate

Start = Callable[..., Service]
StartApp = Callable[[Callable[[], App]], App]


def by_header(request: Request) -> str:
    return request.headers["x-user"]


def browser(app: Any, **settings: Any) -> TestClient:
    return TestClient(app, client=("192.0.2.1", 1), **settings)


def app_with(limit: Any, **settings: Any) -> tuple[FastAPI, FakeAsyncTollgate]:
    app, tollgate = FastAPI(), FakeAsyncTollgate(names={"login": "closed"})
    install(app, tollgate, **settings)

    @app.get("/items/{number}", dependencies=[Depends(limit)])
    async def item(number: int) -> dict[str, int]:
        return {"number": number}

    @app.get("/plain", dependencies=[Depends(limit)])
    def plain() -> Response:
        return Response("plain")

    @app.websocket("/feed")
    async def feed(socket: WebSocket, _: Any = Depends(limit)) -> None:  # noqa: B008
        await socket.accept()
        await socket.send_text("news")
        await socket.close()

    return app, tollgate


def test_a_request_is_checked_under_its_name_and_key() -> None:
    app, tollgate = app_with(rate_limit("search", by=by_header, cost=2))
    with browser(app) as client:
        assert client.get("/items/7", headers={"x-user": "alice"}).json() == {"number": 7}
    assert tollgate.calls == [Call("check", "search", {"key": "alice"}, 2)]


def test_the_key_is_the_address_of_the_client_by_default() -> None:
    app, tollgate = app_with(rate_limit("search"))
    with TestClient(app, client=("2001:db8::1", 1)) as client:
        client.get("/items/7")
    assert tollgate.calls == [Call("check", "search", {"ip": "2001:db8::1"}, 1)]


def test_a_denial_is_a_problem_with_the_time_to_wait() -> None:
    app, tollgate = app_with(rate_limit("search"))
    tollgate.deny("search", retry_after=29.2, policy="users")
    with browser(app) as client:
        denied = client.get("/items/7")
    assert denied.status_code == 429
    assert denied.headers["retry-after"] == "30"
    assert denied.headers["cache-control"] == "no-store"
    assert denied.headers["content-type"] == "application/problem+json"
    assert denied.json() == {
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Quota exceeded",
        "status": 429,
        "detail": "retry in 30 s",
        "violated-policies": ["users"],
    }


def test_a_denial_that_waiting_does_not_help_has_no_time() -> None:
    app, tollgate = app_with(rate_limit("search"))
    tollgate.deny("search", reason="cost_exceeds_limit", times=1)
    tollgate.deny("search", reason="in_flight_exceeded", times=1)
    tollgate.deny("search", status=403, times=1)
    tollgate.deny("search", status=200, times=1)
    with browser(app) as client:
        answers = [client.get("/items/7") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 429, 403, 429]
    assert [answer.headers.get("retry-after") for answer in answers] == [None, "1", None, None]


def test_a_name_that_is_closed_gets_503_without_an_answer() -> None:
    app, tollgate = app_with(rate_limit("login"))
    tollgate.fail("login", "timeout")
    with browser(app) as client:
        denied = client.get("/items/7")
    assert (denied.status_code, denied.json()["status"]) == (503, 503)
    assert "retry-after" not in denied.headers
    assert tollgate.failures == {"timeout": 1}


def test_a_name_that_is_open_is_admitted_without_an_answer() -> None:
    app, tollgate = app_with(rate_limit("search"))
    tollgate.fail("search", "connection")
    with browser(app) as client:
        assert client.get("/items/7").status_code == 200
    assert tollgate.failures == {"connection": 1}


REFUSED_KEYS = [
    None,
    "",
    {},
    5,
    {"user": ""},
    {"user": []},
    {"user": ["a", ""]},
    {"user": ["a"] * 65},
    {"ip": ""},
    {"ip": "unknown"},
    {"ip": "192.0.2.1, 192.0.2.2"},
    {"ip": "192.0.2.1:80"},
    {"ip": "fe80::1%eth0"},
    {"ip": ["192.0.2.1"]},
    {"ip": True},
    {"": "alice"},
    {f"a{i}": "1" for i in range(64)},
    KeyError("no user"),
]


@pytest.mark.parametrize("returned", REFUSED_KEYS)
def test_a_key_function_that_fails_admits_nobody(returned: Any) -> None:
    def by() -> Any:
        if isinstance(returned, Exception):
            raise returned
        return returned

    app, tollgate = app_with(rate_limit("search", by=by))
    with browser(app, raise_server_exceptions=False) as client:
        assert client.get("/items/7").status_code == 500
    assert tollgate.calls == []


def test_the_key_is_a_dependency_with_errors_of_its_own() -> None:
    def user(request: Request) -> str:
        raise HTTPException(401)

    def key(name: str = Depends(user)) -> str:
        return name

    app, tollgate = app_with(rate_limit("search", by=key))
    with browser(app) as client:
        assert client.get("/items/7").status_code == 401
    assert tollgate.calls == []


def test_a_limit_of_a_router_and_one_of_a_route_are_both_checked() -> None:
    app, tollgate = FastAPI(), FakeAsyncTollgate()
    install(app, tollgate)
    router = APIRouter(prefix="/api", dependencies=[Depends(rate_limit("api"))])

    @router.get("/items", dependencies=[Depends(rate_limit("items"))])
    async def items() -> None: ...

    app.include_router(router)
    with browser(app) as client:
        client.get("/api/items")
    assert [call.name for call in tollgate.calls] == ["api", "items"]


def test_a_websocket_is_denied_before_it_opens() -> None:
    app, tollgate = app_with(rate_limit("feed"))
    tollgate.deny("feed", retry_after=3)
    with browser(app) as client:
        with pytest.raises(WebSocketDenialResponse) as caught, client.websocket_connect("/feed"):
            pass
        assert (caught.value.status_code, caught.value.headers["retry-after"]) == (429, "3")
        tollgate.admit("feed")
        with client.websocket_connect("/feed") as opened:
            assert opened.receive_text() == "news"


def test_an_app_without_a_client_says_so() -> None:
    app = FastAPI(dependencies=[Depends(rate_limit("search"))])

    @app.get("/")
    async def root() -> None: ...

    with browser(app) as client, pytest.raises(RuntimeError, match="install"):
        client.get("/")
    install(app, FakeAsyncTollgate())
    with pytest.raises(RuntimeError, match="already"):
        install(app, FakeAsyncTollgate())


def test_wrong_arguments_are_refused_when_the_app_is_made() -> None:
    for name in ("", None):
        with pytest.raises(ValueError, match="name"):
            rate_limit(name)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="cost"):
        rate_limit("search", cost=-1)


# The middleware for every app.


def plain_app(seen: list[str]) -> asgi.App:
    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        seen.append(scope["type"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": 1000})
            return
        headers = [(b"X-RateLimit-Limit", b"own")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    return app


def test_the_middleware_checks_every_request() -> None:
    seen: list[str] = []
    tollgate = FakeAsyncTollgate()

    async def by(scope: asgi.Scope) -> dict[str, str]:
        return {"key": asgi.header(scope, "X-Api-Key") or "none"}

    app = asgi.TollgateMiddleware(plain_app(seen), tollgate, name="api", by=by, cost=3)
    client = browser(app)
    trace = {"traceparent": "00-ab-cd-01"}
    assert client.get("/", headers={"X-API-Key": "k1", **trace}).text == "hello"
    tollgate.deny("api", retry_after=1)
    assert client.get("/").status_code == 429
    with pytest.raises(WebSocketDenialResponse), client.websocket_connect("/"):
        pass
    assert [call.attributes["key"] for call in tollgate.calls] == ["k1", "none", "none"]
    assert tollgate.calls[0].cost == 3
    assert seen == ["http"]


def test_a_server_without_denial_responses_closes_the_websocket() -> None:
    tollgate = FakeAsyncTollgate()
    tollgate.deny("api")
    inner = asgi.TollgateMiddleware(plain_app([]), tollgate, name="api")

    async def old_server(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await inner({**scope, "extensions": {}}, receive, send)

    client = browser(old_server)
    with pytest.raises(WebSocketDisconnect) as caught, client.websocket_connect("/"):
        pass
    assert caught.value.code == 1008


def test_the_middleware_wants_a_name() -> None:
    with pytest.raises(ValueError, match="name"):
        asgi.TollgateMiddleware(plain_app([]), FakeAsyncTollgate(), name="")
    with pytest.raises(ValueError, match="cost"):
        asgi.TollgateMiddleware(plain_app([]), FakeAsyncTollgate(), name="api", cost=-1)


def test_a_proxy_that_is_not_trusted_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_address, "_warned", set())
    app = asgi.TollgateMiddleware(plain_app([]), FakeAsyncTollgate(), name="api")
    trusted = TestClient(app, client=("10.0.0.9", 1), headers={"x-forwarded-for": "10.0.0.9"})
    hidden = TestClient(app, client=("10.0.0.1", 1), headers={"x-forwarded-for": "192.0.2.7"})
    with caplog.at_level(logging.WARNING):
        trusted.get("/")
        assert caplog.text == ""
        hidden.get("/")
        hidden.get("/")
    assert caplog.text.count("all clients count as one") == 1
    assert "192.0.2.7" not in caplog.text


# Real servers.


def test_two_processes_admit_exactly_the_limit(
    service: Start, redis: Redis, apps: StartApp
) -> None:
    # A busy machine must not look like an outage.
    running = service("--limit", "20/1h", "--store", redis.url, "--store-timeout", "20s")
    environment = {"TOLLGATE_URL": running.url, "APP_TIMEOUT": "20"}
    both = [apps(lambda: uvicorn("fastapi_app:app", environment)) for _ in range(2)]
    responses = in_parallel(both, 50, "/search", {"x-user": "alice"})
    assert sorted(each.status for each in responses) == [200] * 20 + [429] * 30
    for each in responses:
        assert each.headers["ratelimit-policy"] == '"default";q=20;w=3600'
        assert ("retry-after" in each.headers) == (each.status == 429)
    assert [each.ask("/failures").json() for each in both] == [{}, {}]
    assert both[0].ask("/search", {"x-user": "bob"}).status == 200
    assert both[0].ask("/search").status == 401


@pytest.mark.parametrize("fault", ["killed", "stopped", "slow"])
def test_the_app_stays_up_without_the_service(
    service: Start, peer: StartPeer, apps: StartApp, fault: str
) -> None:
    running = service("--limit", "20/1h")
    relay = Relay(running.url, peer)
    url = relay.url if fault == "slow" else running.url
    app = apps(lambda: uvicorn("fastapi_app:app", {"TOLLGATE_URL": url}))
    alice = {"x-user": "alice"}

    with Load(app, 16, "/search", alice) as load:
        load.go_on_for(100)
        if fault == "killed":
            running.kill()
        elif fault == "stopped":
            running.pause()
        else:
            relay.delay = 1.0
        load.go_on_for(100)
        login = app.ask("/login", alice, "POST")

    assert load.errors == []
    statuses = [each.status for each in load.responses]
    assert set(statuses) == {200, 429}
    passed = app.ask("/failures").json()
    assert set(passed) <= {"timeout", "connection"}
    # One was the login. Of the rest, a call without an answer may have been charged before.
    assert 0 <= statuses.count(200) - (sum(passed.values()) - 1) <= 20
    assert login.status == 503
    slowest = max(each.seconds for each in load.responses)
    assert slowest < 0.25 + 2, f"a request took {slowest:.3f} s"

    running.go_on()
    relay.delay = 0.0
    if fault != "killed":
        until(lambda: app.ask("/search", alice).status == 429, "the limit")


@pytest.mark.parametrize("given", ["testclient", "unknown", "192.0.2.1, 192.0.2.2", "192.0.2.1:80"])
def test_a_server_that_gives_no_address_admits_nobody(given: str) -> None:
    app, tollgate = app_with(rate_limit("search"))
    with TestClient(app, client=(given, 1), raise_server_exceptions=False) as client:
        assert client.get("/items/7").status_code == 500
    assert tollgate.calls == []


def test_only_a_client_of_asyncio_is_installed() -> None:
    with pytest.raises(TypeError, match="AsyncTollgate"):
        install(FastAPI(), FakeTollgate())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AsyncTollgate"):
        asgi.TollgateMiddleware(FastAPI(), FakeTollgate(), name="api")  # type: ignore[arg-type]


def test_a_denial_by_the_client_itself_has_no_type() -> None:
    app, tollgate = app_with(rate_limit("login"))
    tollgate.fail("login", "timeout")
    with browser(app) as client:
        own = client.get("/items/7").json()
        tollgate.admit("login")
        tollgate.deny("login", reason="cost_exceeds_limit")
        hopeless = client.get("/items/7").json()
    assert own == {"title": "Rate limiter unavailable", "status": 503}
    assert hopeless["detail"] == "waiting does not help"
    assert "violated-policies" not in hopeless
