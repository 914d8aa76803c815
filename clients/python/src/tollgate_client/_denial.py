"""The response of a server to a denied request, whatever its framework (rule 22)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from ._answers import Decision
from ._calls import waits_for

_QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"


@dataclass(frozen=True)
class Denial:
    """Status, headers and body of a response."""

    status: int
    headers: dict[str, str]
    body: bytes


def denial(decision: Decision, *, headers: bool = False) -> Denial:
    """Writes the response to a denied request: a problem in JSON (RFC 9457).

    With `headers`, it has the limit headers that the service sent.
    """
    sent = limit_headers(decision) if headers else {}
    sent["cache-control"] = "no-store"
    sent["content-type"] = "application/problem+json"
    if decision.source == "client":
        problem = {
            "title": "Rate limiter unavailable",
            "status": 503,
        }
        return Denial(503, sent, json.dumps(problem).encode())
    status = decision.status if 400 <= decision.status <= 599 else 429
    seconds = waits_for(decision)
    if seconds is not None:
        whole_seconds = math.ceil(seconds)
        sent["retry-after"] = str(whole_seconds)
        detail = f"retry in {whole_seconds} s"
    else:
        detail = "waiting does not help"
    denied: dict[str, object] = {
        "type": _QUOTA_EXCEEDED,
        "title": "Quota exceeded",
        "status": status,
        "detail": detail,
    }
    if decision.policy is not None:
        denied["violated-policies"] = [decision.policy]
    return Denial(status, sent, json.dumps(denied).encode())


def limit_headers(decision: Decision) -> dict[str, str]:
    """The limit headers of a decision, without `Retry-After`."""
    return {name: value for name, value in decision.headers.items() if name != "retry-after"}
