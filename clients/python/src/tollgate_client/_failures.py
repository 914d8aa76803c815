"""Counts calls without a decision of the service, and logs one line a minute (rule 17)."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import threading
import time

from ._answers import Failure

_SECONDS_BETWEEN_LINES = 60.0
# A detail comes from the other end of a connection, which need not be the service.
_LONGEST_DETAIL = 300
# Those of the service are shorter. A longer one is not searched for values, and not logged.
_LONGEST_PROBLEM = 2000


class NoAnswer(Exception):
    """A call that got no answer of the service; never leaves this package."""

    def __init__(self, kind: Failure, detail: str, verdict: bool = False) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail
        # The service refuses because of a policy that is `closed` (rule 16).
        self.verdict = verdict

    def mask(self, values: list[str], token: str | None) -> None:
        """Replaces the values of a call and the token in the detail (rule 17)."""
        if len(self.detail) > _LONGEST_PROBLEM:
            self.detail = f"a detail of {len(self.detail)} characters"
        secrets = {*values, token or ""} - {""}
        # Whatever repeats a body of a request has them as JSON writes them.
        for is_ascii in (False, True):
            secrets |= {json.dumps(value, ensure_ascii=is_ascii)[1:-1] for value in values if value}
        # One may be a part of another.
        for secret in sorted(secrets, key=len, reverse=True):
            if secret in self.detail:
                self.detail = re.sub(_pattern(secret), "***", self.detail)


class ClientClosed(RuntimeError):
    """A call of a client that was closed: an error of the app."""

    def __init__(self) -> None:
        super().__init__("this client is closed")


class FailureLog:
    """The failures of a client, by kind."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._unlogged: dict[str, int] = {}
        self._last = ""
        self._next_line = 0.0

    def counts(self) -> dict[str, int]:
        """The failures since the client was made, without kinds that never happened."""
        with self._lock:
            return dict(self._counts)

    def note(self, failure: NoAnswer) -> None:
        """Counts a failure, and logs it if the last line was a minute ago."""
        kind = failure.kind.value
        with self._lock:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            self._last = f"{kind}: {_printable(failure.detail)}"
        self.log_if_due()

    def log_if_due(self) -> None:
        """Logs what has gathered, if the last line was a minute ago."""
        if self._unlogged:
            self._log(time.monotonic())

    def log_now(self) -> None:
        """Logs what has gathered, for the end of a client."""
        self._log(float("inf"))

    def renew_lock(self) -> None:
        """Replaces the lock after a fork: a thread of the parent may have held it."""
        self._lock = threading.Lock()

    def _log(self, now: float) -> None:
        with self._lock:
            if not self._unlogged or now < self._next_line:
                return
            unlogged, self._unlogged = self._unlogged, {}
            last = self._last
            self._next_line = time.monotonic() + _SECONDS_BETWEEN_LINES
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(unlogged.items()))
        # A handler that fails must not take a decision down with it.
        with contextlib.suppress(Exception):
            self._logger.log(
                # What is refused never heals by itself.
                logging.ERROR if Failure.REFUSED.value in unlogged else logging.WARNING,
                "tollgate: calls without a decision of the service: %d (%s); the last: %s",
                sum(unlogged.values()),
                kinds,
                last,
            )


def _pattern(secret: str) -> str:
    # A short value, such as `a`, is a part of many words.
    if len(secret.encode("utf-8", "surrogatepass")) < 4:
        return rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])"
    return re.escape(secret)


def _printable(detail: str) -> str:
    shortened = detail if len(detail) <= _LONGEST_DETAIL else detail[:_LONGEST_DETAIL] + "..."
    return "".join(letter if letter.isprintable() else "?" for letter in shortened)
