"""What the storages of `limits` ask the service, and what its answers mean."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from limits.errors import ConfigurationError, StorageError
from limits.limits import GRANULARITIES

from . import _calls
from ._answers import Failure
from ._exchange import Reply, Request
from ._failures import NoAnswer
from ._keys import attributes_of

T = TypeVar("T")
OnFailure = Literal["raise", "open", "closed"]

# A log of the service has 256 entries, and a window begins and ends within a step.
_STEPS_OF_A_LOG = 255


class Unanswered(Exception):
    """There is no answer, or the service cannot reach its store.

    It is the `storage_error` of the `StorageError` that the storages raise.
    """

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(f"no answer of Tollgate: {failure}: {detail}")
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Item:
    """The limit that the end of a key names: `.../AMOUNT/MULTIPLES/GRANULARITY`."""

    key: str
    amount: int
    seconds: int

    @classmethod
    def of(cls, key: str) -> Item:
        """Raises `ValueError` if the key has another end; the message has no part of it."""
        match key.rsplit("/", 3):
            case [_, amount, multiples, unit] if amount.isdecimal() and multiples.isdecimal():
                granularity = GRANULARITIES.get(unit)
                if granularity is not None and int(multiples) > 0:
                    seconds = granularity.GRANULARITY.seconds * int(multiples)
                    return cls(key, int(amount), seconds)
        raise ValueError(
            "key: expected one of `RateLimitItem.key_for`, which ends in "
            "/AMOUNT/MULTIPLES/GRANULARITY: another key does not tell its window"
        )

    @classmethod
    def checked(cls, key: str, expiry: int, limit: int | None = None) -> Item:
        """Raises `ValueError` if the call and its key name different limits."""
        item = cls.of(key)
        if expiry != item.seconds:
            raise ValueError(f"expiry: {expiry} s, but the key is of {item.seconds} s")
        if limit is not None and limit != item.amount:
            raise ValueError(f"limit: {limit}, but the key is of {item.amount}")
        return item

    @property
    def window(self) -> str:
        """The fixed window without its limit. It starts with a key's first request."""
        return f"{self.seconds}s@first_hit"

    @property
    def fixed(self) -> str:
        return f"{self.amount}/{self.window}"

    @property
    def log(self) -> str:
        """The moving window. A log of more than 255 units has steps: a unit may then come
        back up to a step late, and never early."""
        quota = f"{self.amount}/{self.seconds}s~log"
        if self.amount <= _STEPS_OF_A_LOG:
            return quota
        return f"{quota}:{-(-self.seconds * 1000 // _STEPS_OF_A_LOG)}ms"

    @property
    def sliding(self) -> str:
        return f"{self.amount}/{self.seconds}s~sliding"


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """A request, what its answer means, and what stands for it without one."""

    request: Request
    read: Callable[[Reply], T]
    open: T
    closed: T


class StorageCalls:
    """What both storages ask, and how they are configured."""

    def __init__(self, name: str, on_failure: OnFailure) -> None:
        if on_failure not in ("raise", "open", "closed"):
            raise ConfigurationError("on_failure: expected 'raise', 'open' or 'closed'")
        self._name = name
        self._on_failure = on_failure

    def _incr(self, key: str, expiry: int, amount: int) -> Call[int]:
        item = Item.checked(key, expiry)
        request = self._count(item, window=item.window, cost=amount)
        return Call(request, used_of, open=0, closed=sys.maxsize)

    def _get(self, key: str) -> Call[int]:
        return Call(self._get_request(key), used_of, open=0, closed=sys.maxsize)

    def _get_expiry(self, key: str) -> Call[float]:
        now = time.time()
        return Call(self._get_request(key), _expiry, open=now, closed=now)

    def _check(self) -> Request:
        return self._get_request("limiter-check/1/1/minute")

    def _clear(self, key: str) -> Request:
        item = Item.of(key)
        return self._count(item, quotas=[item.fixed, item.log], operation="reset")

    def _acquire_entry(self, key: str, limit: int, expiry: int, amount: int) -> Call[bool]:
        item = Item.checked(key, expiry, limit)
        return self._acquire(item, item.log, amount)

    def _get_moving_window(self, key: str, limit: int, expiry: int) -> Call[tuple[float, int]]:
        item = Item.checked(key, expiry, limit)

        def read(reply: Reply) -> tuple[float, int]:
            used, next_after = _usage(reply)
            # The oldest entry was made a window's length before it leaves.
            return time.time() + next_after - (item.seconds if used else 0), used

        request = self._ask_under("/v1/peek", item, item.log, 1)
        now = time.time()
        return Call(request, read, open=(now, 0), closed=(now, item.amount))

    def _acquire_sliding(self, key: str, limit: int, expiry: int, amount: int) -> Call[bool]:
        item = Item.checked(key, expiry, limit)
        return self._acquire(item, item.sliding, amount)

    def _get_sliding_window(self, key: str, expiry: int) -> Call[tuple[int, float, int, float]]:
        item = Item.checked(key, expiry)

        def read(reply: Reply) -> tuple[int, float, int, float]:
            used, next_after = _usage(reply)
            # The service answers one count, which it has weighted already. The strategy
            # takes the time modulo the window, and so a longer wait would look short.
            return 0, 0.0, used, min(next_after, item.seconds - 0.001)

        request = self._ask_under("/v1/peek", item, item.sliding, 1)
        return Call(request, read, open=(0, 0.0, 0, 0.0), closed=(0, 0.0, item.amount, 0.0))

    def _clear_sliding_window(self, key: str, expiry: int) -> Request:
        item = Item.checked(key, expiry)
        return self._count(item, quotas=[item.sliding], operation="reset")

    def _acquire(self, item: Item, quota: str, amount: int) -> Call[bool]:
        request = self._ask_under("/v1/check", item, quota, amount)
        return Call(request, _admitted, open=True, closed=False)

    def _get_request(self, key: str) -> Request:
        item = Item.of(key)
        return self._count(item, window=item.window, operation="get")

    def _count(
        self,
        item: Item,
        *,
        window: str | None = None,
        quotas: Sequence[str] | None = None,
        operation: _calls.Operation = "add",
        cost: int = 1,
    ) -> Request:
        # Only these two operations have an answer while the store is down.
        closed = operation in ("add", "get") and self._on_failure != "open"
        return _calls.counted(
            policy=self._name,
            attributes=attributes_of(item.key),
            more={},
            window=window,
            quotas=quotas,
            operation=operation,
            cost=cost,
            used=None,
            on_store_failure="closed" if closed else "open",
        )

    def _ask_under(self, path: str, item: Item, quota: str, cost: int) -> Request:
        body: dict[str, Any] = {
            "attributes": attributes_of(item.key),
            "policy": self._name,
            "quotas": [quota],
        }
        if _calls.cost_of(cost) != 1:
            body["cost"] = cost
        return Request.build(path, body)

    def _without_answer(self, call: Call[T], failure: NoAnswer) -> T:
        if self._on_failure == "raise":
            raise storage_error(failure) from None
        # A service that is full denies, whatever its callers have said (rule 16).
        is_open = self._on_failure == "open" and not failure.verdict
        return call.open if is_open else call.closed


def storage_error(failure: NoAnswer) -> StorageError:
    return StorageError(Unanswered(failure.kind, failure.detail))


def used_of(reply: Reply) -> int:
    count = _calls.count(reply)
    if count.used is None:
        raise _no_store()
    return count.used


def _expiry(reply: Reply) -> float:
    count = _calls.count(reply)
    if count.used is None:
        raise _no_store()
    # Relative, because the clock of the service need not be that of this host.
    return time.time() + (count.reset_after or 0.0 if count.used else 0.0)


def _admitted(reply: Reply) -> bool:
    decision = _calls.decision(reply)
    if decision.source == "fallback":
        raise _no_store()
    return decision.allowed


def _usage(reply: Reply) -> tuple[int, float]:
    """What is used, and the seconds until the next unit comes back."""
    decision = _calls.decision(reply)
    if decision.source == "fallback" or decision.used is None:
        raise _no_store()
    return decision.used, decision.next_after or 0.0


def _no_store() -> NoAnswer:
    return NoAnswer(Failure.UNAVAILABLE, "the store of the service does not answer")
