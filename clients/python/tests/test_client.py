"""The clients against the real service."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from both import Clients
from conftest import StartPeer
from servers import Service, answer, binary, read_request

from tollgate_client import AsyncTollgate, Decision, Tollgate

Start = Callable[..., Service]


def test_a_name_and_attributes_are_the_key(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "5/1h").url)

    decision = tollgate.check("search", {"user": "alice"}, cost=2)
    assert (decision.allowed, decision.status, decision.source) == (True, 200, "store")
    assert (decision.limit, decision.used, decision.remaining) == (5, 2, 3)
    assert 0 < decision.reset_after <= 3600
    assert decision.headers["ratelimit-policy"] == '"default";q=5;w=3600'

    assert tollgate.check("search", user="alice").used == 3
    assert tollgate.check("search", user="bob").used == 1
    assert tollgate.check("login", user="alice").used == 1
    assert tollgate.check("search", user="alice", beta=True).used == 1


def test_lists_and_booleans_are_attributes(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "5/1h", "--key", "user").url)
    assert tollgate.check("search", user="alice", tags=["a", "b"], beta=True).used == 1
    assert tollgate.check("search", user="é" * 512, tags=["a" * 1024]).used == 1
    most = {f"{i:0>2}" + "ä" * 126: True for i in range(62)}
    assert tollgate.check("s" * 1024, most, user="bob").used == 1
    assert tollgate.check("search", user="zoe", tags=["a"] * 64).used == 1


def test_a_denial_is_a_value(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "5/1h").url)
    tollgate.check("search", user="alice", cost=5)

    denied = tollgate.check("search", user="alice")
    assert (denied.allowed, denied.status, denied.reason) == (False, 429, "quota_exceeded")
    assert 0 < denied.retry_after <= 3600
    assert denied.failure is None

    hopeless = tollgate.check("search", user="bob", cost=6)
    assert (hopeless.allowed, hopeless.retry_after) == (False, None)
    assert tollgate.failures == {}


def test_a_peek_takes_nothing(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "5/1h").url)
    assert tollgate.peek("search", user="alice", cost=5).allowed
    assert not tollgate.peek("search", user="alice", cost=6).allowed
    assert tollgate.check("search", user="alice").used == 1


def test_wait_ends_when_the_window_does(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1s@first_hit").url)
    assert tollgate.wait("crm", timeout=20).allowed
    assert tollgate.wait("crm", timeout=20).allowed

    began = time.monotonic()
    denied = tollgate.wait("crm", timeout=0)
    assert (denied.allowed, denied.reason) == (False, "quota_exceeded")
    assert not tollgate.wait("crm", timeout=20, cost=2).allowed
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda t: t.check(""), "name"),
        (lambda t: t.check(5), "name"),
        (lambda t: t.check("s", user=5), "user"),
        (lambda t: t.check("s", user=None), "user"),
        (lambda t: t.check("s", user=["a", 1]), "user"),
        (lambda t: t.check("s", {"user": "a"}, user="b"), "user.*twice"),
        (lambda t: t.check("s", action="login"), "action"),
        (lambda t: t.check("s", ["user"]), "attributes"),
        (lambda t: t.check("s", user="\ud83d"), "Unicode"),
        (lambda t: t.check("s", user="a" * 1025), "user.*1024 bytes"),
        (lambda t: t.check("s", user=["a", "é" * 513]), "user.*1024 bytes"),
        (lambda t: t.check("s", {str(n): ["a" * 1000] * 2 for n in range(60)}), "65536"),
        (lambda t: t.check("s", cost=-1), "cost"),
        (lambda t: t.check("s", cost=2**32), "cost"),
        (lambda t: t.check("s", cost=1.5), "cost"),
        (lambda t: t.check("s", cost=True), "cost"),
        (lambda t: t.check("s", traceparent="a\r\nb: c"), "traceparent"),
        (lambda t: t.check("s", {f"a{i}": "1" for i in range(64)}), "more than 64"),
        (lambda t: t.check("s", {"": "1"}), "a name must have"),
        (lambda t: t.check("s", {"ä" * 129: "1"}), "a name must have"),
        (lambda t: t.check("s", tags=["a"] * 65), "more than 64"),
        (lambda t: t.check("s" * 1025), "longer than 1024"),
        (lambda t: t.count("s" * 1025, k="a", window="1m"), "longer than 1024"),
        (lambda t: t.count("s", {f"a{i}": "1" for i in range(65)}, window="1m"), "more than 64"),
        (lambda t: t.wait("s", timeout=-1), "timeout"),
        (lambda t: t.wait("s", timeout=float("nan")), "timeout"),
        (lambda t: t.reserve("s", units=1001), "units"),
        (lambda t: t.reserve("s", expires_after=0), "expires_after"),
        (lambda t: t.count("s", k="a", window="1m", quotas=["5/1m"]), "either"),
        (lambda t: t.count("s", k="a"), "either"),
        (lambda t: t.count("s", window="1m"), "attribute"),
        (lambda t: t.count("s", k="a", quotas="5/1m"), "quotas"),
        (lambda t: t.count("s", k="a", window="1m", operation="take"), "operation"),
        (lambda t: t.count("s", k="a", window="1m", operation="set"), "used"),
        (lambda t: t.count("s", k="a", window="1m", on_store_failure="local"), "on_store_failure"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(
    clients: Clients, call: Callable[[Any], Any], complaint: str
) -> None:
    tollgate = clients("http://127.0.0.1:1")
    with pytest.raises((TypeError, ValueError), match=complaint):
        call(tollgate)
    assert tollgate.failures == {}


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"url": "http://host"}, "url"),
        ({"url": "http://host:0"}, "port"),
        ({"url": "http://host:65536"}, "port"),
        ({"url": "http://user:secret@host:80"}, "url"),
        ({"url": "http://host:80/path"}, "url"),
        ({"url": "http://host:80?a"}, "url"),
        ({"url": "http://ho st:80"}, "url"),
        ({"url": "http://host:80\n"}, "url"),
        ({"url": "http://[::zz]:80"}, "url"),
        ({"url": "redis://host:80"}, "url"),
        ({"url": ""}, "url"),
        ({"url": "http://a..b_-:1"}, "host"),
        ({"url": "http://-a:1"}, "host"),
        ({"url": "http://" + "a" * 64 + ":1"}, "host"),
        ({"url": "unix:/"}, "url"),
        ({"url": "unix:/a?b"}, "url"),
        ({"url": "unix:/a#c"}, "url"),
        ({"url": "unix:relative"}, "url"),
        ({"url": "unix:" + "/a" * 60}, "url"),
        ({"token": ""}, "token"),
        ({"token": "a\nb"}, "token"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": 61}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"on_failure": "local"}, "on_failure"),
        ({"names": {"login": "close"}}, "names"),
        ({"max_connections": 0}, "max_connections"),
    ],
)
def test_a_wrong_setting_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint) as caught:
        Tollgate(**settings)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("HTTP://Host.example:80/", "http://Host.example:80"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://rate_limiter.example.:80", "http://rate_limiter.example.:80"),
        ("unix:/run/tollgate.sock", "unix:/run/tollgate.sock"),
    ],
)
def test_the_usual_addresses_are_accepted(url: str, named: str) -> None:
    assert repr(Tollgate(url)) == f"Tollgate({named!r})"


def test_a_unix_socket_is_an_address(clients: Clients, service: Start) -> None:
    # Paths of sockets are short; those of `tmp_path` may not be.
    with tempfile.TemporaryDirectory() as folder:
        url = f"unix:{folder}/tollgate.sock"
        tollgate = clients(service("--limit", "5/1h", listen=url).url)
        assert [tollgate.check("search").used for _ in range(3)] == [1, 2, 3]
        assert tollgate.failures == {}
    assert clients(url).check("search").failure == "connection"


def test_the_environment_gives_what_is_missing(
    clients: Clients, service: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens, token = tmp_path / "tokens.jsonl", tmp_path / "token"
    new = ["token", "new", "--name", "app", "--scope", "check"]
    subprocess.run(
        [binary(), *new, "--token-file", token, "--tokens", tokens], check=True, capture_output=True
    )
    running = service("--limit", "5/1h", "--tokens", str(tokens))
    monkeypatch.setenv("TOLLGATE_URL", running.url)
    assert clients().check("search").failure == "refused"
    monkeypatch.setenv("TOLLGATE_TOKEN", token.read_text().strip())
    assert clients().check("search").failure is None


def test_a_hold_is_settled_at_its_cost(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "100/1h").url)
    with tollgate.hold("render", user="alice", cost=10) as hold:
        assert hold.allowed
        assert hold.settle(7).status == "settled"
    assert tollgate.peek("render", user="alice").used == 7

    reserved = tollgate.reserve("render", user="bob", cost=10)
    assert reserved.renew().status == "renewed"
    assert reserved.release().status == "settled"
    # Whoever has settled is not told to stop the work.
    assert (reserved.renew().status, reserved.lost) == ("ended", False)
    assert tollgate.peek("render", user="bob").used == 0


def test_a_hold_that_is_not_settled_keeps_its_charge(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "100/1h").url)
    with tollgate.hold("render", user="alice", cost=10):
        pass
    with pytest.raises(ZeroDivisionError), tollgate.hold("render", user="alice", cost=5):
        raise ZeroDivisionError
    assert tollgate.peek("render", user="alice").used == 15


def test_release_on_error_gives_back(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "100/1h").url)
    with pytest.raises(ZeroDivisionError), tollgate.hold("r", cost=5, release_on_error=True):
        raise ZeroDivisionError
    with tollgate.hold("r", cost=3, release_on_error=True):
        pass
    assert tollgate.peek("r").used == 3


def test_a_scope_that_is_cancelled_settles_all_the_same(peer: StartPeer) -> None:
    """anyio, and so Starlette, cancels each `await` of a scope again and again."""
    settled: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        # Settling takes a new connection, and so several turns of the loop.
        request = read_request(connected)
        if b"/v1/settle" in request:
            settled.append(request)
            connected.sendall(answer(b'{"status": "settled"}'))
        else:
            sealed = b'{"allowed": true, "hold": "sealed", "expires_after_ms": 60000}'
            connected.sendall(answer(sealed, headers="Connection: close\r\n"))

    async def run() -> None:
        # Closing waits for the settlement.
        async with AsyncTollgate(peer(serve).url, timeout=20) as tollgate:
            with anyio.CancelScope() as scope:
                async with tollgate.hold("render", cost=5, release_on_error=True):
                    scope.cancel()
                    await anyio.sleep(20)

    asyncio.run(run())
    assert [request.partition(b"\r\n\r\n")[2] for request in settled] == [
        b'{"hold":"sealed","cost":0}'
    ]


def test_a_denied_hold_has_nothing_to_settle(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "5/1h").url)
    with tollgate.hold("render", cost=6) as hold:
        assert not hold.allowed
        with pytest.raises(RuntimeError, match="denied"):
            hold.settle(1)
    assert tollgate.failures == {}


def test_units_in_flight_live_as_long_as_their_scope(
    clients: Clients, service: Start, tmp_path: Path
) -> None:
    policies = tmp_path / "tollgate.yaml"
    policies.write_text("policies: [{ name: exports, key: [user], quotas: [1~in_flight:60s] }]")
    tollgate = clients(service("--config", str(policies)).url)
    with tollgate.hold("export", user="alice") as hold:
        assert hold.allowed
        denied = tollgate.reserve("export", user="alice")
        assert (denied.allowed, denied.decision.reason) == (False, "in_flight_exceeded")
    assert tollgate.reserve("export", user="alice").allowed


def test_a_hold_is_renewed_until_it_is_lost(clients: Clients, peer: StartPeer) -> None:
    renewals: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            if b"/v1/reserve" in request:
                sealed = b'{"allowed": true, "hold": "sealed", "expires_after_ms": 30}'
                connected.sendall(answer(sealed))
            elif b"/v1/renew" in request:
                renewals.append(request)
                status = b"renewed" if len(renewals) < 5 else b"lost"
                connected.sendall(answer(b'{"status": "%s"}' % status))
            else:
                connected.sendall(answer(b'{"status": "expired"}'))

    tollgate = clients(peer(serve).url)
    sleep = getattr(tollgate, "sleep", time.sleep)
    with tollgate.hold("export", cost=3) as hold:
        assert not hold.lost
        ends = time.monotonic() + 20
        while not hold.lost:
            assert time.monotonic() < ends
            sleep(0.01)
        sleep(0.1)
    assert len(renewals) == 5
    assert all(request.endswith(b'\r\n\r\n{"hold":"sealed"}') for request in renewals)


def test_a_hold_says_that_it_is_lost(clients: Clients, service: Start, tmp_path: Path) -> None:
    policies = tmp_path / "tollgate.yaml"
    policies.write_text("policies: [{ name: exports, key: [user], quotas: [1~in_flight:30s] }]")
    running = service("--config", str(policies))
    tollgate = clients(running.url)
    hold = tollgate.reserve("export", user="alice")
    body = json.dumps({"attributes": {"action": "export", "user": "alice"}}).encode()
    reset = urllib.request.Request(
        f"{running.admin}/v1/reset", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(reset) as reply:
        assert reply.status == 200
    assert hold.renew().status == "lost"
    assert hold.lost


def test_a_hold_without_a_limit_is_gone(clients: Clients, service: Start, tmp_path: Path) -> None:
    policies = tmp_path / "tollgate.yaml"
    policies.write_text(
        "policies: [{ name: a, match: { action: other }, key: [user], quotas: [5/1m] }]"
    )
    tollgate = clients(service("--config", str(policies)).url)
    hold = tollgate.reserve("render", user="alice")
    assert (hold.allowed, hold.settle(1).status) == (True, "gone")


def test_a_policy_that_is_closed_wins_over_a_client_that_is_open(
    clients: Clients, service: Start
) -> None:
    down = service(
        "--limit", "5/1m", "--store", "redis://127.0.0.1:1", "--on-store-failure", "closed"
    )
    tollgate = clients(down.url)
    decision = tollgate.check("login", user="alice")
    assert (decision.allowed, decision.status) == (False, 503)
    assert (decision.failure, decision.source) == ("unavailable", "client")
    assert not tollgate.reserve("login", user="alice").allowed


def test_decisions_are_told_apart_by_their_fields() -> None:
    assert Decision(True) == Decision(True)
    assert Decision(True) != Decision(True, used=1)


def test_a_client_that_was_closed_hides_no_error_of_a_scope(
    clients: Clients, peer: StartPeer
) -> None:
    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            connected.sendall(
                answer(b'{"allowed": true, "hold": "sealed", "expires_after_ms": 60000}')
            )

    tollgate = clients(peer(serve).url)

    def work() -> None:
        with tollgate.hold("render"):
            tollgate.close()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert tollgate.failures == {"connection": 1}
    if clients.loop is not None:
        # The task that renews has ended.
        clients.loop.run_until_complete(asyncio.sleep(0))
        assert asyncio.all_tasks(clients.loop) == set()


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_hold_that_no_thread_can_renew_is_a_failure(
    peer: StartPeer, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    paths: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            paths.append(request.split()[1])
            reserved = b'{"allowed": true, "hold": "sealed", "expires_after_ms": 60000}'
            settled = b'{"status": "settled"}'
            connected.sendall(answer(reserved if paths[-1] == b"/v1/reserve" else settled))

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    server = peer(serve)
    with Tollgate(server.url, timeout=20, on_failure=mode) as tollgate:
        # The thread of the server has to be there.
        tollgate.reserve("render").release()
        paths.clear()
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with tollgate.hold("render") as hold:
                assert hold.allowed == (mode == "open")
                assert hold.decision.failure == "connection"
        assert tollgate.failures == {"connection": 1}
    assert paths == [b"/v1/reserve", b"/v1/settle"]


def test_waiting_for_no_time_does_not_spin(clients: Clients, peer: StartPeer) -> None:
    asked: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            asked.append(request)
            connected.sendall(answer(b'{"allowed": false, "retry_after_ms": 0}', 429))

    assert not clients(peer(serve).url).wait("crm", timeout=0.1).allowed
    assert 1 < len(asked) <= 101
