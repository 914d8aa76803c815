"""The extension of Flask, in front of the real service."""

from __future__ import annotations

import json
from collections.abc import Callable

import flask
import pytest
from servers import Peer, Service, answer, read_request

from tollgate_client import Tollgate
from tollgate_client.flask import Denied, FlaskTollgate
from tollgate_client.testing import Call, FakeTollgate

Start = Callable[..., Service]
PATIENT = {"timeout": 20.0}
POLICIES = """
policies:
  - { name: search, match: { action: search }, key: [key], quotas: [2/1h] }
  - { name: ip, match: { action: ip }, key: [ip], quotas: [2/1h] }
  - { name: user, match: { action: "/users/<int:user>" }, key: [ip], quotas: [1/1h] }
"""


def user() -> str:
    return flask.request.headers["X-User"]


def app_of(served: Service, **options: object) -> flask.Flask:
    app = flask.Flask(__name__)
    app.config.update(TOLLGATE_URL=served.url, TOLLGATE_TIMEOUT=20.0)
    tollgate = FlaskTollgate(app, **options)  # type: ignore[arg-type]

    @app.get("/search")
    @tollgate.limit("search", by=user)
    def search() -> str:
        return f"admitted {flask.g.tollgate.remaining}"

    @app.get("/async")
    @tollgate.limit("search", by=lambda: {"key": user()}, cost=2)
    async def search_async() -> str:
        return "admitted"

    @app.get("/ip")
    @tollgate.limit("ip")
    def ip() -> str:
        return "admitted"

    @app.get("/users/<int:user>")
    def show(user: int) -> str:
        return f"user {user}"

    return app


@pytest.fixture
def served(service: Start, tmp_path) -> Service:  # type: ignore[no-untyped-def]
    file = tmp_path / "policies.yaml"
    file.write_text(POLICIES)
    return service("--config", str(file))


def get(app: flask.Flask, path: str, user: str = "alice", **options: object):  # type: ignore[no-untyped-def]
    headers = {"X-User": user, **options.pop("headers", {})}  # type: ignore[arg-type]
    return app.test_client().get(path, headers=headers, **options)


def test_a_view_admits_its_limit_by_its_key(served: Service) -> None:
    app = app_of(served)
    assert [get(app, "/search").status_code for _ in range(3)] == [200, 200, 429]
    assert get(app, "/search", "bob").text == "admitted 1"


def test_a_denial_is_a_problem_with_the_time_to_wait(served: Service) -> None:
    app = app_of(served)
    assert get(app, "/async").text == "admitted"
    denied = get(app, "/search")
    assert denied.status_code == 429
    assert denied.content_type == "application/problem+json"
    assert denied.json["title"] == "Quota exceeded"
    assert denied.json["violated-policies"] == ["search"]
    assert 0 < int(denied.headers["Retry-After"]) <= 3600
    assert denied.headers["Cache-Control"] == "no-store"
    assert not any("ratelimit" in name.lower() for name, _ in denied.headers)
    assert "alice" not in denied.text


def test_limit_headers_are_passed_on_by_choice(served: Service) -> None:
    app = app_of(served, headers=True)
    admitted = get(app, "/search")
    assert admitted.status_code == 200
    assert '"search";r=1' in admitted.headers["RateLimit"]
    assert "Retry-After" not in admitted.headers
    get(app, "/search")
    denied = get(app, "/search")
    assert denied.status_code == 429
    assert '"search";r=0' in denied.headers["RateLimit"]
    assert len(denied.headers.getlist("RateLimit")) == 1


def test_the_default_key_is_the_address(served: Service) -> None:
    app = app_of(served)
    for address, statuses in (("192.0.2.1", [200, 200, 429]), ("2001:db8::1", [200])):
        for status in statuses:
            assert get(app, "/ip", environ_base={"REMOTE_ADDR": address}).status_code == status
    # The other half of a /64, and another /64.
    assert get(app, "/ip", environ_base={"REMOTE_ADDR": "2001:db8::2"}).status_code == 200
    assert get(app, "/ip", environ_base={"REMOTE_ADDR": "2001:db8::3"}).status_code == 429
    assert get(app, "/ip", environ_base={"REMOTE_ADDR": "2001:db8:0:1::"}).status_code == 200


def test_every_route_is_checked_under_its_template(served: Service) -> None:
    app = app_of(served, every_route=True)
    assert [get(app, f"/users/{user}").status_code for user in (1, 2)] == [200, 429]
    assert get(app, "/missing").status_code == 404


def test_an_errorhandler_for_429_replaces_the_response(served: Service) -> None:
    app = app_of(served, headers=True)

    @app.errorhandler(429)
    def too_many(error: Denied) -> tuple[str, int]:
        return f"slow down: {error.limit_name} {error.decision.limit}", 429

    get(app, "/async")
    denied = get(app, "/search")
    assert (denied.status_code, denied.text) == (429, "slow down: search 2")
    assert 0 < int(denied.headers["Retry-After"]) <= 3600
    assert denied.headers["Content-Type"].startswith("text/html")
    assert '"search";r=0' in denied.headers["RateLimit"]


def test_the_exception_of_a_limited_function_is_answered_as_well(served: Service) -> None:
    app = app_of(served)
    client = Tollgate(served.url, timeout=20.0)

    @client.limit("search", by=lambda key: key)
    def work(key: str) -> str:
        return "worked"

    app.add_url_rule("/work", view_func=lambda: work("carol"))
    answers = [get(app, "/work") for _ in range(3)]
    assert [each.status_code for each in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["Retry-After"]) <= 3600
    client.close()


@pytest.mark.parametrize("failing", [lambda: None, lambda: "", lambda: {}, lambda: 1 / 0])
def test_a_failing_key_is_an_error_of_the_app(served: Service, failing: Callable[[], str]) -> None:
    app = app_of(served, by=failing)
    assert get(app, "/ip").status_code == 500


def test_a_server_without_an_address_is_an_error(served: Service) -> None:
    assert get(app_of(served), "/ip", environ_base={"REMOTE_ADDR": ""}).status_code == 500


def test_without_the_service_the_app_answers_as_configured(service: Start) -> None:
    served = service("--limit", "5/1m")
    served.kill()
    app = app_of(served)
    assert get(app, "/search").status_code == 200
    assert app.extensions["tollgate"].client.failures == {"connection": 1}
    closed = flask.Flask(__name__)
    closed.config.update(TOLLGATE_URL=served.url, TOLLGATE_NAMES={"login": "closed"})
    tollgate = FlaskTollgate(closed)
    closed.add_url_rule("/login", view_func=tollgate.limit("login")(lambda: "welcome"))
    denied = closed.test_client().get("/login")
    assert denied.status_code == 503
    assert "Retry-After" not in denied.headers
    assert denied.headers["Cache-Control"] == "no-store"


def test_the_extension_has_its_client_and_failures(service: Start) -> None:
    served = service("--limit", "5/1m")
    served.kill()
    app, tollgate = flask.Flask(__name__), FlaskTollgate()
    with pytest.raises(RuntimeError, match="has 0 clients"):
        _ = tollgate.client
    app.config.update(TOLLGATE_URL=served.url, TOLLGATE_TIMEOUT=20.0)
    tollgate.init_app(app)
    app.add_url_rule("/search", view_func=tollgate.limit("search")(lambda: tollgate.failures))
    assert tollgate.client is app.extensions["tollgate"].client
    assert get(app, "/search").json == {"connection": 1}
    assert tollgate.failures == {"connection": 1}
    other = flask.Flask("other")
    tollgate.init_app(other)
    with pytest.raises(RuntimeError, match="has 2 clients"):
        _ = tollgate.failures
    with app.app_context():
        assert tollgate.failures == {"connection": 1}
    with other.app_context():
        assert tollgate.failures == {}


def test_an_app_is_tested_without_a_service() -> None:
    app, fake = flask.Flask(__name__), FakeTollgate()
    tollgate = FlaskTollgate(app, fake)
    app.add_url_rule("/search", view_func=tollgate.limit("search", by=user)(lambda: "found"))
    fake.deny("search", retry_after=30, times=1)
    denied = get(app, "/search")
    assert (denied.status_code, denied.headers["Retry-After"]) == (429, "30")
    assert get(app, "/search").status_code == 200
    assert fake.calls == [Call("check", "search", {"key": "alice"}, 1)] * 2


def test_trace_context_and_key_are_sent_and_no_path(peer: Callable[..., Peer]) -> None:
    seen: list[bytes] = []

    def serve(connected) -> None:  # type: ignore[no-untyped-def]
        seen.append(read_request(connected))
        connected.sendall(answer(b'{"allowed":true,"source":"store"}'))

    app = flask.Flask(__name__)
    app.config.update(TOLLGATE_URL=peer(serve).url, TOLLGATE_TIMEOUT=20.0)
    FlaskTollgate(app, every_route=True)
    app.add_url_rule("/users/<int:user>", view_func=lambda user: "shown")
    headers = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    assert app.test_client().get("/users/4711?token=secret", headers=headers).text == "shown"
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert b"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" in head.lower()
    assert json.loads(body) == {
        "attributes": {"action": "/users/<int:user>", "ip": "127.0.0.1"},
    }


def test_a_wrong_setting_is_refused() -> None:
    app = flask.Flask(__name__)
    app.config["TOLLGATE_TIMEOUTS"] = 1
    with pytest.raises(ValueError, match="TOLLGATE_TIMEOUTS: no such setting"):
        FlaskTollgate(app)
    with pytest.raises(ValueError, match="name"):
        FlaskTollgate().limit("")
    with pytest.raises(RuntimeError, match="init_app"), flask.Flask("other").test_request_context():
        FlaskTollgate().check("search")
