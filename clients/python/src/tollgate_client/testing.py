"""Clients without a service, for unit tests of an app.

    tollgate = FakeTollgate()
    tollgate.deny("search", retry_after=30)
    assert app.search("alice").status == 429
    assert tollgate.calls == [Call("check", "search", {"user": "alice"}, 1)]

A fake admits until it is told otherwise, and counts nothing. It checks arguments as the
real client does. `wait` does not sleep; `slept` says how long it would have.

To test limits themselves, start the service with `--test-clock`, as the manual says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._answer_parser import Reply
from ._answers import Failure
from ._async_client import AsyncTollgate
from ._client import Tollgate
from ._exchange import Request
from ._failures import NoAnswer
from ._settings import OnFailure

__all__ = ["Call", "FakeAsyncTollgate", "FakeTollgate"]

_URL = "http://127.0.0.1:1"
_STATUSES = {"renew": "renewed", "settle": "settled"}


@dataclass(frozen=True)
class Call:
    """A call that a fake received."""

    operation: str
    """`check`, `peek`, `reserve`, `renew`, `settle` or `count`."""
    name: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    cost: int = 1


_MOST_USED = 2**40 - 1
"""The largest figure of the service: no limit is above it."""


@dataclass
class _Rule:
    answer: Callable[[str, Mapping[str, Any]], Reply]
    times: int | None
    denies: bool = False


class _Script:
    """What a fake answers, and what it was asked."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        """All calls so far, in their order."""
        self.slept: list[float] = []
        """The seconds that `wait` would have slept."""
        self._rules: dict[str, list[_Rule]] = {}

    def _now(self) -> float:
        # Waiting takes no time, but the time passes that it would have taken.
        return time.monotonic() + sum(self.slept)

    def deny(
        self,
        name: str,
        *,
        retry_after: float | None = None,
        reason: str = "quota_exceeded",
        status: int = 429,
        times: int | None = None,
        **fields: Any,
    ) -> None:
        """Denies calls under a name, the next `times` of them or all.

        `fields` are further fields of the answer, such as `limit=5`. Of counts, only `add`
        and `get` are denied. With a window, there is no limit in the call: its caller
        decides by `used`, by default the largest figure of the service.
        """
        figures = dict(fields)
        if retry_after is not None:
            figures["retry_after_ms"] = round(retry_after * 1000)

        def answer(operation: str, body: Mapping[str, Any]) -> Reply:
            if operation == "count":
                return _reply(_count_fields(body, {"used": _MOST_USED, **figures}))
            denied = {"allowed": False, "source": "store", "reason": reason, **figures}
            return _reply(denied, status)

        self._rules.setdefault(name, []).append(_Rule(answer, times, denies=True))

    def fail(self, name: str, kind: Failure | str, *, times: int | None = None) -> None:
        """Leaves calls under a name without an answer: the client then decides by itself."""
        failure = Failure(kind)

        def answer(operation: str, body: Mapping[str, Any]) -> Reply:
            raise NoAnswer(failure, "as the test has said")

        self._rules.setdefault(name, []).append(_Rule(answer, times))

    def admit(self, name: str) -> None:
        """Forgets what `deny` and `fail` have said for a name."""
        self._rules.pop(name, None)

    def _scripted(self, request: Request) -> Reply:
        body = json.loads(request.body)
        operation = request.path.removeprefix("/v1/")
        attributes = body.get("attributes", {})
        name = body.get("policy") or attributes.pop("action", "")
        self.calls.append(Call(operation, name, attributes, body.get("cost", 1)))
        if operation in _STATUSES:
            return _reply({"status": _STATUSES[operation]})
        rules = self._rules.get(name, [])
        while rules and rules[0].times == 0:
            rules.pop(0)
        if rules and (_can_deny(body) or not rules[0].denies):
            times = rules[0].times
            rules[0].times = None if times is None else times - 1
            return rules[0].answer(operation, body)
        if operation == "count":
            return _reply(_count_fields(body))
        admitted: dict[str, Any] = {"allowed": True, "source": "store"}
        if operation == "reserve":
            admitted |= {"hold": f"hold-{len(self.calls)}", "expires_after_ms": 60_000}
        return _reply(admitted)


def _can_deny(body: Mapping[str, Any]) -> bool:
    """Whether the service could deny this: all but counts that ask for no room."""
    return body.get("operation", "add") in ("add", "get")


def _count_fields(
    body: Mapping[str, Any], denial: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The fields of an answer to a count, which is denied if there are figures."""
    adds = body.get("operation", "add") == "add"
    used = body.get("cost", 1) if adds else body.get("used", 0)
    fields: dict[str, Any] = {"source": "store", "used": used}
    if "window" not in body and _can_deny(body):
        fields["allowed"] = denial is None
    if "block" in body:
        fields["blocked"] = denial is not None
        if denial is not None and "retry_after_ms" in denial:
            fields["block_after_ms"] = denial["retry_after_ms"]
    return {**fields, **(denial or {})}


class FakeTollgate(_Script, Tollgate):
    """A `Tollgate` without a service."""

    def __init__(
        self, *, on_failure: OnFailure = "open", names: Mapping[str, OnFailure] | None = None
    ) -> None:
        _Script.__init__(self)
        Tollgate.__init__(self, _URL, on_failure=on_failure, names=names)

    def _send(self, request: Request, deadline: float) -> Reply:
        return self._scripted(request)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class FakeAsyncTollgate(_Script, AsyncTollgate):
    """An `AsyncTollgate` without a service."""

    def __init__(
        self, *, on_failure: OnFailure = "open", names: Mapping[str, OnFailure] | None = None
    ) -> None:
        _Script.__init__(self)
        AsyncTollgate.__init__(self, _URL, on_failure=on_failure, names=names)

    async def _send(self, request: Request, deadline: float) -> Reply:
        return self._scripted(request)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def _reply(body: Mapping[str, Any], status: int = 200) -> Reply:
    return Reply(status, [], json.dumps(body).encode())
