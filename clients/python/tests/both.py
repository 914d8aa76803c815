"""Both clients under one face, so that each test runs over threads and over asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import uvloop

from tollgate_client import AsyncTollgate, Tollgate


class Blocking:
    """An object of the asyncio client, whose methods wait for their result."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if inspect.isawaitable(result):
                return self._wrap(self._loop.run_until_complete(result))
            if hasattr(result, "__aenter__"):
                return self._scope(result)
            return result

        return call

    def _wrap(self, result: Any) -> Any:
        return Blocking(result, self._loop) if hasattr(result, "settle") else result

    @contextlib.contextmanager
    def _scope(self, scope: Any) -> Iterator[Any]:
        entered = self._wrap(self._loop.run_until_complete(scope.__aenter__()))
        try:
            yield entered
        except BaseException as error:
            self._loop.run_until_complete(scope.__aexit__(type(error), error, None))
            raise
        else:
            self._loop.run_until_complete(scope.__aexit__(None, None, None))

    def sleep(self, seconds: float) -> None:
        self._loop.run_until_complete(asyncio.sleep(seconds))


class Clients:
    """Makes clients of one kind, and closes them."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.loop: asyncio.AbstractEventLoop | None = None
        if kind == "asyncio":
            self.loop = asyncio.new_event_loop()
        elif kind == "uvloop":
            self.loop = uvloop.new_event_loop()
        self._made: list[Any] = []

    def __call__(self, url: str | None = None, **settings: Any) -> Any:
        # A busy machine must not make a test fail that is not about time.
        settings.setdefault("timeout", 20)
        made: Any
        if self.loop is None:
            made = Tollgate(url, **settings)
        else:
            made = Blocking(AsyncTollgate(url, **settings), self.loop)
        self._made.append(made)
        return made

    def together(self, calls: list[Callable[[], Any]]) -> list[Any]:
        """Runs calls of a client of threads at once."""
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(len(calls)) as threads:
            return [future.result() for future in [threads.submit(call) for call in calls]]

    def close(self) -> None:
        for client in self._made:
            client.close()
        if self.loop is not None:
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
