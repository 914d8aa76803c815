"""A plain request to the service, by the HTTP library of the client: what the client is measured against.

It has no timeout, no bound and no answer for failures. It keeps a connection alive and parses the answer's JSON.
"""

import asyncio
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import h11


def _sent(connection: h11.Connection, address: str, user: str) -> bytes:
    body = json.dumps({"attributes": {"user": user, "action": "search"}}).encode()
    headers = [
        ("Host", address),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ]
    request = h11.Request(method="POST", target="/v1/check", headers=headers)
    parts = [connection.send(request), connection.send(h11.Data(data=body))]
    parts.append(connection.send(h11.EndOfMessage()))
    return b"".join(part for part in parts if part)


class _Answer:
    """What was received of one answer."""

    def __init__(self) -> None:
        self.body = b""

    def is_whole(self, connection: h11.Connection) -> bool:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                return False
            if isinstance(event, h11.Data):
                self.body += event.data
            if isinstance(event, h11.EndOfMessage):
                connection.start_next_cycle()
                return True


class BareClient:
    """One connection for each thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._address = parts.hostname, parts.port, parts.netloc
        self._local = threading.local()

    def check(self, user: str) -> Any:
        if not hasattr(self._local, "socket"):
            assert self._host and self._port
            self._local.socket = socket.create_connection((self._host, self._port))
            self._local.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._local.connection = h11.Connection(h11.CLIENT)
        connection: h11.Connection = self._local.connection
        self._local.socket.sendall(_sent(connection, self._address, user))
        answer = _Answer()
        while not answer.is_whole(connection):
            connection.receive_data(self._local.socket.recv(65536))
        return json.loads(answer.body)


class AsyncBareClient:
    """As many connections as there are parallel requests."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._address = parts.hostname, parts.port, parts.netloc
        self._idle: list[Any] = []

    async def check(self, user: str) -> Any:
        if self._idle:
            reader, writer, connection = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
            connection = h11.Connection(h11.CLIENT)
        writer.write(_sent(connection, self._address, user))
        answer = _Answer()
        while not answer.is_whole(connection):
            connection.receive_data(await reader.read(65536))
        self._idle.append((reader, writer, connection))
        return json.loads(answer.body)
