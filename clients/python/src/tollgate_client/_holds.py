"""What is known about a hold, without its network."""

from __future__ import annotations

from . import _calls
from ._answers import Decision, Failure, HoldAnswer
from ._exchange import Request
from ._failures import NoAnswer

CLOSED_TOO_EARLY = NoAnswer(
    Failure.CONNECTION, "the client was closed before a hold was settled, so it ends by itself"
)


class HoldState:
    """Units in flight and an estimate, until they are settled."""

    def __init__(self, decision: Decision, sealed: str | None, cost: int, seconds: float) -> None:
        self.decision = decision
        """The answer to the reservation."""
        self.lost = False
        """Whether the units are gone although the work goes on: stop the work."""
        self._sealed = sealed
        self._cost = cost
        self._seconds = seconds
        self._settling: int | None = None
        self._settled = False

    @property
    def allowed(self) -> bool:
        """Whether the work may begin."""
        return self.decision.allowed

    def __repr__(self) -> str:
        return f"{type(self).__name__}(allowed={self.allowed}, lost={self.lost})"

    def _renewal(self) -> Request | None:
        return None if self._sealed is None else _calls.renewal(self._sealed)

    def _note_renewal(self, answer: HoldAnswer) -> None:
        # A renewal that meets a settlement on its way finds a hold that has ended.
        if answer.status in ("lost", "expired", "ended") and self._settling is None:
            self.lost = True

    def _settlement(self, cost: int) -> Request | None:
        """Starts to settle. If nothing is held, there is nothing to send."""
        _calls.cost_of(cost)
        if not self.allowed:
            raise RuntimeError("the reservation was denied, so there is nothing to settle")
        self._settling = cost
        return None if self._sealed is None else _calls.settlement(self._sealed, cost)

    def _note_settlement(self, answer: HoldAnswer) -> None:
        self._settled = answer.status is not None

    def _cost_at_end(self, failed_and_releases: bool) -> int | None:
        """The cost to settle at when a scope ends; `None` if it is settled, or was denied."""
        if self._settled or not self.allowed:
            return None
        if self._settling is not None:
            # The settlement failed. Another cost than its own could be a conflict.
            return self._settling
        return 0 if failed_and_releases else self._cost

    def _is_renewable(self) -> bool:
        return self._sealed is not None and self._seconds > 0
