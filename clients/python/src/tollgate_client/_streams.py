"""Connections for asyncio: a pool for each event loop, with one deadline for a whole call."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from ._answer_parser import Reply
from ._answers import Failure
from ._exchange import Exchange, Request, common_headers
from ._failures import ClientClosed, NoAnswer
from ._resolver import Resolver
from ._settings import Settings
from ._sockets import IDLE_SECONDS, REPEATS, readable

T = TypeVar("T")


class Streams:
    """Up to `max_connections` connections for each event loop that uses the client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._closed = False
        self.forget()

    def forget(self) -> None:
        """Starts anew in a child that was forked: its parent goes on with the connections."""
        self._resolver = Resolver(self._settings.address)
        # Several threads may each have a loop.
        self._lock = threading.Lock()
        self._loops: dict[asyncio.AbstractEventLoop, _LoopStreams] = {}

    async def send(self, request: Request, deadline: float) -> Reply:
        """Sends a request and returns its answer. Raises `NoAnswer` by the deadline."""
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        streams = self._loops.get(loop) or self._streams_of(loop)
        return await streams.send(request, deadline)

    def close(self) -> None:
        """Closes idle connections of the running loop; those in use close after their calls."""
        self._closed = True
        with self._lock:
            self._forget_closed_loops()
            streams = self._loops.pop(asyncio.get_running_loop(), None)
        if streams is not None:
            streams.close()

    def _streams_of(self, loop: asyncio.AbstractEventLoop) -> _LoopStreams:
        with self._lock:
            # Frameworks make a loop for each request, if their server has none.
            self._forget_closed_loops()
            streams = self._loops[loop] = _LoopStreams(self._settings, self._resolver)
        return streams

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._loops if loop.is_closed()]:
            self._loops.pop(loop).drop()


class _LoopStreams:
    """The connections of one event loop."""

    def __init__(self, settings: Settings, resolver: Resolver) -> None:
        self._settings = settings
        self._resolver = resolver
        self._headers = common_headers(settings)
        self._free = _Slots(settings.max_connections)
        self._idle: deque[_Connection] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, request: Request, deadline: float) -> Reply:
        loop = asyncio.get_running_loop()
        if not await self._free.acquire(loop, deadline):
            raise NoAnswer(Failure.TIMEOUT, "all connections are in use")
        try:
            return await self._send(loop, request, deadline)
        finally:
            self._free.release()

    def close(self) -> None:
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self._idle:
            self._idle.pop().close()

    def drop(self) -> None:
        """Frees the connections of a loop that has ended, and so cannot close them."""
        while self._idle:
            self._idle.pop().drop()

    async def _send(
        self, loop: asyncio.AbstractEventLoop, request: Request, deadline: float
    ) -> Reply:
        repeats = REPEATS if request.repeatable else 0
        while True:
            connection = self._reused() or await self._connect(loop, deadline)
            try:
                reply = await connection.exchange(loop, request, deadline)
            except BaseException as error:
                connection.close()
                if not isinstance(error, NoAnswer) or error.kind is not Failure.CONNECTION:
                    raise
                if connection.reused and not connection.sent:
                    continue
                if repeats == 0:
                    raise
                repeats -= 1
            else:
                self._keep(loop, connection)
                return reply

    def _reused(self) -> _Connection | None:
        self._close_expired()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                connection.reused = True
                return connection
            connection.close()
        return None

    def _close_expired(self) -> None:
        while self._idle and self._idle[0].idle_since < time.monotonic() - IDLE_SECONDS:
            self._idle.popleft().close()

    def _sweep_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Closes connections of an app that makes no more calls."""
        self._close_expired()
        self._sweep = None
        if self._idle:
            self._sweep = loop.call_later(IDLE_SECONDS / 4, self._sweep_idle, loop)

    def _keep(self, loop: asyncio.AbstractEventLoop, connection: _Connection) -> None:
        if self._closed or not connection.http.reusable:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE_SECONDS, self._sweep_idle, loop)

    async def _connect(self, loop: asyncio.AbstractEventLoop, deadline: float) -> _Connection:
        address = self._settings.address
        try:
            return await _by(deadline, self._connected(loop, deadline))
        except asyncio.TimeoutError:
            raise NoAnswer(Failure.TIMEOUT, f"no connection to {address} in time") from None
        except (OSError, ValueError) as error:
            raise NoAnswer(Failure.CONNECTION, f"no connection to {address}: {error}") from None

    async def _connected(self, loop: asyncio.AbstractEventLoop, deadline: float) -> _Connection:
        address, tls = self._settings.address, self._settings.tls
        if address.path is not None:
            _, made = await loop.create_unix_connection(self._connection, address.path)
            return made
        targets = await asyncio.wrap_future(self._resolver.targets())
        error: OSError | asyncio.TimeoutError = OSError("the name has no address")
        for index, (family, target) in enumerate(targets):
            # An address that does not answer leaves time for those after it.
            share = (deadline - time.monotonic()) / (len(targets) - index)
            connecting = loop.create_connection(
                self._connection,
                host=target[0],
                port=target[1],
                family=family,
                ssl=tls,
                server_hostname=address.host if tls is not None else None,
            )
            try:
                _, made = await _by(time.monotonic() + share, connecting)
            except (OSError, asyncio.TimeoutError) as failed:
                error = failed
            else:
                return made
        raise error

    def _connection(self) -> _Connection:
        return _Connection(Exchange(self._headers))


class _Connection(asyncio.Protocol):
    """A transport, its HTTP, and what is known about its use."""

    def __init__(self, http: Exchange) -> None:
        self.http = http
        self.idle_since = 0.0
        self.reused = False
        self.sent = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None

    async def exchange(
        self, loop: asyncio.AbstractEventLoop, request: Request, deadline: float
    ) -> Reply:
        """Sends the request and reads the whole answer, by the deadline."""
        data = self.http.begin(request)
        if self._transport is None or self._transport.is_closing():
            raise NoAnswer(Failure.CONNECTION, "the connection is closed")
        self.sent = True
        answer: asyncio.Future[Reply] = loop.create_future()
        self._answer = answer
        seconds = deadline - time.monotonic()
        timer = loop.call_later(max(0.0, seconds), self._time_out)
        try:
            self._transport.write(data)
            return await answer
        finally:
            timer.cancel()
            self._answer = None

    def is_usable(self) -> bool:
        """Whether an idle connection is still open, as far as one can know."""
        if self._transport is None or self._transport.is_closing():
            return False
        connected = self._transport.get_extra_info("socket")
        return connected is None or not readable(connected.fileno())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def drop(self) -> None:
        """Ends the connection without its loop; the garbage collector closes the socket."""
        if self._transport is None:
            return
        # A loop that is not asyncio's own may give less than a socket.
        with contextlib.suppress(OSError, AttributeError, NotImplementedError, TypeError):
            self._transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Those of uvloop have no common class with those of asyncio.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            # Nobody asked: the connection is of no more use.
            self.close()
            return
        try:
            reply = self.http.receive(data)
        except NoAnswer as failure:
            self._fail(failure)
            return
        if reply is not None:
            self._answer.set_result(reply)

    def eof_received(self) -> bool:
        if self._answer is not None and not self._answer.done():
            self.data_received(b"")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        detail = f"the connection broke: {error}" if error else "the connection ended"
        self._fail(NoAnswer(Failure.CONNECTION, detail))

    def _time_out(self) -> None:
        self._fail(NoAnswer(Failure.TIMEOUT, "no whole answer in time"))

    def _fail(self, failure: NoAnswer) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure)


class _Slots:
    """A bounded number of connections, handed to waiting calls in turn."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[asyncio.Future[bool]] = deque()

    async def acquire(self, loop: asyncio.AbstractEventLoop, deadline: float) -> bool:
        """Waits for a slot; false if the deadline comes first."""
        if self._free > 0:
            self._free -= 1
            return True
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(max(0.0, deadline - time.monotonic()), _settle, turn, False)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.release()
            raise
        finally:
            timer.cancel()
            with contextlib.suppress(ValueError):
                self._waiting.remove(turn)

    def release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._free += 1


def _settle(future: asyncio.Future[bool], result: bool) -> None:
    if not future.done():
        future.set_result(result)


async def _by(deadline: float, work: Coroutine[Any, Any, T]) -> T:
    """Awaits the work until the deadline, and cancels it then, or if this is cancelled.

    `asyncio.wait_for` of Python 3.11 and before can lose a cancellation, or the result.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=max(0.0, deadline - time.monotonic()))
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            # A connection that is made all the same has nobody who would close it.
            task.add_done_callback(_close_late)
    raise asyncio.TimeoutError


def _close_late(task: asyncio.Task[Any]) -> None:
    if task.cancelled() or task.exception() is not None:
        return
    made = task.result()
    for part in made if isinstance(made, tuple) else (made,):
        if isinstance(part, _Connection):
            part.close()
