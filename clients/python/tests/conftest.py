from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apps import App
from both import Clients
from servers import Peer, Redis, Service

Serve = Callable[[socket.socket], None]
StartPeer = Callable[[Serve], Peer]


@pytest.fixture(params=["threads", "asyncio", "uvloop"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made = Clients(request.param)
    yield made
    made.close()


@pytest.fixture
def service() -> Iterator[Callable[..., Service]]:
    running: list[Service] = []

    def start(*flags: str, **settings: Any) -> Service:
        running.append(Service(*flags, **settings))
        return running[-1]

    yield start
    for each in running:
        each.kill()


@pytest.fixture
def redis() -> Iterator[Redis]:
    # Paths of sockets are short; those of `tmp_path` may not be.
    with tempfile.TemporaryDirectory() as folder:
        running = Redis(Path(folder))
        yield running
        running.kill()


@pytest.fixture
def peer() -> Iterator[Callable[[Serve], Peer]]:
    running: list[Peer] = []

    def start(serve: Serve) -> Peer:
        running.append(Peer(serve))
        return running[-1]

    yield start
    for each in running:
        each.close()


@pytest.fixture
def apps() -> Iterator[Callable[[Callable[[], App]], App]]:
    running: list[App] = []

    def start(made: Callable[[], App]) -> App:
        running.append(made())
        return running[-1]

    yield start
    for each in running:
        each.kill()
