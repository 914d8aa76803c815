"""The decorator and the middleware of Django, in front of the real service."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import django_app  # noqa: F401
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client, override_settings
from servers import Peer, Service, answer, read_request

import tollgate_client.django
from tollgate_client import Decision
from tollgate_client.testing import Call, FakeAsyncTollgate, FakeTollgate

Start = Callable[..., Service]
POLICIES = """
policies:
  - { name: search, match: { action: search }, key: [key], quotas: [2/1h] }
  - { name: ip, match: { action: ip }, key: [ip], quotas: [2/1h] }
  - { name: users, match: { action: "/users/<int:pk>/" }, key: [ip], quotas: [1/1h] }
  - { name: items, match: { action: "/^items/(?P<item>[a-z]+)$" }, key: [ip], quotas: [1/1h] }
  - { name: root, match: { action: "/" }, key: [ip], quotas: [1/1h] }
  - { name: everything, match: { action: everything }, key: [key], quotas: [1/1h] }
"""


@pytest.fixture
def served(service: Start, tmp_path: Any) -> Iterator[Service]:
    file = tmp_path / "policies.yaml"
    file.write_text(POLICIES)
    started = service("--config", str(file))
    with configured(started.url):
        yield started


def configured(url: str, **settings: Any) -> override_settings:
    return override_settings(TOLLGATE_URL=url, **settings)


def get(path: str, user: str = "alice", **options: Any) -> Any:
    client = Client(raise_request_exception=False)
    return client.get(path, headers={"X-User": user, **options.pop("headers", {})}, **options)


def get_async(*paths: str, user: str = "alice") -> list[Any]:
    """Asks through the ASGI handler, one after another."""

    async def play() -> list[Any]:
        client = AsyncClient(raise_request_exception=False)
        answers = [await client.get(path, headers={"X-User": user}) for path in paths]
        await tollgate_client.django._async_client().close()
        tollgate_client.django._own_async_client.cache_clear()
        return answers

    return asyncio.run(play())


def statuses(answers: list[Any]) -> list[int]:
    return [each.status_code for each in answers]


def test_a_view_admits_its_limit_by_its_key(served: Service) -> None:
    assert statuses([get("/search") for _ in range(3)]) == [200, 200, 429]
    assert get("/search", "bob").content == b"admitted 1"


def test_sync_and_async_views_share_a_limit_under_wsgi_and_asgi(served: Service) -> None:
    assert get("/search").content == b"admitted 1"
    assert get("/async").status_code == 429
    assert get("/async", "bob").content == b"admitted 0"
    assert statuses(get_async("/async", "/search", "/search")) == [429, 200, 429]


def test_class_based_views_are_limited(served: Service) -> None:
    assert statuses([get("/class"), get("/async-class"), get("/class")]) == [200, 200, 429]
    assert statuses(get_async("/async-class", "/async-class", user="bob")) == [200, 200]
    assert statuses(get_async("/class", "/async-class", user="bob")) == [429, 429]


def test_a_check_that_would_block_the_event_loop_is_refused(served: Service) -> None:
    assert statuses(get_async("/blocking-class")) == [500]


def test_a_denial_is_a_problem_with_the_time_to_wait(served: Service) -> None:
    get("/async")
    for denied in (get("/search"), *get_async("/search")):
        assert denied.status_code == 429
        assert denied.headers["Content-Type"] == "application/problem+json"
        assert json.loads(denied.content)["violated-policies"] == ["search"]
        assert 0 < int(denied.headers["Retry-After"]) <= 3600
        assert denied.headers["Cache-Control"] == "no-store"
        assert not any("ratelimit" in name.lower() for name in denied.headers)
        assert b"alice" not in denied.content


def test_limit_headers_are_passed_on_by_choice(served: Service) -> None:
    with configured(served.url, TOLLGATE_HEADERS=True):
        admitted = get("/search")
        assert '"search";r=1' in admitted.headers["RateLimit"]
        assert "Retry-After" not in admitted.headers
        get("/search")
        assert '"search";r=0' in get("/search").headers["RateLimit"]
        assert '"items";r=0' in get("/items/abc").headers["RateLimit"]
        assert '"root";r=0' in get_async("/")[0].headers["RateLimit"]


def test_the_default_key_is_the_address(served: Service) -> None:
    asked = [("192.0.2.1", 200), ("192.0.2.1", 200), ("192.0.2.1", 429)]
    # A /64 of IPv6 is one client.
    asked += [("2001:db8::1", 200), ("2001:db8::2", 200), ("2001:db8::3", 429)]
    asked += [("2001:db8:0:1::", 200)]
    assert [(each, get("/ip", REMOTE_ADDR=each).status_code) for each, _ in asked] == asked


def test_the_middleware_checks_every_route_under_its_template(served: Service) -> None:
    assert statuses([get(f"/users/{user}/") for user in (1, 2)]) == [200, 429]
    assert statuses([get(f"/items/{item}") for item in "ab"]) == [200, 429]
    assert statuses(get_async("/", "/", "/users/3/")) == [200, 429, 429]
    assert get("/missing").status_code == 404


def test_the_middleware_uses_one_name_and_a_key_of_the_settings(served: Service) -> None:
    settings = {"TOLLGATE_NAME": "everything", "TOLLGATE_BY": "django_app.user"}
    with configured(served.url, **settings):
        assert statuses([get("/"), get("/users/1/")]) == [200, 429]
        assert get("/", "bob").status_code == 200


def slow_down(request: HttpRequest, decision: Decision) -> HttpResponse:
    return HttpResponse(f"slow down: {decision.limit}", status=decision.status)


def test_the_response_to_a_denial_can_be_replaced(served: Service) -> None:
    with configured(served.url, TOLLGATE_DENIED=slow_down):
        get("/async")
        denied = get("/search")
    assert (denied.status_code, denied.content) == (429, b"slow down: 2")
    assert denied.headers["Content-Type"].startswith("text/html")
    assert 0 < int(denied.headers["Retry-After"]) <= 3600


@pytest.mark.parametrize("failing", [lambda _: None, lambda _: "", lambda _: 1 / 0])
def test_a_failing_key_is_an_error_of_the_app(served: Service, failing: Any) -> None:
    with configured(served.url, TOLLGATE_BY=failing):
        assert get("/ip").status_code == 500
        assert statuses(get_async("/ip")) == [500]


def test_without_the_service_the_app_answers_as_configured(service: Start) -> None:
    served = service("--limit", "5/1m")
    served.kill()
    with configured(served.url):
        assert get("/search").status_code == 200
        assert tollgate_client.django._client().failures == {"connection": 2}
    with configured(served.url, TOLLGATE_ON_FAILURE="closed"):
        denied = get("/search")
    assert denied.status_code == 503
    assert "Retry-After" not in denied.headers


def test_an_app_is_tested_without_a_service() -> None:
    fake, fake_async = FakeTollgate(), FakeAsyncTollgate()
    fake.deny("search", retry_after=30, times=1)
    fake_async.deny("search", retry_after=40, times=1)
    with override_settings(TOLLGATE_CLIENT=fake, TOLLGATE_ASYNC_CLIENT=fake_async):
        denied = [get("/search"), get_async("/async")[0]]
        assert statuses([get("/search")]) == [200]
    assert statuses(denied) == [429, 429]
    assert [each.headers["Retry-After"] for each in denied] == ["30", "40"]
    assert fake.calls[-1] == Call("check", "search", {"key": "alice"}, 1)
    assert [call.name for call in fake_async.calls] == ["/async", "search"]
    with override_settings(TOLLGATE_CLIENT=fake_async), pytest.raises(ImproperlyConfigured):
        Client().get("/ip")


def test_trace_context_and_key_are_sent_and_no_path(peer: Callable[..., Peer]) -> None:
    seen: list[bytes] = []

    def serve(connected: Any) -> None:
        seen.append(read_request(connected))
        connected.sendall(answer(b'{"allowed":true,"source":"store"}'))

    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with configured(peer(serve).url):
        get("/users/4711/?token=secret", headers={"traceparent": traceparent})
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert f"traceparent: {traceparent}".encode() in head.lower()
    assert json.loads(body)["attributes"] == {"action": "/users/<int:pk>/", "ip": "127.0.0.1"}


@pytest.mark.parametrize(
    "settings", [{"TOLLGATE_TIMEOUTS": 1}, {"TOLLGATE_BY": 5}, {"TOLLGATE_URL": "http://a/b"}]
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any]) -> None:
    with override_settings(**settings), pytest.raises(ImproperlyConfigured):
        Client().get("/ip")
