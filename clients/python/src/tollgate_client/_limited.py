"""The exception of decorators and dependencies, which cannot return a denial."""

from __future__ import annotations

from ._answers import Decision


class RateLimited(Exception):
    """A call was denied. `decision` says why, and `name` what was limited."""

    def __init__(self, name: str, decision: Decision) -> None:
        super().__init__(name, decision)
        self.name = name
        self.decision = decision

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait; `None` if waiting does not help, or if nobody knows."""
        return self.decision.retry_after

    def __str__(self) -> str:
        reason = self.decision.failure or self.decision.reason or "denied"
        if self.retry_after is None:
            return f"{self.name}: {reason}"
        return f"{self.name}: {reason}, retry in {self.retry_after:.3f} s"
