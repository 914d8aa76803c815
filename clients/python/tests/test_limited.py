"""The decorators for plain functions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
from servers import Service

from tollgate_client import AsyncTollgate, RateLimited, Tollgate

Start = Callable[..., Service]


def test_a_function_runs_only_if_it_is_admitted(service: Start) -> None:
    with Tollgate(service("--limit", "4/1h").url, timeout=20) as tollgate:
        ran = []

        @tollgate.limit("render", by=lambda user, pages=1: {"user": user}, cost=2)
        def render(user: str, pages: int = 1) -> int:
            """Renders."""
            ran.append(user)
            return pages

        assert (render.__name__, render.__doc__) == ("render", "Renders.")
        assert list(inspect.signature(render).parameters) == ["user", "pages"]
        assert [render("alice", pages=3), render("alice"), render("bob")] == [3, 1, 1]
        with pytest.raises(RateLimited, match="render: quota_exceeded, retry in") as caught:
            render("alice")
    assert caught.value.name == "render"
    assert caught.value.retry_after is not None
    assert caught.value.decision.limit == 4
    assert ran == ["alice", "alice", "bob"]


def test_an_async_function_runs_only_if_it_is_admitted(service: Start) -> None:
    async def run() -> list[str]:
        async with AsyncTollgate(service("--limit", "1/1h").url, timeout=20) as tollgate:

            @tollgate.limit("render", by=lambda user: str(user))
            async def render(user: str) -> str:
                return user

            done = [await render("alice"), await render("bob")]
            with pytest.raises(RateLimited):
                await render("alice")
            return done

    assert asyncio.run(run()) == ["alice", "bob"]


@pytest.mark.parametrize("key", ["a" * 257, "é" * 2000, "\ud83d", {"user": "a" * 100_000}])
def test_a_key_of_any_text_is_counted(service: Start, key: str | dict[str, str]) -> None:
    with Tollgate(service("--limit", "1/1h").url, timeout=20) as tollgate:

        @tollgate.limit("render", by=lambda: key)
        def render() -> None: ...

        render()
        with pytest.raises(RateLimited):
            render()
    assert tollgate.failures == {}


@pytest.mark.parametrize("key", ["", None, 5, {}])
def test_a_key_function_that_returns_nothing_is_an_error(service: Start, key: object) -> None:
    with Tollgate(service("--limit", "4/1h").url, timeout=20) as tollgate:

        @tollgate.limit("render", by=lambda: key)  # type: ignore[arg-type, return-value]
        def render() -> None:
            raise AssertionError("admitted without a key")

        with pytest.raises((TypeError, ValueError), match="by: "):
            render()
        assert tollgate.check("render").used == 1


def test_the_wrong_kind_of_function_is_refused() -> None:
    async def sleep() -> None: ...

    with pytest.raises(TypeError, match="AsyncTollgate"):
        Tollgate().limit("render")(sleep)
    with pytest.raises(TypeError, match="with Tollgate"):
        AsyncTollgate().limit("render")(len)
