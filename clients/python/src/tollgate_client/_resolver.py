"""Finds the addresses of a host, without ever blocking a caller past its timeout."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import Future
from typing import Any

from ._settings import Address

Target = tuple[socket.AddressFamily, Any]


class Resolver:
    """Resolves the host of a client.

    `getaddrinfo` has no timeout. So it runs on a thread of its own, at most one per
    client, and callers wait for it as long as they can.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._lock = threading.Lock()
        self._running: Future[list[Target]] | None = None
        self._numeric = _numeric(address)

    def targets(self) -> Future[list[Target]]:
        """Starts to resolve, or joins a resolution that runs."""
        if self._numeric is not None:
            return self._numeric
        with self._lock:
            if self._running is None or self._running.done():
                future: Future[list[Target]] = Future()
                # From here on, a caller that gives up cannot cancel it for others.
                future.set_running_or_notify_cancel()
                try:
                    threading.Thread(
                        target=self._resolve, args=(future,), name="tollgate-resolver", daemon=True
                    ).start()
                except RuntimeError:
                    future.set_exception(OSError("no thread can be started to resolve its name"))
                self._running = future
            return self._running

    def _resolve(self, future: Future[list[Target]]) -> None:
        try:
            future.set_result(_look_up(self._address, 0))
        except BaseException as error:
            future.set_exception(error)


def _look_up(address: Address, flags: int) -> list[Target]:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    except UnicodeError:
        raise OSError("the name of the host cannot be resolved") from None
    return [(family, target) for family, _, _, _, target in found]


def _numeric(address: Address) -> Future[list[Target]] | None:
    try:
        targets = _look_up(address, socket.AI_NUMERICHOST)
    except OSError:
        return None
    future: Future[list[Target]] = Future()
    future.set_result(targets)
    return future
