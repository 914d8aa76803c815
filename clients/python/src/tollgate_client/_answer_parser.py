"""Reads one answer of HTTP/1.1 from bytes, strictly: what is ambiguous is no answer.

It stands for a library, because a check takes about as long as a library needs to read
its answer. It knows what an answer to a POST can have: a length, chunks, or an end with
the connection. A test compares it with h11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ._answers import Failure
from ._failures import NoAnswer

_LARGEST_BODY = 1024 * 1024
_LARGEST_HEAD = 64 * 1024
# Chunks and interim answers may take as much again, but not forever.
_LARGEST_ANSWER = 2 * _LARGEST_BODY

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9][0-9])(?: [\t\x20-\x7e\x80-\xff]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(rb"[0-9]{1,10}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer, of whatever sender."""

    status: int
    headers: list[tuple[str, str]]
    """In their order, with lower-case names."""
    body: bytes


class AnswerParser:
    """The answer to one request, while its bytes arrive."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        # Where the next part begins: all before is read.
        self._at = 0
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._length: int | None = None
        self._chunked = False
        self._body = bytearray()
        self._keeps_alive = False
        self._is_in_body = False
        self._is_in_trailers = False

    @property
    def connection_is_reusable(self) -> bool:
        """Whether the connection can take another request, once the answer is whole."""
        return self._keeps_alive and self._at == len(self._bytes)

    def take(self, data: bytes) -> Reply | None:
        """Takes bytes; none means that the connection has ended.

        Returns the answer once it is whole, and raises `NoAnswer` if it never will be.
        """
        self._bytes += data
        if len(self._bytes) > _LARGEST_ANSWER:
            raise _invalid("it is larger than 1 MiB")
        while not self._is_in_body:
            if not self._take_head():
                return _more_after(data)
        if self._chunked:
            if not self._take_chunks():
                return _more_after(data)
        elif self._length is None:
            if len(self._bytes) - self._at > _LARGEST_BODY:
                raise _invalid("it is larger than 1 MiB")
            if data:
                return None
            self._take_body(len(self._bytes))
        elif len(self._bytes) - self._at < self._length:
            return _more_after(data)
        else:
            self._take_body(self._at + self._length)
        return Reply(self._status, self._headers, bytes(self._body))

    def _take_body(self, end: int) -> None:
        self._body += self._bytes[self._at : end]
        self._at = end

    def _take_head(self) -> bool:
        end = self._bytes.find(b"\r\n\r\n", self._at)
        if (len(self._bytes) if end < 0 else end) - self._at > _LARGEST_HEAD:
            raise _invalid("its headers are larger than 64 KiB")
        if end < 0:
            if not b"HTTP/1.".startswith(self._bytes[self._at : self._at + 7]):
                raise _invalid("it is no HTTP/1.1")
            return False
        lines = bytes(self._bytes[self._at : end]).split(b"\r\n")
        self._at = end + 4
        status = _STATUS_LINE.fullmatch(lines[0])
        if status is None:
            raise _invalid("it is no HTTP/1.1")
        self._status = int(status[2])
        self._headers = [_header(line) for line in lines[1:]]
        if self._status < 200:
            if self._status == 101:
                raise _invalid("it changes the protocol")
            return True
        self._read_framing(is_1_1=status[1] == b"1")
        self._is_in_body = True
        return True

    def _read_framing(self, *, is_1_1: bool) -> None:
        values: dict[str, str] = {}
        for name, value in self._headers:
            if name in ("content-length", "transfer-encoding") and name in values:
                raise _invalid(f"it has two headers `{name}`")
            values[name] = f"{values[name]}, {value}" if name in values else value
        options = values.get("connection", "").lower().replace(" ", "").split(",")
        self._keeps_alive = is_1_1 and "close" not in options
        coding, length = values.get("transfer-encoding"), values.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked" or length is not None or not is_1_1:
                raise _invalid("its length is ambiguous")
            self._chunked = True
        elif length is not None:
            if not _LENGTH.fullmatch(length.encode("latin-1")):
                raise _invalid("its length is no number")
            self._length = int(length)
            if self._length > _LARGEST_BODY:
                raise _invalid("it is larger than 1 MiB")
        else:
            self._keeps_alive = False
        if self._status in (204, 304):
            self._length, self._chunked = 0, False

    def _take_chunks(self) -> bool:
        """Reads chunks as far as they have arrived; true after the last one."""
        while True:
            end = self._bytes.find(b"\r\n", self._at)
            if end < 0:
                if len(self._bytes) - self._at > _LARGEST_HEAD:
                    raise _invalid("a line between its chunks is larger than 64 KiB")
                return False
            line = bytes(self._bytes[self._at : end])
            if self._is_in_trailers:
                self._at = end + 2
                if not line:
                    return True
                _header(line)
                continue
            size = _CHUNK.fullmatch(line)
            if size is None:
                raise _invalid("a chunk has no size")
            length = int(size[1], 16)
            if length == 0:
                self._at = end + 2
                self._is_in_trailers = True
                continue
            if len(self._body) + length > _LARGEST_BODY:
                raise _invalid("it is larger than 1 MiB")
            after = end + 2 + length
            if len(self._bytes) < after + 2:
                return False
            if self._bytes[after : after + 2] != b"\r\n":
                raise _invalid("a chunk does not end where it says")
            self._at = end + 2
            self._take_body(after)
            self._at = after + 2


def _more_after(data: bytes) -> Reply | None:
    if not data:
        raise NoAnswer(Failure.CONNECTION, "the connection ended before the answer")
    return None


def _header(line: bytes) -> tuple[str, str]:
    found = _HEADER.fullmatch(line)
    if found is None:
        raise _invalid("a line of its headers is no header")
    return found[1].decode("ascii").lower(), found[2].decode("latin-1").strip(" \t")


def _invalid(why: str) -> NoAnswer:
    return NoAnswer(Failure.INVALID, f"the answer is no answer of the service: {why}")
