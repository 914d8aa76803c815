"""The client for asyncio: the same methods, awaitable."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from . import _calls
from ._answer_parser import Reply
from ._answers import Count, Decision, HoldAnswer
from ._calls import Operation
from ._exchange import Request
from ._failures import ClientClosed, FailureLog, NoAnswer
from ._holds import CLOSED_TOO_EARLY, HoldState
from ._keys import Attribute, Attributes
from ._limited import By, F, limit_async
from ._settings import OnFailure, Settings
from ._streams import Streams

T = TypeVar("T")

_clients: weakref.WeakSet[AsyncTollgate] = weakref.WeakSet()


class AsyncTollgate:
    """A client for asyncio: asks the service whether a request may go on.

    It has a pool of connections for each event loop, and may be shared by all tasks. A
    process that is forked makes connections of its own.

    A call returns within `timeout` seconds. Without an answer of the service, it is
    admitted (`on_failure="open"`) or denied (`"closed"`); `names` sets that for the names
    of checks. Only a wrong argument raises.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 0.25,
        on_failure: OnFailure = "open",
        names: Mapping[str, OnFailure] | None = None,
        max_connections: int = 64,
        logger: logging.Logger | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._settings = Settings.build(
            url, token, timeout, on_failure, names, max_connections, logger, tls
        )
        self._failures = FailureLog(self._settings.logger)
        self._streams = Streams(self._settings)
        self._ending: set[asyncio.Task[None]] = set()
        _clients.add(self)

    async def check(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        cost: int = 1,
        traceparent: str | None = None,
        tracestate: str | None = None,
        **more: Attribute,
    ) -> Decision:
        """Charges `cost` units, if there is room for them."""
        request = _calls.named("/v1/check", name, attributes, more, cost, traceparent, tracestate)
        return await self._decide(name, request)

    async def peek(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        cost: int = 1,
        traceparent: str | None = None,
        tracestate: str | None = None,
        **more: Attribute,
    ) -> Decision:
        """Answers as `check` would, and charges nothing."""
        request = _calls.named("/v1/peek", name, attributes, more, cost, traceparent, tracestate)
        return await self._decide(name, request)

    async def wait(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        timeout: float,
        cost: int = 1,
        traceparent: str | None = None,
        tracestate: str | None = None,
        **more: Attribute,
    ) -> Decision:
        """Repeats a check until it is admitted, for a budget of outgoing calls.

        Returns a denial at once if the next attempt would be after `timeout` seconds, or
        if waiting does not help.
        """
        ends = self._now() + _calls.wait_seconds(timeout)
        request = _calls.named("/v1/check", name, attributes, more, cost, traceparent, tracestate)
        while True:
            decision = await self._decide(name, request)
            seconds = None if decision.allowed else _calls.waits_for(decision)
            if seconds is None or self._now() + seconds > ends:
                return decision
            await self._sleep(max(seconds, _calls.SHORTEST_WAIT))

    async def reserve(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        cost: int = 1,
        units: int = 1,
        expires_after: float | None = None,
        **more: Attribute,
    ) -> AsyncHold:
        """Charges an estimate and takes units in flight, until the hold is settled.

        Nothing renews the hold: without `AsyncHold.renew`, it ends after `expires_after`
        seconds. `hold` does all of this.
        """
        request = _calls.reservation(name, attributes, more, cost, units, expires_after)
        try:
            decision, sealed, seconds = await self._ask(request, _calls.decision_and_hold)
        except NoAnswer as failure:
            decision = _calls.without_answer(self._settings, name, failure)
            sealed, seconds = None, 0.0
        return AsyncHold(self, decision, sealed, cost, seconds)

    @contextlib.asynccontextmanager
    async def hold(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        cost: int = 1,
        units: int = 1,
        expires_after: float | None = None,
        release_on_error: bool = False,
        **more: Attribute,
    ) -> AsyncIterator[AsyncHold]:
        """Reserves for the length of an `async with` block, and renews in between.

        If the block does not settle, its charge stays. With `release_on_error`, it is
        given back if the block ends with an exception, also if it is cancelled. A denial
        raises nothing: ask for `allowed` first.
        """
        hold = await self.reserve(
            name, attributes, cost=cost, units=units, expires_after=expires_after, **more
        )
        renewing = hold._start_renewing()
        failed_and_releases = False
        try:
            yield hold
        except BaseException:
            failed_and_releases = release_on_error
            raise
        finally:
            # A task of its own, because this one may be about to be cancelled.
            await asyncio.shield(self._in_background(hold._end(failed_and_releases, renewing)))

    async def count(
        self,
        policy: str,
        attributes: Attributes | None = None,
        /,
        *,
        window: str | None = None,
        quotas: Sequence[str] | None = None,
        operation: Operation = "add",
        cost: int = 1,
        used: int | None = None,
        block: str | None = None,
        on_store_failure: OnFailure | None = None,
        **more: Attribute,
    ) -> Count:
        """Counts under limits of the caller, or in a window without a limit.

        The service must run with `--caller-quotas`. `block`, such as `30s`, blocks a key
        that exceeds its only quota for so long: it counts nothing then. Without an answer, `failure` says
        why; with quotas, `allowed` then follows `on_store_failure`, and
        without that, what `on_failure` and `names` say of the policy.
        """
        request = _calls.counted(
            policy,
            attributes,
            more,
            window,
            quotas,
            operation,
            cost,
            used,
            on_store_failure,
            self._settings,
            block,
        )
        try:
            return await self._ask(request, _calls.count)
        except NoAnswer as failure:
            return _calls.count_without_answer(
                self._settings, policy, quotas, operation, on_store_failure, failure
            )

    def limit(self, name: str, *, by: By | None = None, cost: int = 1) -> Callable[[F], F]:
        """Limits an async function: a decorator, which raises `RateLimited` on a denial.

        `by` gets the arguments of the function, and returns attributes or one string.
        Without it, all calls count together.
        """
        return limit_async(self, name, by, cost)

    @property
    def failures(self) -> dict[str, int]:
        """How many calls had no answer since the client was made, by kind."""
        return self._failures.counts()

    async def close(self) -> None:
        """Closes the connections of this loop, and logs the failures not logged yet."""
        if self._ending:
            await asyncio.wait(set(self._ending))
        self._streams.close()
        self._failures.log_now()
        # Transports close in the next turn of the loop.
        await asyncio.sleep(0)

    async def __aenter__(self) -> AsyncTollgate:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncTollgate({str(self._settings.address)!r})"

    async def _decide(self, name: str, request: Request) -> Decision:
        try:
            return await self._ask(request, _calls.decision)
        except NoAnswer as failure:
            return _calls.without_answer(self._settings, name, failure)

    async def _ask(self, request: Request, read: Callable[[Reply], T]) -> T:
        deadline = time.monotonic() + self._settings.timeout
        try:
            answer = read(await self._send(request, deadline))
        except NoAnswer as failure:
            failure.mask(request.secrets(), self._settings.token)
            self._failures.note(failure)
            raise
        self._failures.log_if_due()
        return answer

    async def _send(self, request: Request, deadline: float) -> Reply:
        return await self._streams.send(request, deadline)

    def _now(self) -> float:
        return time.monotonic()

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _ask_about_hold(self, request: Request | None) -> HoldAnswer:
        if request is None:
            return HoldAnswer("gone")
        try:
            return await self._ask(request, _calls.hold_answer)
        except NoAnswer as failure:
            return HoldAnswer(None, failure.kind)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _forget_connections(self) -> None:
        self._streams.forget()
        self._failures.renew_lock()


class AsyncHold(HoldState):
    """Units in flight and an estimate, until they are settled."""

    def __init__(
        self,
        client: AsyncTollgate,
        decision: Decision,
        sealed: str | None,
        cost: int,
        seconds: float,
    ) -> None:
        super().__init__(decision, sealed, cost, seconds)
        self._client = client

    async def renew(self) -> HoldAnswer:
        """Starts the length of the hold again."""
        answer = await self._client._ask_about_hold(self._renewal())
        self._note_renewal(answer)
        return answer

    async def settle(self, cost: int) -> HoldAnswer:
        """Ends the hold at its actual cost; the rest of the estimate is given back.

        After a failure, the same call may be repeated.
        """
        answer = await self._client._ask_about_hold(self._settlement(cost))
        self._note_settlement(answer)
        return answer

    async def release(self) -> HoldAnswer:
        """Ends the hold and gives everything back."""
        return await self.settle(0)

    async def _end(self, failed_and_releases: bool, renewing: asyncio.Task[None] | None) -> None:
        cost = self._cost_at_end(failed_and_releases)
        try:
            if cost is not None:
                await self.settle(cost)
        except ClientClosed:
            self._client._failures.note(CLOSED_TOO_EARLY)
        finally:
            if renewing is not None:
                renewing.cancel()

    def _start_renewing(self) -> asyncio.Task[None] | None:
        if not self._is_renewable():
            return None
        return asyncio.ensure_future(self._keep_renewing())

    async def _keep_renewing(self) -> None:
        """Renews whenever a third of the hold's length has passed."""
        with contextlib.suppress(ClientClosed):
            while True:
                await asyncio.sleep(self._seconds / 3)
                if self._settled or (await self.renew()).status not in (None, "renewed"):
                    return


def _forget_after_fork() -> None:
    for client in list(_clients):
        client._forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
