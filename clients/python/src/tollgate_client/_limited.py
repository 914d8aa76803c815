"""Limits on plain functions, and the exception of whatever cannot return a denial."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from ._answers import Decision
from ._calls import cost_of
from ._keys import Attributes, attributes_of

if TYPE_CHECKING:
    from ._async_client import AsyncTollgate
    from ._client import Tollgate

F = TypeVar("F", bound=Callable[..., Any])
# Its arguments are those of the function, which a type checker knows only later.
By: TypeAlias = Callable[..., str | Attributes]


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


def limit(client: Tollgate, name: str, by: By | None, cost: int) -> Callable[[F], F]:
    """Makes the decorator of `Tollgate.limit`."""
    cost_of(cost)

    def decorate(function: F) -> F:
        if inspect.iscoroutinefunction(function):
            raise TypeError("this function is async: limit it with AsyncTollgate")

        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            decision = client.check(name, _attributes(by, args, kwargs), cost=cost)
            if not decision.allowed:
                raise RateLimited(name, decision)
            return function(*args, **kwargs)

        return cast(F, limited)

    return decorate


def limit_async(client: AsyncTollgate, name: str, by: By | None, cost: int) -> Callable[[F], F]:
    """Makes the decorator of `AsyncTollgate.limit`."""
    cost_of(cost)

    def decorate(function: F) -> F:
        if not inspect.iscoroutinefunction(function):
            raise TypeError("this function is not async: limit it with Tollgate")

        @functools.wraps(function)
        async def limited(*args: Any, **kwargs: Any) -> Any:
            decision = await client.check(name, _attributes(by, args, kwargs), cost=cost)
            if not decision.allowed:
                raise RateLimited(name, decision)
            return await function(*args, **kwargs)

        return cast(F, limited)

    return decorate


def _attributes(by: By | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attributes | None:
    return None if by is None else attributes_of(by(*args, **kwargs))
