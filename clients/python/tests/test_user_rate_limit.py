"""The example of a server with its limit in three lines, on the real service and Redis."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt
import pytest
from apps import App, uvicorn
from conftest import StartPeer
from cryptography.hazmat.primitives.asymmetric import rsa
from servers import Redis, Service, answer

EXAMPLES = Path(__file__).parents[1] / "examples"
REALM_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
FOREIGN_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def token(key: Any = REALM_KEY, **claims: Any) -> dict[str, str]:
    claims = {"sub": "user_val", "aud": "account", "exp": time.time() + 60, **claims}
    signed = jwt.encode(claims, key, "RS256", headers={"kid": "first"})
    return {"Authorization": f"Bearer {signed}"}


def keycloak(connected: socket.socket) -> None:
    """Publishes the keys of the realm."""
    key = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(REALM_KEY.public_key()))
    published = json.dumps({"keys": [{**key, "kid": "first", "use": "sig", "alg": "RS256"}]})
    request = b""
    while b"\r\n\r\n" not in request:
        request += connected.recv(65536)
    assert request.startswith(b"GET /realms/master/protocol/openid-connect/certs ")
    connected.sendall(answer(published.encode(), headers="Connection: close\r\n"))


@pytest.fixture
def app(
    service: Callable[..., Service],
    redis: Redis,
    peer: StartPeer,
    apps: Callable[[Callable[[], App]], App],
    monkeypatch: pytest.MonkeyPatch,
) -> App:
    monkeypatch.setenv("RATE_LIMIT_REQUESTS", "3")
    monkeypatch.setenv("RATE_LIMIT_WINDOW_SECONDS", "3600")
    running = service("--import", "valkey-env", "--store", redis.url, "--store-timeout", "200ms")
    environment = {
        "TOLLGATE_URL": running.url,
        "KEYCLOAK_SERVER_URL": peer(keycloak).url,
        "PYTHONPATH": str(EXAMPLES),
    }
    return apps(lambda: uvicorn("user_rate_limit:app", environment))


def test_the_fourth_of_four_requests_is_denied(app: App, redis: Redis) -> None:
    answers = [app.ask("/api/data", token()) for _ in range(4)]
    assert [each.status for each in answers] == [200, 200, 200, 429]
    data = {"message": "Here is your rate-limited data!", "user_id": "user_val"}
    assert answers[0].json() == data
    text = "Rate limit exceeded. Maximum 3 requests per 3600 seconds."
    assert answers[3].json() == {"detail": text}
    assert 0 < int(answers[3].headers["retry-after"]) <= 3600
    assert app.ask("/api/data", token(sub="other")).status == 200
    assert b"rate_limit:user_val:%d" % (time.time() // 3600) in keys_of(redis)


def keys_of(redis: Redis) -> bytes:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(redis.url.removeprefix("unix://"))
        asking.sendall(b"KEYS *\r\n")
        return asking.recv(65536)


def test_the_public_route_has_no_limit(app: App) -> None:
    assert [app.ask("/").json() for _ in range(5)] == [{"message": "Welcome to the API"}] * 5


def test_a_token_must_be_the_realms(app: App) -> None:
    refused = [
        ({}, "Missing Authorization header"),
        ({"Authorization": "Basic abc"}, "Invalid Authorization header format"),
        (token(FOREIGN_KEY), "Invalid token or authentication failed: "),
        (token(exp=time.time() - 60), "Invalid token or authentication failed: "),
        (token(aud="another"), "Invalid token or authentication failed: "),
        (token(sub=""), "Invalid token payload: missing sub claim"),
    ]
    for headers, text in refused:
        answer = app.ask("/api/data", headers)
        assert answer.status == 401
        assert answer.json()["detail"].startswith(text)


def test_requests_are_admitted_while_the_store_is_down(app: App, redis: Redis) -> None:
    assert app.ask("/api/data", token()).status == 200
    redis.kill()
    assert [app.ask("/api/data", token()).status for _ in range(5)] == [200] * 5
