"""What the clients do without an answer, against peers that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import multiprocessing
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from both import Clients
from conftest import Serve, StartPeer
from servers import Service, answer, read_request, until

from tollgate_client import AsyncTollgate, Tollgate, _resolver, _streams

Start = Callable[..., Service]
ADMITTED = answer(b'{"allowed": true}')


def keep_alive(connected: socket.socket) -> None:
    """Admits every request of a connection."""
    while read_request(connected):
        connected.sendall(ADMITTED)


def bounded(call: Callable[[], Any], seconds: float) -> Any:
    """Runs a call that must end by its timeout; a busy machine may add some."""
    began = time.monotonic()
    result = call()
    took = time.monotonic() - began
    assert took < seconds + 1, f"took {took:.3f} s"
    return result


def trickle(connected: socket.socket) -> None:
    read_request(connected)
    for byte in answer(b'{"allowed": true}' + b" " * 10_000):
        connected.sendall(bytes([byte]))
        time.sleep(0.02)


def hang(connected: socket.socket) -> None:
    read_request(connected)
    read_request(connected)


@pytest.mark.parametrize("serve", [trickle, hang])
def test_a_call_ends_within_its_timeout(clients: Clients, peer: StartPeer, serve: Serve) -> None:
    tollgate = clients(peer(serve).url, timeout=0.2, names={"login": "closed"})
    admitted = bounded(lambda: tollgate.check("search"), 0.2)
    assert (admitted.allowed, admitted.status, admitted.failure) == (True, 200, "timeout")
    denied = bounded(lambda: tollgate.check("login"), 0.2)
    assert (denied.allowed, denied.status, denied.source) == (False, 503, "client")
    assert denied.used is denied.limit is denied.retry_after is None
    assert tollgate.failures == {"timeout": 2}


def test_a_name_that_takes_long_to_resolve_blocks_nobody(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    tollgate = clients("http://localhost:1", timeout=0.2)
    asked, go_on = [], threading.Event()

    def resolve(*arguments: Any, **settings: Any) -> Any:
        asked.append(threading.current_thread())
        go_on.wait(20)
        raise OSError("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    for _ in range(3):
        assert bounded(lambda: tollgate.check("search"), 0.2).failure == "timeout"
    assert len(asked) == 1
    go_on.set()
    asked[0].join()
    assert tollgate.check("search").failure == "connection"


@pytest.mark.parametrize("status", [500, 502, 400, 401, 404, 409, 302, 200])
@pytest.mark.parametrize("body", [b"<html>", b'{"detail": "why"}', b"[" * 100_000])
def test_a_body_without_a_decision_is_a_failure(
    clients: Clients, peer: StartPeer, status: int, body: bytes
) -> None:
    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            connected.sendall(answer(body, status, "Location: http://127.0.0.1:1/\r\n"))

    decision = clients(peer(serve).url).check("search")
    kind = "invalid" if status == 200 else "refused" if status < 500 else "unavailable"
    assert (decision.allowed, decision.failure) == (True, kind)


@pytest.mark.parametrize(
    ("answered", "kind"),
    [
        (b"", "connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{", "connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "connection"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid"),
        (b"220 mail.example ESMTP\r\n\r\n", "invalid"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000, "invalid"),
        (answer(b'{"allowed": "yes"}'), "invalid"),
        (answer(b'{"allowed": true, "limit": -1}'), "invalid"),
        (answer(b'{"allowed": true, "limit": 1e3}'), "invalid"),
        (answer(b'{"allowed": true, "limit": ' + b"9" * 5000 + b"}"), "invalid"),
        (answer(b'{"allowed": true, "policy": 5}'), "invalid"),
        (answer(b'{"allowed": true' + b" " * 1024 * 1024 + b"}"), "invalid"),
    ],
)
def test_broken_answers_are_failures(
    clients: Clients, peer: StartPeer, answered: bytes, kind: str
) -> None:
    arrived: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        arrived.append(read_request(connected))
        connected.sendall(answered)
        # Closing with unread bytes would reset the connection.
        connected.shutdown(socket.SHUT_WR)
        connected.recv(1)

    assert clients(peer(serve).url).check("search").failure == kind
    assert len(arrived) == 1


def test_a_check_is_never_repeated_after_it_was_sent(clients: Clients, peer: StartPeer) -> None:
    arrived: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        arrived.append(read_request(connected))
        connected.sendall(ADMITTED)
        arrived.append(read_request(connected))

    tollgate = clients(peer(serve).url)
    assert tollgate.check("search").failure is None
    # On a connection that was kept alive.
    assert tollgate.check("search").failure == "connection"
    assert len(arrived) == 2


def test_a_connection_that_was_closed_is_replaced(clients: Clients, peer: StartPeer) -> None:
    ended = threading.Semaphore(0)

    def serve(connected: socket.socket) -> None:
        read_request(connected)
        connected.sendall(ADMITTED)
        connected.shutdown(socket.SHUT_RDWR)
        ended.release()

    tollgate = clients(peer(serve).url)
    for _ in range(5):
        assert tollgate.check("search").failure is None
        assert ended.acquire(timeout=20)


def test_answers_that_nobody_asked_for_are_not_taken(clients: Clients, peer: StartPeer) -> None:
    denied = answer(b'{"allowed": false}', 429)

    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            connected.sendall(ADMITTED + denied)

    tollgate = clients(peer(serve).url)
    assert [tollgate.check("search").allowed for _ in range(5)] == [True] * 5


@pytest.mark.parametrize(
    "last",
    [
        answer(b'{"allowed": true}', headers="Connection: close\r\n"),
        answer(b'{"allowed": true}').replace(b"HTTP/1.1", b"HTTP/1.0"),
        ADMITTED + b"HTTP/1.1 200",
    ],
)
def test_a_connection_is_not_reused_after_its_last_answer(
    clients: Clients, peer: StartPeer, last: bytes
) -> None:
    def serve(connected: socket.socket) -> None:
        read_request(connected)
        connected.sendall(last)
        # The peer never closes: only the answer says that the connection is of no use.
        assert read_request(connected) == b""

    server = peer(serve)
    tollgate = clients(server.url)
    assert [tollgate.check("search").failure for _ in range(3)] == [None] * 3
    assert server.connections.qsize() == 3


def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    clients: Clients, peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = peer(keep_alive)
    with contextlib.ExitStack() as stack:
        # Linux drops what does not fit the queue of a listener.
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            filling = stack.enter_context(socket.socket())
            filling.setblocking(False)
            filling.connect_ex(silent.getsockname())
        good = ("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        looked_up = [(socket.AF_INET, address) for address in (silent.getsockname(), good)]
        tollgate = clients("http://localhost:1", timeout=4)
        monkeypatch.setattr(_resolver, "_look_up", lambda *_: looked_up)
        assert tollgate.check("search").failure is None


def test_connections_are_reused(clients: Clients, peer: StartPeer) -> None:
    server = peer(keep_alive)
    tollgate = clients(server.url)
    for _ in range(50):
        assert tollgate.check("search").failure is None
    assert server.connections.qsize() == 1


@pytest.mark.parametrize("closes", ["the service", "the client"])
def test_a_connection_ends_when_it_was_idle(
    clients: Clients, peer: StartPeer, monkeypatch: pytest.MonkeyPatch, closes: str
) -> None:
    server = peer(keep_alive)
    tollgate = clients(server.url)
    tollgate.check("search")
    first = server.connections.get(timeout=20)
    if closes == "the service":
        first.shutdown(socket.SHUT_RDWR)
    else:
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 61)
    assert tollgate.check("search").failure is None
    assert server.connections.qsize() == 1


def test_at_most_so_many_connections_are_made(peer: StartPeer) -> None:
    arrived, together = [], threading.Barrier(4)

    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            arrived.append(1)
            together.wait(20)
            connected.sendall(ADMITTED)

    server = peer(serve)

    async def run() -> list[Any]:
        async with AsyncTollgate(server.url, timeout=20, max_connections=4) as tollgate:
            return await asyncio.gather(*(tollgate.check("search") for _ in range(40)))

    assert all(decision.failure is None for decision in asyncio.run(run()))
    assert server.connections.qsize() == 4

    with Tollgate(server.url, timeout=20, max_connections=4) as tollgate:
        decisions = Clients("threads").together([lambda: tollgate.check("search")] * 40)
    assert all(decision.failure is None for decision in decisions)
    assert server.connections.qsize() == 8
    assert len(arrived) == 80


def test_a_call_waits_for_a_connection_within_its_timeout(peer: StartPeer) -> None:
    server = peer(hang)

    async def run() -> list[Any]:
        async with AsyncTollgate(server.url, timeout=0.2, max_connections=1) as tollgate:
            return await asyncio.gather(*(tollgate.check("search") for _ in range(5)))

    decisions = bounded(lambda: asyncio.run(run()), 0.2)
    assert [decision.failure for decision in decisions] == ["timeout"] * 5
    with Tollgate(server.url, timeout=0.2, max_connections=1) as tollgate:
        together = Clients("threads").together
        decisions = bounded(lambda: together([lambda: tollgate.check("search")] * 5), 0.2)
    assert [decision.failure for decision in decisions] == ["timeout"] * 5


def test_a_cancelled_call_gives_its_connection_back(peer: StartPeer) -> None:
    answering = threading.Event()

    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            if answering.is_set():
                connected.sendall(ADMITTED)

    async def run() -> None:
        async with AsyncTollgate(peer(serve).url, timeout=20, max_connections=1) as tollgate:
            tasks = [asyncio.create_task(tollgate.check("search")) for _ in range(3)]
            await asyncio.sleep(0.1)
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in done)
            answering.set()
            assert (await tollgate.check("search")).failure is None

    asyncio.run(run())


def test_a_call_that_is_cancelled_as_its_turn_comes_passes_it_on() -> None:
    async def run() -> bool:
        loop, ends = asyncio.get_running_loop(), time.monotonic() + 20
        slots = _streams._Slots(1)
        await slots.acquire(loop, ends)
        waiting = asyncio.create_task(slots.acquire(loop, ends))
        await asyncio.sleep(0)
        slots.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await slots.acquire(loop, time.monotonic() + 1)

    assert asyncio.run(run())


def test_a_hold_is_repeated_with_its_id_at_most_twice(clients: Clients, peer: StartPeer) -> None:
    arrived: list[dict[str, Any]] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            head, _, body = request.partition(b"\r\n\r\n")
            arrived.append({"path": head.split()[1], **json.loads(body)})
            if b"/v1/reserve" in head and len(arrived) < 3:
                return
            if b"/v1/reserve" in head:
                connected.sendall(
                    answer(b'{"allowed": true, "hold": "sealed", "expires_after_ms": 60000}')
                )
            else:
                return

    tollgate = clients(peer(serve).url)
    hold = tollgate.reserve("render", cost=5, units=2, expires_after=30)
    assert (hold.allowed, hold.decision.failure) == (True, None)
    assert len(arrived) == 3
    assert len({request["id"] for request in arrived}) == 1
    assert len(bytes.fromhex(arrived[0]["id"])) == 16
    assert (arrived[0]["cost"], arrived[0]["units"], arrived[0]["expires_after"]) == (5, 2, "30s")

    arrived.clear()
    assert hold.settle(3).failure == "connection"
    assert arrived == [{"path": b"/v1/settle", "hold": "sealed", "cost": 3}] * 3
    assert tollgate.failures == {"connection": 1}


def test_a_settlement_that_failed_is_repeated_at_the_end_of_its_scope(
    clients: Clients, peer: StartPeer
) -> None:
    costs: list[int] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            if b"/v1/reserve" in request:
                connected.sendall(answer(b'{"allowed": true, "hold": "sealed"}'))
                continue
            costs.append(json.loads(request.partition(b"\r\n\r\n")[2])["cost"])
            done = len(costs) > 1
            connected.sendall(answer(b'{"status": "settled"}') if done else answer(b"", 503))

    with clients(peer(serve).url).hold("render", cost=9) as hold:
        assert hold.settle(4).failure == "unavailable"
    assert costs == [4, 4]


def test_a_reservation_that_failed_is_a_hold_that_nothing_counts(clients: Clients) -> None:
    tollgate = clients("http://127.0.0.1:1", names={"login": "closed"})
    with tollgate.hold("render", cost=9) as hold:
        assert (hold.allowed, hold.renew().status, hold.settle(4).status) == (True, "gone", "gone")
    with tollgate.hold("login", cost=9) as hold:
        assert not hold.allowed
    assert tollgate.failures == {"connection": 2}


def test_failures_are_logged_once_a_minute_without_values(
    clients: Clients,
    peer: StartPeer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            connected.sendall(answer(b'{"detail": "so\\nand so"}', 400))

    tollgate = clients(peer(serve).url, token="canary-token")
    with caplog.at_level(logging.INFO, "tollgate_client"):
        for _ in range(20):
            tollgate.check("search", user="canary-value")
        assert [record.getMessage() for record in caplog.records] == [
            "tollgate: calls without a decision of the service: 1 (refused: 1); "
            "the last: refused: status 400: so?and so"
        ]
        now = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: now() + 61)
        tollgate.check("search")
        monkeypatch.undo()
    assert "calls without a decision of the service: 20 (refused: 20)" in caplog.text
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "canary" not in caplog.text
    assert tollgate.failures == {"refused": 21}


def test_a_problem_that_repeats_its_request_shows_no_value(
    clients: Clients, peer: StartPeer, caplog: pytest.LogCaptureFixture
) -> None:
    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            head, _, body = request.partition(b"\r\n\r\n")
            sent = json.loads(body)["attributes"]
            detail = f"a bad day for {sent}, {head!r}"
            if sent["action"] == "login":
                detail = f"{body.decode()} and {json.dumps(sent)}"
            connected.sendall(answer(json.dumps({"detail": detail}).encode(), 502))

    tollgate = clients(peer(serve).url, token="canary-token")
    with caplog.at_level(logging.INFO, "tollgate_client"):
        tollgate.check("search", user="canary-value", tags=["canary-list"], first="a", key="ann")
        assert tollgate.check("login", user='can"ary\\é\n').failure == "unavailable"
        tollgate.close()
    assert "canary" not in caplog.text
    assert "ary" not in caplog.text
    assert '"user":"***"' in caplog.text
    assert "*** bad day for {'action': 'search'" in caplog.text
    assert "'key': '***'" in caplog.text


def test_an_attribute_action_of_a_count_is_not_logged(
    clients: Clients, peer: StartPeer, caplog: pytest.LogCaptureFixture
) -> None:
    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            body = request.partition(b"\r\n\r\n")[2].decode()
            connected.sendall(answer(json.dumps({"detail": body}).encode(), 400))

    tollgate = clients(peer(serve).url)
    with caplog.at_level(logging.INFO, "tollgate_client"):
        tollgate.count("api", {"action": "canary-key"}, quotas=["5/1m"])
    assert '{"action":"***"}' in caplog.text


def test_a_problem_of_any_size_is_logged_at_once(
    clients: Clients, peer: StartPeer, caplog: pytest.LogCaptureFixture
) -> None:
    detail = json.dumps({"detail": "ab " * 300_000 + "canary"}).encode()

    def serve(connected: socket.socket) -> None:
        while read_request(connected):
            connected.sendall(answer(detail, 400))

    tollgate = clients(peer(serve).url)
    lists = {f"l{i}": [f"{i}{j}" for j in range(64)] for i in range(60)}
    assert bounded(lambda: tollgate.check("search", lists, key="canary"), 2).failure == "refused"
    assert "a detail of" in caplog.text


@pytest.mark.parametrize("line", [b"a: " + b" " * 60_000, b"a:" + b" \t" * 30_000])
def test_a_head_that_is_hard_to_read_takes_no_time(
    clients: Clients, peer: StartPeer, line: bytes
) -> None:
    def serve(connected: socket.socket) -> None:
        read_request(connected)
        connected.sendall(b"HTTP/1.1 200 OK\r\n" + line + b"\x01\r\n\r\n")

    tollgate = clients(peer(serve).url)
    assert bounded(lambda: tollgate.check("search"), 0.5).failure == "invalid"


def test_another_protocol_is_no_answer(clients: Clients, peer: StartPeer) -> None:
    def serve(connected: socket.socket) -> None:
        read_request(connected)
        upgrade = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
        connected.sendall(upgrade)
        read_request(connected)

    tollgate = clients(peer(serve).url)
    assert bounded(lambda: tollgate.check("search"), 1).failure == "invalid"


def test_a_host_that_no_thread_can_resolve_is_a_failure(
    clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    tollgate = clients("http://localhost:1")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        assert tollgate.check("search").failure == "connection"
    assert tollgate.check("search").failure == "connection"
    assert tollgate.failures == {"connection": 2}


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_a_connection_ends_without_another_call(
    peer: StartPeer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(_streams, "IDLE_SECONDS", 0.4)
    made, server = Clients(kind), peer(keep_alive)
    tollgate = made(server.url)
    tollgate.check("search")
    connection = server.connections.get(timeout=20)
    ends = time.monotonic() + 20
    while connection.fileno() != -1 and time.monotonic() < ends:
        tollgate.sleep(0.05)
    assert connection.fileno() == -1
    assert tollgate.check("search").failure is None
    made.close()


def test_failures_that_heal_are_warnings(
    clients: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tollgate_client"):
        clients("http://127.0.0.1:1").check("search")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_log_that_fails_takes_no_decision_down(clients: Clients) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise OSError("the disk is full")

    logger = logging.Logger("broken")
    logger.addHandler(Broken())
    assert clients("http://127.0.0.1:1", logger=logger).check("search").allowed


def test_trace_context_is_passed_on_and_proxies_are_ignored(
    clients: Clients, peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[bytes] = []

    def serve(connected: socket.socket) -> None:
        while request := read_request(connected):
            requests.append(request)
            connected.sendall(ADMITTED)

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    tollgate = clients(peer(serve).url, token="secret")
    tollgate.check("search", traceparent="00-ab-cd-01", tracestate="a=b")
    tollgate.check("search")
    assert b"traceparent: 00-ab-cd-01\r\n" in requests[0]
    assert b"tracestate: a=b\r\n" in requests[0]
    assert b"trace" not in requests[1]
    for request in requests:
        assert request.startswith(b"POST /v1/check HTTP/1.1\r\n")
        assert request.count(b"Authorization: Bearer secret\r\n") == 1
        assert request.endswith(b'\r\n\r\n{"attributes":{"action":"search"}}')


def test_tls_is_spoken_and_verified(clients: Clients, service: Start, tmp_path: Path) -> None:
    import ssl

    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    request = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
        f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {certificate}"
    )
    subprocess.run(request.split(), check=True, capture_output=True)
    running = service("--limit", "5/1h", "--tls-cert", str(certificate), "--tls-key", str(key))
    url = f"https://localhost:{running.url.rsplit(':', 1)[1]}"
    trusting = clients(url, tls=ssl.create_default_context(cafile=certificate))
    assert [trusting.check("search").used for _ in range(3)] == [1, 2, 3]
    assert trusting.failures == {}
    assert clients(url).check("search").failure == "connection"
    by_address = f"https://127.0.0.1:{running.url.rsplit(':', 1)[1]}"
    wrong_name = clients(by_address, tls=ssl.create_default_context(cafile=certificate))
    assert wrong_name.check("search").failure == "connection"


def test_threads_share_a_client(service: Start) -> None:
    with Tollgate(service("--limit", "100/1h").url, timeout=20, max_connections=8) as tollgate:
        together = Clients("threads").together
        decisions = together([lambda: tollgate.check("search", user="alice")] * 150)
    assert sum(decision.allowed for decision in decisions) == 100
    assert tollgate.failures == {}


# asyncio warns of each socket that its loop did not close.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_loops_may_come_and_go(peer: StartPeer) -> None:
    server = peer(keep_alive)
    tollgate = AsyncTollgate(server.url, timeout=20)
    for _ in range(5):
        # As asgiref does for each request to an async view under WSGI.
        assert asyncio.run(tollgate.check("search")).failure is None
    made = [server.connections.get_nowait() for _ in range(5)]
    # Only the last loop can still have its connection.
    until(lambda: [each.fileno() for each in made].count(-1) >= 4, "the end of connections")
    asyncio.run(tollgate.close())
    until(lambda: made[4].fileno() == -1, "the end of the last connection")
    assert tollgate.failures == {}
    gc.collect()


# asyncio warns of each socket that its loop did not close.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_threads_may_each_have_a_loop(service: Start) -> None:
    tollgate = AsyncTollgate(service("--limit", "100/1h").url, timeout=20)

    async def use() -> int:
        decisions = await asyncio.gather(*(tollgate.check("search") for _ in range(15)))
        return sum(decision.allowed for decision in decisions)

    admitted = Clients("threads").together([lambda: asyncio.run(use())] * 10)
    assert sum(admitted) == 100
    asyncio.run(tollgate.close())
    gc.collect()
    assert tollgate.failures == {}


def test_a_forked_child_makes_connections_of_its_own(peer: StartPeer) -> None:
    server = peer(keep_alive)
    tollgate = Tollgate(server.url, timeout=20)
    tollgate.check("search")
    assert server.connections.qsize() == 1

    down = Tollgate("http://127.0.0.1:1", timeout=20)
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()

    def child() -> None:
        results.put([tollgate.check("search").failure for _ in range(20)])
        assert down.check("search").failure == "connection"

    # As if a thread of the parent wrote a line while the child is made.
    with down._failures._lock:
        children = [fork.Process(target=child) for _ in range(2)]
        for each in children:
            each.start()
    parent = [tollgate.check("search").failure for _ in range(20)]
    for each in children:
        each.join(20)
        each.kill()
        assert each.exitcode == 0
    assert [parent, results.get(), results.get()] == [[None] * 20] * 3
    assert server.connections.qsize() == 3
    tollgate.close()


def test_a_closed_client_says_so(clients: Clients) -> None:
    tollgate = clients("http://127.0.0.1:1")
    tollgate.close()
    with pytest.raises(RuntimeError, match="closed"):
        tollgate.check("search")
