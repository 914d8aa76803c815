"""Real servers for the tests: the service, Redis, and peers that misbehave."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue

_REPOSITORY = Path(__file__).parents[3]


def binary() -> str:
    """The path of the service."""
    path = os.environ.get("TOLLGATE_BINARY") or str(_REPOSITORY / "target/debug/tollgate")
    if not os.access(path, os.X_OK):
        raise AssertionError(f"no service at {path}: build it, or set TOLLGATE_BINARY")
    return path


class Service:
    """A running service with its own ports."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0") -> None:
        self._process = subprocess.Popen(
            [binary(), "serve", "--listen", listen, "--admin-listen", "127.0.0.1:0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        # With a store that is down, the service waits for it up to 2 s first.
        self.url = self._address("checks")
        self.admin = self._address("admin")

    def _address(self, listener: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(listener):
                return line.split()[1]
        self.kill()
        raise AssertionError("the service has ended before it listened")

    def pause(self) -> None:
        """Stops the process, so that its sockets are open and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Redis:
    """A running Redis that keeps nothing."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        assert program, "these tests need redis-server: apt-get install redis-server"
        self._socket = folder / "redis.sock"
        self._process = subprocess.Popen(
            [program, "--port", "0", "--unixsocket", str(self._socket), "--save", ""],
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        self.url = f"unix://{self._socket}"
        until(lambda: self._socket.exists() and _answers(self._socket), "Redis")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Peer:
    """A server of the test: one function for each connection, on a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections: Queue[socket.socket] = Queue()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            self.connections.put(connected)
            threading.Thread(target=self._run, args=(connected,), daemon=True).start()

    def _run(self, connected: socket.socket) -> None:
        # The client may be gone before the answer.
        try:
            with connected:
                self._serve(connected)
        except OSError:
            pass

    def close(self) -> None:
        # A thread that accepts wakes up from `shutdown`, and not from `close`.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


class Relay:
    """A peer in front of the service, which delays each piece of an answer."""

    def __init__(self, url: str, start: Callable[[Callable[[socket.socket], None]], Peer]) -> None:
        self.delay = 0.0
        host, port = url.removeprefix("http://").split(":")
        self._target = (host, int(port))
        self.url = start(self._serve).url

    def _serve(self, connected: socket.socket) -> None:
        with socket.create_connection(self._target) as behind:
            while request := read_request(connected):
                behind.sendall(request)
                answered = behind.recv(65536)
                time.sleep(self.delay)
                connected.sendall(answered)


def read_request(connected: socket.socket) -> bytes:
    """Reads a whole request; nothing if the client closes."""
    data = b""
    while b"\r\n\r\n" not in data:
        received = connected.recv(65536)
        if not received:
            return b""
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += connected.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(body: bytes, status: int = 200, headers: str = "") -> bytes:
    """The bytes of an answer."""
    head = f"HTTP/1.1 {status} OK\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def until(condition: Callable[[], bool], what: str) -> None:
    """Waits until something is so, for at most 20 s."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends, f"{what} took longer than 20 s"
        time.sleep(0.01)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
        asking.sendall(b"PING\r\n")
        return asking.recv(64).startswith(b"+PONG")
