"""Storages for `limits`, with which Flask-Limiter and slowapi count in Tollgate.

    import tollgate_client.limits  # registers the schemes

    limiter = Limiter(get_remote_address, app=app, storage_uri="tollgate://127.0.0.1:8080")

The service needs `--caller-quotas`, because the limits come with the calls. All
counters belong to the name `limits:caller`, and the whole key of `limits` is the
attribute `key`. Nothing is counted in this process.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import SlidingWindowCounterSupport as AsyncSlidingWindowCounterSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.errors import ConfigurationError
from limits.storage import MovingWindowSupport, SlidingWindowCounterSupport, Storage

from . import _calls
from ._async_client import AsyncTollgate
from ._client import Tollgate
from ._exchange import Request
from ._failures import NoAnswer
from ._limits_calls import Call, OnFailure, StorageCalls, Unanswered, storage_error, used_of

__all__ = ["AsyncTollgateStorage", "TollgateStorage", "Unanswered"]

T = TypeVar("T")


class TollgateStorage(StorageCalls, Storage, MovingWindowSupport, SlidingWindowCounterSupport):
    """A storage of `limits`: `tollgate://HOST:PORT`, `tollgates://` for TLS, or
    `tollgate+unix:///PATH`; `tollgate://` alone is the address in `TOLLGATE_URL`.

    Options (`storage_options` of Flask-Limiter and slowapi): `name` of the counters,
    `on_failure`, and those of `Tollgate`, such as `token` and `timeout`. Without an
    answer, `on_failure` raises `limits.errors.StorageError` (`"raise"`, the default),
    admits (`"open"`) or denies (`"closed"`).
    """

    STORAGE_SCHEME = ["tollgate", "tollgates", "tollgate+unix"]  # noqa: RUF012

    def __init__(
        self,
        uri: str | None = None,
        wrap_exceptions: bool = False,
        *,
        name: str = "limits",
        on_failure: OnFailure = "raise",
        **options: Any,
    ) -> None:
        StorageCalls.__init__(self, name, on_failure)
        Storage.__init__(self, uri, wrap_exceptions=wrap_exceptions)
        self._client = _made(Tollgate, uri, options)
        # Nobody closes a storage of `limits`, so this happens when the last one forgets it.
        weakref.finalize(self, self._client.close)

    @property
    def base_exceptions(self) -> type[Exception]:
        return Unanswered

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Counts in one step, and returns the count, which may be above the limit."""
        return self._do(self._incr(key, expiry, amount))

    def get(self, key: str) -> int:
        return self._do(self._get(key))

    def get_expiry(self, key: str) -> float:
        return self._do(self._get_expiry(key))

    def check(self) -> bool:
        """Whether the service and its store answer."""
        try:
            self._client._ask(self._check(), used_of)
        except NoAnswer:
            return False
        return True

    def reset(self) -> int | None:
        """Is unsupported: the service does not list the counters of a name."""
        raise NotImplementedError

    def clear(self, key: str) -> None:
        self._do_or_raise(self._clear(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return self._do(self._acquire_entry(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return self._do(self._get_moving_window(key, limit, expiry))

    def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        return self._do(self._acquire_sliding(key, limit, expiry, amount))

    def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        return self._do(self._get_sliding_window(key, expiry))

    def clear_sliding_window(self, key: str, expiry: int) -> None:
        self._do_or_raise(self._clear_sliding_window(key, expiry))

    def _do(self, call: Call[T]) -> T:
        try:
            return self._client._ask(call.request, call.read)
        except NoAnswer as failure:
            return self._without_answer(call, failure)

    def _do_or_raise(self, request: Request) -> None:
        try:
            self._client._ask(request, _calls.count)
        except NoAnswer as failure:
            raise storage_error(failure) from None


class AsyncTollgateStorage(
    StorageCalls, AsyncStorage, AsyncMovingWindowSupport, AsyncSlidingWindowCounterSupport
):
    """`TollgateStorage` for `limits.aio`: the same addresses after `async+`."""

    STORAGE_SCHEME = ["async+tollgate", "async+tollgates", "async+tollgate+unix"]  # noqa: RUF012

    def __init__(
        self,
        uri: str | None = None,
        wrap_exceptions: bool = False,
        *,
        name: str = "limits",
        on_failure: OnFailure = "raise",
        **options: Any,
    ) -> None:
        StorageCalls.__init__(self, name, on_failure)
        AsyncStorage.__init__(self, uri, wrap_exceptions=wrap_exceptions)
        self._client = _made(AsyncTollgate, uri, options)

    @property
    def base_exceptions(self) -> type[Exception]:
        return Unanswered

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Counts in one step, and returns the count, which may be above the limit."""
        return await self._do(self._incr(key, expiry, amount))

    async def get(self, key: str) -> int:
        return await self._do(self._get(key))

    async def get_expiry(self, key: str) -> float:
        return await self._do(self._get_expiry(key))

    async def check(self) -> bool:
        """Whether the service and its store answer."""
        try:
            await self._client._ask(self._check(), used_of)
        except NoAnswer:
            return False
        return True

    async def reset(self) -> int | None:
        """Is unsupported: the service does not list the counters of a name."""
        raise NotImplementedError

    async def clear(self, key: str) -> None:
        await self._do_or_raise(self._clear(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await self._do(self._acquire_entry(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return await self._do(self._get_moving_window(key, limit, expiry))

    async def acquire_sliding_window_entry(
        self, key: str, limit: int, expiry: int, amount: int = 1
    ) -> bool:
        return await self._do(self._acquire_sliding(key, limit, expiry, amount))

    async def get_sliding_window(self, key: str, expiry: int) -> tuple[int, float, int, float]:
        return await self._do(self._get_sliding_window(key, expiry))

    async def clear_sliding_window(self, key: str, expiry: int) -> None:
        await self._do_or_raise(self._clear_sliding_window(key, expiry))

    async def _do(self, call: Call[T]) -> T:
        try:
            return await self._client._ask(call.request, call.read)
        except NoAnswer as failure:
            return self._without_answer(call, failure)

    async def _do_or_raise(self, request: Request) -> None:
        try:
            await self._client._ask(request, _calls.count)
        except NoAnswer as failure:
            raise storage_error(failure) from None


def _made(client: Callable[..., T], uri: str | None, options: dict[str, Any]) -> T:
    """Makes the client of a storage."""
    try:
        return client(_url(uri), **options)
    except (TypeError, ValueError) as error:
        forms = "tollgate://HOST:PORT, tollgates://HOST:PORT (TLS) or tollgate+unix:///PATH"
        problem = f"expected {forms}" if str(error).startswith("url: expected") else str(error)
        raise ConfigurationError(f"storage of Tollgate: {problem}") from error


def _url(uri: str | None) -> str | None:
    scheme, _, rest = (uri or "").removeprefix("async+").partition("://")
    if not rest:
        return None
    if scheme == "tollgate+unix":
        return f"unix:{rest}"
    return f"{'https' if scheme == 'tollgates' else 'http'}://{rest}"
