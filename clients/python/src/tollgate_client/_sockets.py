"""Connections for threads: a pool of plain sockets, with one deadline for a whole call."""

from __future__ import annotations

import concurrent.futures
import contextlib
import select
import socket
import threading
import time
from collections import deque

from ._answer_parser import Reply
from ._answers import Failure
from ._exchange import Exchange, Request, common_headers
from ._failures import ClientClosed, NoAnswer
from ._resolver import Resolver
from ._settings import Settings

IDLE_SECONDS = 60.0
"""How long a connection may be idle: half of what the service allows (rule 3)."""
REPEATS = 2
"""How often a call with the id of a hold is repeated (rule 14)."""
_READ = 65536


class Sockets:
    """Up to `max_connections` connections, shared by all threads of a process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._resolver = Resolver(settings.address)
        self._headers = common_headers(settings)
        self._free = threading.Semaphore(settings.max_connections)
        self._idle: deque[_Connection] = deque()
        self._closed = False

    def forget(self) -> None:
        """Starts anew in a child that was forked: its parent goes on with the connections."""
        shared, self._idle = self._idle, deque()
        for connection in shared:
            connection.close()
        self._free = threading.Semaphore(self._settings.max_connections)
        self._resolver = Resolver(self._settings.address)

    def send(self, request: Request, deadline: float) -> Reply:
        """Sends a request and returns its answer. Raises `NoAnswer` by the deadline."""
        if self._closed:
            raise ClientClosed
        free = self._free
        if not free.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise NoAnswer(Failure.TIMEOUT, "all connections are in use")
        try:
            return self._send(request, deadline)
        finally:
            free.release()

    def close(self) -> None:
        """Closes idle connections; those in use close after their calls."""
        self._closed = True
        while self._idle:
            with contextlib.suppress(IndexError):
                self._idle.pop().close()

    def _send(self, request: Request, deadline: float) -> Reply:
        repeats = REPEATS if request.repeatable else 0
        while True:
            connection = self._reused() or self._connect(deadline)
            try:
                reply = connection.exchange(request, deadline)
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
                self._keep(connection)
                return reply

    def _reused(self) -> _Connection | None:
        self._close_expired()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if not readable(connection.socket.fileno()):
                connection.reused = True
                return connection
            connection.close()

    def _close_expired(self) -> None:
        # The longest idle one is on the left. Another thread may take it first.
        with contextlib.suppress(IndexError):
            while self._idle[0].idle_since < time.monotonic() - IDLE_SECONDS:
                self._idle.popleft().close()

    def _keep(self, connection: _Connection) -> None:
        if not connection.http.reusable:
            connection.close()
            return
        connection.idle_since = time.monotonic()
        self._idle.append(connection)
        if self._closed:
            self.close()

    def _connect(self, deadline: float) -> _Connection:
        address = self._settings.address
        try:
            plain = self._plain_socket(deadline)
        except TimeoutError:
            raise NoAnswer(Failure.TIMEOUT, f"no connection to {address} in time") from None
        except OSError as error:
            raise NoAnswer(Failure.CONNECTION, f"no connection to {address}: {error}") from None
        if self._settings.tls is None:
            return _Connection(plain, Exchange(self._headers), encrypted=False)
        try:
            plain.settimeout(_left(deadline))
            secure = self._settings.tls.wrap_socket(plain, server_hostname=address.host)
        except TimeoutError:
            plain.close()
            raise NoAnswer(Failure.TIMEOUT, f"no TLS with {address} in time") from None
        except (OSError, ValueError) as error:
            plain.close()
            raise NoAnswer(Failure.CONNECTION, f"no TLS with {address}: {error}") from None
        return _Connection(secure, Exchange(self._headers), encrypted=True)

    def _plain_socket(self, deadline: float) -> socket.socket:
        path = self._settings.address.path
        if path is not None:
            return _connected(socket.AF_UNIX, path, _left(deadline))
        try:
            targets = self._resolver.targets().result(_left(deadline))
        except concurrent.futures.TimeoutError:
            raise TimeoutError from None
        error: OSError = OSError("the name has no address")
        for index, (family, target) in enumerate(targets):
            # An address that does not answer leaves time for those after it.
            share = _left(deadline) / (len(targets) - index)
            try:
                return _connected(family, target, share)
            except OSError as failed:
                error = failed
        raise error


class _Connection:
    """A socket, its HTTP, and what is known about its use."""

    def __init__(self, connected: socket.socket, http: Exchange, encrypted: bool) -> None:
        self.socket = connected
        self.http = http
        self.idle_since = 0.0
        self.reused = False
        self.sent = False
        self._encrypted = encrypted

    def exchange(self, request: Request, deadline: float) -> Reply:
        """Sends the request and reads the whole answer, by the deadline."""
        # Whether TLS has sent anything is not known once it was called.
        self.sent = self._encrypted
        unsent = memoryview(self.http.begin(request))
        try:
            while unsent:
                self.socket.settimeout(_left(deadline))
                unsent = unsent[self.socket.send(unsent) :]
                self.sent = True
            while True:
                self.socket.settimeout(_left(deadline))
                reply = self.http.receive(self.socket.recv(_READ))
                if reply is not None:
                    return reply
        except TimeoutError:
            raise NoAnswer(Failure.TIMEOUT, "no whole answer in time") from None
        except OSError as error:
            raise NoAnswer(Failure.CONNECTION, f"the connection broke: {error}") from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()


def _connected(family: socket.AddressFamily, target: object, seconds: float) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(target)  # type: ignore[arg-type]
        if family != getattr(socket, "AF_UNIX", None):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        made.close()
        raise
    return made


def _left(deadline: float) -> float:
    """Seconds until the deadline. Raises `TimeoutError` after it: 0 would mean "at once"."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def readable(descriptor: int) -> bool:
    """Whether an idle connection has ended, or has bytes that nobody asked for."""
    if descriptor < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))
