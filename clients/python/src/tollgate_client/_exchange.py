"""One connection's HTTP, without its network: bytes of a request, and of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import h11

from ._answers import Failure
from ._failures import NoAnswer
from ._settings import Settings
from ._version import __version__

_LARGEST_BODY = 1024 * 1024
# Interim answers and headers may take as much again, but not forever.
_LARGEST_ANSWER = 2 * _LARGEST_BODY
# The service reads no more than this.
_LARGEST_REQUEST = 64 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """A call, ready to be sent."""

    path: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    repeatable: bool = False
    """Whether it has the id of a hold, so that it may arrive twice (rule 14)."""

    @classmethod
    def build(
        cls,
        path: str,
        body: dict[str, Any],
        headers: tuple[tuple[str, str], ...] = (),
        repeatable: bool = False,
    ) -> Request:
        """Writes the body. Raises `ValueError` if the service could not read it."""
        try:
            text = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            raise ValueError("attributes: a text has characters that are no Unicode") from None
        if len(text) > _LARGEST_REQUEST:
            raise ValueError(f"the request takes {len(text)} bytes; at most {_LARGEST_REQUEST} fit")
        return cls(path, text, headers, repeatable)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, of whatever sender."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def common_headers(settings: Settings) -> list[tuple[str, str]]:
    """The headers that all requests of a client have."""
    headers = [
        ("Host", settings.address.authority),
        ("User-Agent", f"tollgate-python/{__version__}"),
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
    ]
    if settings.token is not None:
        headers.append(("Authorization", f"Bearer {settings.token}"))
    return headers


class Exchange:
    """The requests and answers of one connection, one after another."""

    def __init__(self, headers: list[tuple[str, str]]) -> None:
        self._headers = headers
        self._http = h11.Connection(h11.CLIENT)
        self._received = 0
        self._head: h11.Response | None = None
        self._body = bytearray()
        self.reusable = False

    def begin(self, request: Request) -> bytes:
        """Starts a request, and returns its bytes."""
        self.reusable = False
        self._received = 0
        self._head = None
        self._body = bytearray()
        length = ("Content-Length", str(len(request.body)))
        head = h11.Request(
            method="POST",
            target=request.path,
            headers=[*self._headers, length, *request.headers],
        )
        pieces = (self._http.send(head), self._http.send(h11.Data(data=request.body)))
        return b"".join(piece for piece in (*pieces, self._http.send(h11.EndOfMessage())) if piece)

    def receive(self, data: bytes) -> Reply | None:
        """Takes bytes of the answer; none means that the connection has ended.

        Returns the answer once it is whole, and raises `NoAnswer` if it never will be.
        """
        self._received += len(data)
        if self._received > _LARGEST_ANSWER:
            raise NoAnswer(Failure.INVALID, "the answer is larger than 1 MiB")
        try:
            self._http.receive_data(data)
            return self._next_reply()
        except h11.RemoteProtocolError as error:
            if not data:
                raise _broken() from None
            raise NoAnswer(Failure.INVALID, f"no HTTP: {error}") from None

    def _next_reply(self) -> Reply | None:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                return None
            if isinstance(event, h11.InformationalResponse):
                continue
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > _LARGEST_BODY:
                    raise NoAnswer(Failure.INVALID, "the answer is larger than 1 MiB")
            elif isinstance(event, h11.EndOfMessage) and self._head is not None:
                return self._reply(self._head)
            else:
                raise _broken()

    def _reply(self, head: h11.Response) -> Reply:
        # More bytes would be taken as the answer to the next request.
        both_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        if both_done and not self._http.trailing_data[0]:
            self._http.start_next_cycle()
            self.reusable = True
        return Reply(head.status_code, list(head.headers), bytes(self._body))


def _broken() -> NoAnswer:
    return NoAnswer(Failure.CONNECTION, "the connection ended before the answer")
