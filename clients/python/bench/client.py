"""A check beside bare requests on a connection that is kept alive, over h11 and http.client.

    TOLLGATE_BINARY=../../target/release/tollgate python bench/client.py

Each round sends one request of each kind in turn, so that whatever else the machine does
meets all of them alike.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import h11

from tollgate_client import AsyncTollgate, Tollgate

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from servers import Service

_ROUNDS = 10_000
_BODY = json.dumps({"attributes": {"action": "search", "user": "alice"}}).encode()
_HEADERS = [
    ("Host", "localhost"),
    ("Content-Type", "application/json"),
    ("Content-Length", str(len(_BODY))),
]


def request(parser: h11.Connection) -> bytes:
    head = h11.Request(method="POST", target="/v1/check", headers=_HEADERS)
    pieces = (parser.send(head), parser.send(h11.Data(data=_BODY)), parser.send(h11.EndOfMessage()))
    return b"".join(piece for piece in pieces if piece)


def take(parser: h11.Connection, data: bytes, body: bytearray) -> bool:
    """Takes bytes of an answer, and says whether it is whole."""
    parser.receive_data(data)
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            return False
        if isinstance(event, h11.Data):
            body += event.data
        if isinstance(event, h11.EndOfMessage):
            parser.start_next_cycle()
            return True


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


def bare(url: str) -> Callable[[], object]:
    connected = socket.create_connection(address(url))
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    parser = h11.Connection(h11.CLIENT)

    def ask() -> object:
        body = bytearray()
        connected.sendall(request(parser))
        while not take(parser, connected.recv(65536), body):
            pass
        return json.loads(body)

    return ask


def standard(url: str) -> Callable[[], object]:
    connection = http.client.HTTPConnection(*address(url))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask() -> object:
        connection.request("POST", "/v1/check", _BODY, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())

    return ask


async def bare_async(url: str) -> Callable[[], Awaitable[object]]:
    reader, writer = await asyncio.open_connection(*address(url))
    parser = h11.Connection(h11.CLIENT)

    async def ask() -> object:
        body = bytearray()
        writer.write(request(parser))
        while not take(parser, await reader.read(65536), body):
            pass
        return json.loads(body)

    return ask


def report(kind: str, times: dict[str, list[float]]) -> None:
    for name, seconds in times.items():
        seconds.sort()
        middle, late = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
        rate = len(seconds) / sum(seconds)
        figures = f"p50 {middle * 1e6:6.0f} us  p99 {late * 1e6:6.0f} us  {rate:6.0f}/s"
        print(f"{kind:8} {name:12} {figures}")


def threads(url: str) -> None:
    with Tollgate(url, timeout=5) as tollgate:
        kinds = {
            "http.client": standard(url),
            "h11": bare(url),
            "Tollgate": lambda: tollgate.check("search", user="alice"),
        }
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for turn in range(_ROUNDS):
            for name, ask in kinds.items():
                began = time.perf_counter()
                ask()
                if turn >= _ROUNDS // 10:
                    times[name].append(time.perf_counter() - began)
    assert tollgate.failures == {}
    report("threads", times)


async def tasks(url: str) -> None:
    async with AsyncTollgate(url, timeout=5) as tollgate:
        kinds = {
            "h11": await bare_async(url),
            "Tollgate": lambda: tollgate.check("search", user="alice"),
        }
        times: dict[str, list[float]] = {name: [] for name in kinds}
        for turn in range(_ROUNDS):
            for name, ask in kinds.items():
                began = time.perf_counter()
                await ask()
                if turn >= _ROUNDS // 10:
                    times[name].append(time.perf_counter() - began)
    assert tollgate.failures == {}
    report("asyncio", times)


def main() -> None:
    service = Service("--limit", "1000000000/1h")
    try:
        threads(service.url)
        asyncio.run(tasks(service.url))
    finally:
        service.kill()


if __name__ == "__main__":
    main()
