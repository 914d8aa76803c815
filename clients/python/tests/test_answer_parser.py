"""Our reader of answers beside h11, on answers that are right, wrong and cut anywhere."""

from __future__ import annotations

import itertools
import random
import re

import h11
import pytest

from tollgate_client._answer_parser import AnswerParser, Reply
from tollgate_client._failures import NoAnswer

# What ours refuses although h11 reads it: it is ambiguous, or no answer of the service.
_STRICTER = ("two headers", "length is ambiguous", "changes the protocol", "64 KiB", "1 MiB")

# Lines that end without CR, lines that go on in the next one, and other versions.
_LENIENT = re.compile(rb"(?<!\r)\n|\r\n[ \t]|\x7f|^HTTP/1\.[2-9]")


def ours(pieces: list[bytes]) -> tuple[Reply | str, bool]:
    """The answer, or the kind of its failure; and whether the connection can be used again."""
    parser = AnswerParser()
    try:
        for piece in [*pieces, b""]:
            reply = parser.take(piece)
            if reply is not None:
                return reply, parser.connection_is_reusable
    except NoAnswer as failure:
        return f"{failure.kind}: {failure.detail}", False
    raise AssertionError("neither an answer nor a failure at the end")


def theirs(data: bytes) -> Reply | str:
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="POST", target="/", headers=[("Host", "a")]))
    http.send(h11.EndOfMessage())
    head, body = None, b""
    try:
        for piece in (data, b"") if data else (b"",):
            http.receive_data(piece)
            while (event := http.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.Response):
                    head = event
                elif isinstance(event, h11.Data):
                    body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    assert head is not None
                    headers = [
                        (name.decode(), value.decode("latin-1")) for name, value in head.headers
                    ]
                    return Reply(head.status_code, headers, body)
                elif isinstance(event, h11.ConnectionClosed | h11.PAUSED):
                    return "ended"
    except h11.RemoteProtocolError as error:
        return str(error)
    raise AssertionError("neither an answer nor a failure at the end")


def comparable(reply: Reply | str) -> Reply | str:
    """h11 rewrites the value of one header."""
    if isinstance(reply, str):
        return reply
    headers = [header for header in reply.headers if header[0] != "transfer-encoding"]
    return Reply(reply.status, headers, reply.body)


def an_answer(dice: random.Random) -> bytes:
    """An answer that is right, more often than not."""
    body = bytes(dice.choices(b'{"allowed": true}\r\n', k=dice.choice([0, 1, 17, 300])))
    lines = [
        dice.choice([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0"])
        + dice.choice(
            [b" 200 OK", b" 200 ", b" 429 Too Many Requests", b" 503", b" 204 No", b" 304 x"]
        )
    ]
    for _ in range(dice.randrange(4)):
        name = dice.choice([b"X-A", b"date", b"RateLimit", b"Connection", b"Server"])
        value = dice.choice(
            [b"close", b"keep-alive", b"a, b", b"", b' "x" \t', b"\xe9", b"Close, x"]
        )
        lines.append(name + dice.choice([b":", b": ", b":\t "]) + value)
    framing = dice.randrange(6)
    if framing < 3:
        lines.append(b"Content-Length: %d" % (len(body) + dice.choice([0, 0, 0, 1, 5])))
    elif framing < 5:
        lines.append(b"Transfer-Encoding: " + dice.choice([b"chunked", b"Chunked", b"gzip"]))
        chunks, rest = b"", body
        while rest:
            size = dice.randrange(1, len(rest) + 1)
            extension = dice.choice([b"", b"", b";a=b"])
            chunks += b"%x%s\r\n%s\r\n" % (size, extension, rest[:size])
            rest = rest[size:]
        body = chunks + dice.choice([b"0\r\n\r\n", b"0\r\n\r\n", b"0\r\nX-T: 1\r\n\r\n", b"0\r\n"])
    dice.shuffle(lines[1:])
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * (dice.random() < 0.2)
    return interim + b"\r\n".join(lines) + b"\r\n\r\n" + body


def mutated(dice: random.Random, data: bytes) -> bytes:
    mutable = bytearray(data)
    for _ in range(dice.choice([0, 0, 1, 1, 2])):
        place = dice.randrange(len(mutable))
        match dice.randrange(4):
            case 0:
                del mutable[place : place + dice.randrange(1, 4)]
            case 1:
                mutable[place] = dice.choice(b"\r\n :;,0159afxZ\x00\x7f\xff")
            case 2:
                mutable[place:place] = dice.choice([b"\r\n", b" ", b"0", b"\n", b":", b"\r\n\r\n"])
            case _:
                del mutable[place:]
        if not mutable:
            return b""
    return bytes(mutable)


def cut(dice: random.Random, data: bytes) -> list[bytes]:
    places = sorted(dice.sample(range(1, len(data)), min(len(data) - 1, dice.randrange(6))))
    ends = [0, *places, len(data)]
    return [data[start:end] for start, end in itertools.pairwise(ends)]


@pytest.mark.parametrize("seed", range(12))
def test_answers_are_read_as_h11_reads_them(seed: int) -> None:
    dice = random.Random(seed)
    read = refused = 0
    for _ in range(200):
        data = mutated(dice, an_answer(dice))
        if len(data) < 2:
            continue
        whole, reusable = ours([data])
        assert ours(cut(dice, data))[0] == whole, data
        assert ours([data[place : place + 1] for place in range(len(data))])[0] == whole, data
        expected = theirs(data)
        if isinstance(whole, Reply):
            read += 1
            assert comparable(whole) == comparable(expected), data
            # What follows an answer must never be read as the next one.
            assert ours([data + b"H"])[1] is False or not reusable, data
        elif isinstance(expected, Reply):
            refused += 1
            lenient = _LENIENT.search(data) or any(reason in whole for reason in _STRICTER)
            assert lenient, (data, whole)
    # Both ways are taken, so that the comparison means something.
    assert read > 60
    assert refused < 30


@pytest.mark.parametrize(
    ("headers", "complaint"),
    [
        (b"Content-Length: 1\r\nContent-Length: 1", "two headers"),
        (b"Content-Length: 1\r\nTransfer-Encoding: chunked", "ambiguous"),
        (b"Transfer-Encoding: gzip, chunked", "ambiguous"),
        (b"Content-Length: +1", "no number"),
        (b"Content-Length: 1048577", "1 MiB"),
        (b"Content-Length : 1", "no header"),
        (b" folded: 1", "no header"),
        (b"A: \x00", "no header"),
        (b"A: b\nC: d", "no header"),
    ],
)
def test_ambiguous_answers_are_refused(headers: bytes, complaint: str) -> None:
    reply, _ = ours([b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\na"])
    assert isinstance(reply, str)
    assert reply.startswith("invalid: ")
    assert complaint in reply


@pytest.mark.parametrize("endless", [b"A: b\r\n", b"a", b"HTTP/1.1 103 Early\r\n\r\n"])
def test_an_answer_without_an_end_is_refused(endless: bytes) -> None:
    parser = AnswerParser()
    parser.take(b"HTTP/1.1 200 OK\r\n")
    pieces = itertools.repeat(endless * 1000, 5000)
    with pytest.raises(NoAnswer, match=r"KiB|MiB|no HTTP|no header"):
        list(map(parser.take, pieces))
