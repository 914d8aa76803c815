"""One connection's HTTP, without its network: bytes of a request, and of its answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ._answer_parser import AnswerParser, Reply
from ._settings import Settings
from ._version import __version__

__all__ = ["Exchange", "Reply", "Request", "common_headers"]

# The service reads no more than this.
_LARGEST_REQUEST = 64 * 1024
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


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
            text = _ENCODER.encode(body).encode()
        except UnicodeEncodeError:
            raise ValueError("attributes: a text has characters that are no Unicode") from None
        if len(text) > _LARGEST_REQUEST:
            raise ValueError(f"the request takes {len(text)} bytes; at most {_LARGEST_REQUEST} fit")
        return cls(path, text, headers, repeatable)

    def secrets(self) -> list[str]:
        """The texts that no log may have: values of attributes, and the seal of a hold."""
        body = json.loads(self.body)
        attributes = body.get("attributes", {})
        # The name of a check is written by a developer. A count has none among its attributes.
        is_check = "policy" not in body
        values = [value for name, value in attributes.items() if name != "action" or not is_check]
        values.append(body.get("hold"))
        texts = [
            each for value in values for each in (value if isinstance(value, list) else [value])
        ]
        return [text for text in texts if isinstance(text, str)]


def common_headers(settings: Settings) -> bytes:
    """The headers that all requests of a client have, and their first line's end.

    Each value was checked when the client was made: none can end its line.
    """
    headers = [
        ("Host", settings.address.authority),
        ("User-Agent", f"tollgate-python/{__version__}"),
        ("Accept", "application/json"),
        ("Content-Type", "application/json"),
    ]
    if settings.token is not None:
        headers.append(("Authorization", f"Bearer {settings.token}"))
    return b" HTTP/1.1\r\n" + _written(headers)


class Exchange:
    """The requests and answers of one connection, one after another."""

    def __init__(self, headers: bytes) -> None:
        self._headers = headers
        self._parser = AnswerParser()
        self.reusable = False

    def begin(self, request: Request) -> bytes:
        """Starts a request, and returns its bytes."""
        self.reusable = False
        self._parser = AnswerParser()
        return b"".join(
            (
                b"POST ",
                request.path.encode("ascii"),
                self._headers,
                _written(request.headers),
                b"Content-Length: %d\r\n\r\n" % len(request.body),
                request.body,
            )
        )

    def receive(self, data: bytes) -> Reply | None:
        """Takes bytes of the answer; none means that the connection has ended.

        Returns the answer once it is whole, and raises `NoAnswer` if it never will be.
        """
        reply = self._parser.take(data)
        if reply is not None:
            self.reusable = self._parser.connection_is_reusable
        return reply


def _written(headers: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode("ascii")
