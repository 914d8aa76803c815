"""The client for threads."""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from . import _calls
from ._answer_parser import Reply
from ._answers import Count, Decision, Failure, HoldAnswer
from ._calls import Operation
from ._exchange import Request
from ._failures import ClientClosed, FailureLog, NoAnswer
from ._holds import CLOSED_TOO_EARLY, HoldState
from ._keys import Attribute, Attributes
from ._limited import By, F, limit
from ._settings import OnFailure, Settings
from ._sockets import Sockets

T = TypeVar("T")

_clients: weakref.WeakSet[Tollgate] = weakref.WeakSet()


class Tollgate:
    """A client for threads: asks the service whether a request may go on.

    It has a pool of connections, and may be shared by all threads of a process. A process
    that is forked makes connections of its own.

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
        self._sockets = Sockets(self._settings)
        _clients.add(self)

    def check(
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
        return self._decide(name, request)

    def peek(
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
        return self._decide(name, request)

    def wait(
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
            decision = self._decide(name, request)
            seconds = None if decision.allowed else _calls.waits_for(decision)
            if seconds is None or self._now() + seconds > ends:
                return decision
            self._sleep(max(seconds, _calls.SHORTEST_WAIT))

    def reserve(
        self,
        name: str,
        attributes: Attributes | None = None,
        /,
        *,
        cost: int = 1,
        units: int = 1,
        expires_after: float | None = None,
        **more: Attribute,
    ) -> Hold:
        """Charges an estimate and takes units in flight, until the hold is settled.

        Nothing renews the hold: without `Hold.renew`, it ends after `expires_after`
        seconds. `hold` does all of this.
        """
        request = _calls.reservation(name, attributes, more, cost, units, expires_after)
        try:
            decision, sealed, seconds = self._ask(request, _calls.decision_and_hold)
        except NoAnswer as failure:
            decision = _calls.without_answer(self._settings, name, failure)
            sealed, seconds = None, 0.0
        return Hold(self, decision, sealed, cost, seconds)

    @contextlib.contextmanager
    def hold(
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
    ) -> Iterator[Hold]:
        """Reserves for the length of a `with` block, and renews in between.

        If the block does not settle, its charge stays. With `release_on_error`, it is
        given back if the block ends with an exception. A denial raises nothing: ask for
        `allowed` first.
        """
        hold = self.reserve(
            name, attributes, cost=cost, units=units, expires_after=expires_after, **more
        )
        if not hold._start_renewing():
            hold.release()
            failure = NoAnswer(Failure.CONNECTION, "no thread can be started to renew a hold")
            self._failures.note(failure)
            hold = Hold(self, _calls.without_answer(self._settings, name, failure), None, cost, 0.0)
        failed_and_releases = False
        try:
            yield hold
        except BaseException:
            failed_and_releases = release_on_error
            raise
        finally:
            hold._end(failed_and_releases)

    def count(
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
            return self._ask(request, _calls.count)
        except NoAnswer as failure:
            return _calls.count_without_answer(
                self._settings, policy, quotas, operation, on_store_failure, failure
            )

    def limit(self, name: str, *, by: By | None = None, cost: int = 1) -> Callable[[F], F]:
        """Limits a function: a decorator, which raises `RateLimited` on a denial.

        `by` gets the arguments of the function, and returns attributes or one string.
        Without it, all calls count together.
        """
        return limit(self, name, by, cost)

    @property
    def failures(self) -> dict[str, int]:
        """How many calls had no answer since the client was made, by kind."""
        return self._failures.counts()

    def close(self) -> None:
        """Closes the connections, and logs the failures that were not logged yet."""
        self._sockets.close()
        self._failures.log_now()

    def __enter__(self) -> Tollgate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Tollgate({str(self._settings.address)!r})"

    def _decide(self, name: str, request: Request) -> Decision:
        try:
            return self._ask(request, _calls.decision)
        except NoAnswer as failure:
            return _calls.without_answer(self._settings, name, failure)

    def _ask(self, request: Request, read: Callable[[Reply], T]) -> T:
        deadline = time.monotonic() + self._settings.timeout
        try:
            answer = read(self._send(request, deadline))
        except NoAnswer as failure:
            failure.mask(request.secrets(), self._settings.token)
            self._failures.note(failure)
            raise
        self._failures.log_if_due()
        return answer

    def _send(self, request: Request, deadline: float) -> Reply:
        return self._sockets.send(request, deadline)

    def _now(self) -> float:
        return time.monotonic()

    def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def _ask_about_hold(self, request: Request | None) -> HoldAnswer:
        if request is None:
            return HoldAnswer("gone")
        try:
            return self._ask(request, _calls.hold_answer)
        except NoAnswer as failure:
            return HoldAnswer(None, failure.kind)

    def _forget_connections(self) -> None:
        self._sockets.forget()
        self._failures.renew_lock()


class Hold(HoldState):
    """Units in flight and an estimate, until they are settled."""

    def __init__(
        self, client: Tollgate, decision: Decision, sealed: str | None, cost: int, seconds: float
    ) -> None:
        super().__init__(decision, sealed, cost, seconds)
        self._client = client
        self._stop_renewing = threading.Event()

    def renew(self) -> HoldAnswer:
        """Starts the length of the hold again."""
        answer = self._client._ask_about_hold(self._renewal())
        self._note_renewal(answer)
        return answer

    def settle(self, cost: int) -> HoldAnswer:
        """Ends the hold at its actual cost; the rest of the estimate is given back.

        After a failure, the same call may be repeated.
        """
        answer = self._client._ask_about_hold(self._settlement(cost))
        self._note_settlement(answer)
        if answer.status is not None:
            self._stop_renewing.set()
        return answer

    def release(self) -> HoldAnswer:
        """Ends the hold and gives everything back."""
        return self.settle(0)

    def _end(self, failed_and_releases: bool) -> None:
        cost = self._cost_at_end(failed_and_releases)
        try:
            if cost is not None:
                self.settle(cost)
        except ClientClosed:
            self._client._failures.note(CLOSED_TOO_EARLY)
        finally:
            self._stop_renewing.set()

    def _start_renewing(self) -> bool:
        """Renews on a thread whenever a third of the hold's length has passed.

        Returns whether the hold is safe: false if no thread can be started.
        """
        if not self._is_renewable():
            return True
        thread = threading.Thread(target=self._keep_renewing, name="tollgate-hold", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        return True

    def _keep_renewing(self) -> None:
        with contextlib.suppress(ClientClosed):
            while not self._stop_renewing.wait(self._seconds / 3):
                if self.renew().status not in (None, "renewed"):
                    return


def _forget_after_fork() -> None:
    for client in list(_clients):
        client._forget_connections()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
