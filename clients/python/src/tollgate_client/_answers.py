"""What a call returns: a decision, a count, or what became of a hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Failure(str, Enum):
    """Why there is no answer of the service (rule 11). Each is also its own text."""

    TIMEOUT = "timeout"
    """No whole answer within the timeout."""
    CONNECTION = "connection"
    """No connection, or it broke before the answer was whole."""
    UNAVAILABLE = "unavailable"
    """Status 500 or above, without a decision."""
    REFUSED = "refused"
    """Another status without a decision: the request or the configuration is wrong."""
    INVALID = "invalid"
    """Bytes that are no answer of the service, or too many of them."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a check, a peek or a reservation. A denial is a value, no exception.

    Figures that the service did not send are `None`. Times are in seconds.
    """

    allowed: bool
    """Whether the request may go on."""
    status: int = 200
    """The status of the answer. A policy can replace 429; a denial by the client is 503."""
    limit: int | None = None
    used: int | None = None
    remaining: int | None = None
    reset_after: float | None = None
    """When nothing is used any more, if nothing is charged until then."""
    next_after: float | None = None
    """When the next unit comes back, of a quota that is no fixed window."""
    retry_after: float | None = None
    """How long to wait exactly. A denial without it is not helped by waiting."""
    reason: str | None = None
    policy: str | None = None
    quota: str | None = None
    source: str | None = None
    """`store`, `local` or `fallback`: what decided in the service. `client`: there is no answer."""
    failure: Failure | None = None
    """Why there is no answer of the service; then the client has decided by itself."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The limit headers of the answer, with lower-case names."""


@dataclass(frozen=True, slots=True)
class Count:
    """The answer to `count`. Times are in seconds; windows are unix times.

    `allowed`, `limit` and `remaining` are `None` if the call named a window without a
    limit. All figures are `None` without an answer, and during an outage of the store.
    """

    allowed: bool | None = None
    used: int | None = None
    limit: int | None = None
    remaining: int | None = None
    reset_after: float | None = None
    retry_after: float | None = None
    window_start: float | None = None
    window_end: float | None = None
    policy: str | None = None
    quota: str | None = None
    series: str | None = None
    source: str | None = None
    failure: Failure | None = None
    blocked: bool | None = None
    """Whether the key is blocked, if the call named a block."""
    block_after: float | None = None


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    """What became of a hold that was renewed or settled."""

    status: str | None
    """`renewed`, `settled`, `lost`, `expired`, `ended` or `gone`; `None` after a failure."""
    failure: Failure | None = None
