"""The operations of the service: their requests, and what their answers mean."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ._answer_parser import Reply
from ._answers import Count, Decision, Failure, HoldAnswer
from ._exchange import Request
from ._failures import NoAnswer
from ._keys import LONGEST_TEXT, Attributes, checked
from ._settings import OnFailure, Settings

Operation = Literal["add", "subtract", "get", "set", "reset"]

_DEFAULT_LENGTH = "60s"
SHORTEST_WAIT = 0.001
"""What `wait` sleeps at least, whatever an answer says."""
_LARGEST_COST = 2**32 - 1
_LARGEST_FIGURE = 2**63 - 1
_PASSED_ON = re.compile(r"ratelimit(-.+)?|x-ratelimit-.+|retry-after")
_TRACE = re.compile(r"[ -~]{1,512}")
# A problem with one of these reasons means that a policy refuses during an outage.
_VERDICTS = ("store_unavailable", "outcome_unknown", "store_full")


def named(
    path: str,
    name: str,
    attributes: Attributes | None,
    more: Attributes,
    cost: int,
    traceparent: str | None,
    tracestate: str | None,
) -> Request:
    """A check or a peek under a name."""
    body: dict[str, Any] = {"attributes": _with_action(name, attributes, more)}
    _put_cost(body, cost)
    return Request.build(path, body, _trace(traceparent, tracestate))


def reservation(
    name: str,
    attributes: Attributes | None,
    more: Attributes,
    cost: int,
    units: int,
    expires_after: float | None,
) -> Request:
    """A reservation with an id of its own, so that it can be repeated (rule 15)."""
    body: dict[str, Any] = {"attributes": _with_action(name, attributes, more)}
    _put_cost(body, cost)
    if whole(units, "units", 1000) != 1:
        body["units"] = units
    length = _DEFAULT_LENGTH if expires_after is None else _duration(expires_after)
    if length != _DEFAULT_LENGTH:
        body["expires_after"] = length
    body["id"] = secrets.token_hex(16)
    return Request.build("/v1/reserve", body, repeatable=True)


def renewal(hold: str) -> Request:
    return Request.build("/v1/renew", {"hold": hold}, repeatable=True)


def settlement(hold: str, cost: int) -> Request:
    return Request.build("/v1/settle", {"hold": hold, "cost": cost}, repeatable=True)


def counted(
    policy: str,
    attributes: Attributes | None,
    more: Attributes,
    window: str | None,
    quotas: Sequence[str] | None,
    operation: Operation,
    cost: int,
    used: int | None,
    on_store_failure: OnFailure | None,
    settings: Settings | None = None,
    block: str | None = None,
) -> Request:
    """A count under limits of the caller."""
    if (window is None) == (quotas is None):
        raise ValueError("count: give either quotas or a window")
    if operation not in ("add", "subtract", "get", "set", "reset"):
        raise ValueError("operation: expected add, subtract, get, set or reset")
    if (used is None) == (operation == "set"):
        raise ValueError("used: is given with the operation set, and with no other")
    key = checked(attributes, more)
    if not key:
        raise ValueError("count: give an attribute; all of them together are the key")
    body: dict[str, Any] = {"policy": _name(policy), "attributes": key}
    if quotas is not None:
        if isinstance(quotas, str) or not all(isinstance(quota, str) for quota in quotas):
            raise TypeError("quotas: expected a list of strings, such as ['5/1m']")
        body["quotas"] = list(quotas)
    else:
        body["window"] = window
    if operation != "add":
        body["operation"] = operation
    _put_cost(body, cost)
    if used is not None:
        body["used"] = whole(used, "used", _LARGEST_FIGURE)
    if block is not None:
        if not isinstance(block, str):
            raise TypeError("block: expected a length as a string, such as '30s'")
        if quotas is None or len(quotas) != 1 or operation in ("subtract", "set"):
            raise ValueError("block: needs exactly one quota, and add, get or reset")
        body["block"] = block
    if on_store_failure not in (None, "open", "closed"):
        raise ValueError("on_store_failure: expected 'open' or 'closed'")
    is_closed = on_store_failure == "closed"
    if on_store_failure is None and settings is not None and operation in ("add", "get"):
        is_closed = not settings.admits(policy)
    if is_closed:
        body["on_store_failure"] = "closed"
    return Request.build("/v1/count", body)


def decision(reply: Reply) -> Decision:
    """Reads a decision. Raises `NoAnswer` for everything else (rules 8 and 11)."""
    return _decision(reply, _object(reply))


def decision_and_hold(reply: Reply) -> tuple[Decision, str | None, float]:
    """Reads the answer to a reservation: its hold and the seconds that the hold lives."""
    body = _object(reply)
    made = _decision(reply, body)
    hold, length = _text(body, "hold"), _seconds(body, "expires_after_ms")
    return made, hold if made.allowed else None, length or 0.0


def hold_answer(reply: Reply) -> HoldAnswer:
    """Reads the answer to a renewal or a settlement."""
    body = _object(reply)
    status = body.get("status")
    if reply.status != 200 or not isinstance(status, str):
        raise _no_decision(reply, body)
    return HoldAnswer(status)


def count(reply: Reply) -> Count:
    """Reads the answer to a count."""
    body = _object(reply)
    if reply.status != 200 or "source" not in body:
        raise _no_decision(reply, body)
    window = body.get("window", {})
    if not isinstance(window, dict):
        raise _invalid("`window` is no object")
    allowed = body.get("allowed")
    if allowed is not None and not isinstance(allowed, bool):
        raise _invalid("`allowed` is no boolean")
    blocked = body.get("blocked")
    if blocked is not None and not isinstance(blocked, bool):
        raise _invalid("`blocked` is no boolean")
    return Count(
        allowed=allowed,
        blocked=blocked,
        block_after=_seconds(body, "block_after_ms"),
        used=_figure(body, "used"),
        limit=_figure(body, "limit"),
        remaining=_figure(body, "remaining"),
        reset_after=_seconds(body, "reset_after_ms"),
        retry_after=_seconds(body, "retry_after_ms"),
        window_start=_seconds(window, "start"),
        window_end=_seconds(window, "end"),
        policy=_text(body, "policy"),
        quota=_text(body, "quota"),
        series=_text(body, "series"),
        source=_text(body, "source"),
    )


def without_answer(settings: Settings, name: str, failure: NoAnswer) -> Decision:
    """The client's own decision after a failure (rule 16)."""
    allowed = settings.admits(name) and not failure.verdict
    status = 200 if allowed else 503
    return Decision(allowed, status, source="client", failure=failure.kind)


def count_without_answer(
    settings: Settings,
    policy: str,
    quotas: Sequence[str] | None,
    operation: Operation,
    on_store_failure: OnFailure | None,
    failure: NoAnswer,
) -> Count:
    """The client's own answer to a count: a verdict only where the service gives one."""
    allowed = None
    if quotas is not None and operation in ("add", "get"):
        asked = on_store_failure is not None
        allowed = on_store_failure == "open" if asked else settings.admits(policy)
    return Count(allowed=allowed, source="client", failure=failure.kind)


def waits_for(denial: Decision) -> float | None:
    """Seconds until a denied check may pass; `None` if waiting does not help (rule 9)."""
    if denial.retry_after is None and denial.reason == "in_flight_exceeded":
        return 1.0
    return denial.retry_after


def wait_seconds(timeout: float) -> float:
    """Checks the time that a caller is willing to wait."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError("timeout: expected seconds as a number")
    if not math.isfinite(timeout) or not 0 <= timeout <= 86_400:
        raise ValueError("timeout: expected 0 to 86400 seconds")
    return float(timeout)


def whole(number: int, place: str, largest: int) -> int:
    """Checks a whole number of a call."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"{place}: expected a whole number, got {type(number).__name__}")
    if not 0 <= number <= largest:
        raise ValueError(f"{place}: expected 0 to {largest}")
    return number


def cost_of(cost: int) -> int:
    return whole(cost, "cost", _LARGEST_COST)


def _put_cost(body: dict[str, Any], cost: int) -> None:
    if cost_of(cost) != 1:
        body["cost"] = cost


def _name(name: str) -> str:
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    if not name:
        raise ValueError("name: it is empty")
    if len(name.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
        raise ValueError(f"name: it is longer than {LONGEST_TEXT} bytes")
    return name


def _with_action(name: str, attributes: Attributes | None, more: Attributes) -> dict[str, Any]:
    joined = checked(attributes, more, others=1)
    if "action" in joined:
        raise ValueError("attributes: `action` is the name of the check; call yours something else")
    return {"action": _name(name), **joined}


def _duration(seconds: float) -> str:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError("expires_after: expected seconds as a number")
    if not math.isfinite(seconds) or not 0.001 <= seconds <= 3600:
        raise ValueError("expires_after: expected 0.001 to 3600 seconds")
    milliseconds = round(seconds * 1000)
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


def _trace(traceparent: str | None, tracestate: str | None) -> tuple[tuple[str, str], ...]:
    given = (("traceparent", traceparent), ("tracestate", tracestate))
    headers = tuple((name, value) for name, value in given if value is not None)
    for name, value in headers:
        if not isinstance(value, str) or not _TRACE.fullmatch(value) or value != value.strip():
            raise ValueError(f"{name}: expected up to 512 characters that a header can have")
    return headers


def trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace context of a request, as arguments of a check (rule 6)."""
    found = {name: headers.get(name, "").strip() for name in ("traceparent", "tracestate")}
    return {name: value for name, value in found.items() if _TRACE.fullmatch(value)}


def _object(reply: Reply) -> dict[str, Any]:
    try:
        body = json.loads(reply.body)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        return body
    raise _no_decision(reply, {})


def _decision(reply: Reply, body: dict[str, Any]) -> Decision:
    allowed = body.get("allowed")
    if not isinstance(allowed, bool):
        raise _no_decision(reply, body)
    return Decision(
        allowed=allowed,
        status=reply.status,
        limit=_figure(body, "limit"),
        used=_figure(body, "used"),
        remaining=_figure(body, "remaining"),
        reset_after=_seconds(body, "reset_after_ms"),
        next_after=_seconds(body, "next_after_ms"),
        retry_after=_seconds(body, "retry_after_ms"),
        reason=_text(body, "reason"),
        policy=_text(body, "policy"),
        quota=_text(body, "quota"),
        source=_text(body, "source"),
        headers=_passed_on(reply),
    )


def _passed_on(reply: Reply) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in reply.headers:
        if _PASSED_ON.fullmatch(name):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _no_decision(reply: Reply, body: dict[str, Any]) -> NoAnswer:
    detail = body.get("detail")
    text = f"status {reply.status}: {detail if isinstance(detail, str) else 'no problem in JSON'}"
    if reply.status >= 500:
        verdict = reply.status == 503 and body.get("reason") in _VERDICTS
        return NoAnswer(Failure.UNAVAILABLE, text, verdict)
    if reply.status >= 300:
        return NoAnswer(Failure.REFUSED, text)
    return _invalid(f"status {reply.status}, but no answer of the service")


def _invalid(detail: str) -> NoAnswer:
    return NoAnswer(Failure.INVALID, detail)


def _figure(body: dict[str, Any], name: str) -> int | None:
    figure = body.get(name)
    if figure is None:
        return None
    if (
        isinstance(figure, bool)
        or not isinstance(figure, int)
        or not 0 <= figure <= _LARGEST_FIGURE
    ):
        raise _invalid(f"`{name}` is no whole number")
    return figure


def _seconds(body: dict[str, Any], name: str) -> float | None:
    milliseconds = _figure(body, name)
    return None if milliseconds is None else milliseconds / 1000


def _text(body: dict[str, Any], name: str) -> str | None:
    text = body.get(name)
    if text is None or isinstance(text, str):
        return text
    raise _invalid(f"`{name}` is no string")
