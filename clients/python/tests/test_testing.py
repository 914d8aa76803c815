"""The clients without a service, for unit tests of apps."""

from __future__ import annotations

import asyncio

import pytest

from tollgate_client import AsyncTollgate, Tollgate
from tollgate_client.testing import Call, FakeAsyncTollgate, FakeTollgate


def test_a_fake_admits_and_remembers() -> None:
    tollgate = FakeTollgate()
    assert isinstance(tollgate, Tollgate)
    assert tollgate.check("search", {"user": "alice"}, cost=2).allowed
    assert tollgate.peek("search", beta=True).allowed
    assert tollgate.count("api", {"k": "1"}, window="1m").allowed is None
    assert tollgate.count("api", {"k": "1"}, quotas=["5/1m"]).allowed
    with tollgate.hold("render", cost=9) as hold:
        hold.settle(7)
    assert tollgate.calls == [
        Call("check", "search", {"user": "alice"}, 2),
        Call("peek", "search", {"beta": True}, 1),
        Call("count", "api", {"k": "1"}, 1),
        Call("count", "api", {"k": "1"}, 1),
        Call("reserve", "render", {}, 9),
        Call("settle", "", {}, 7),
    ]
    assert tollgate.failures == {}


def test_a_fake_denies_as_often_as_it_is_told() -> None:
    tollgate = FakeTollgate()
    tollgate.deny("search", retry_after=30, limit=5, used=5, times=2)
    denied = tollgate.check("search")
    assert (denied.allowed, denied.status, denied.retry_after) == (False, 429, 30)
    assert (denied.limit, denied.used, denied.reason) == (5, 5, "quota_exceeded")
    assert tollgate.check("login").allowed
    assert not tollgate.reserve("search").allowed
    assert tollgate.check("search").allowed

    tollgate.deny("search")
    assert not any(tollgate.check("search").allowed for _ in range(5))
    tollgate.admit("search")
    assert tollgate.check("search").allowed


def test_a_fake_denies_counts_as_the_service_does() -> None:
    tollgate = FakeTollgate()
    quotas, key = ["5/1m@first_hit"], {"k": "1"}
    free = tollgate.count("api", key, quotas=quotas, block="1m", cost=2)
    assert (free.allowed, free.blocked, free.used) == (True, False, 2)
    tollgate.deny("api", retry_after=5, times=2)
    for operation in ("subtract", "reset"):
        changed = tollgate.count("api", key, quotas=quotas, operation=operation)
        assert changed.allowed is None
    blocked = tollgate.count("api", key, quotas=quotas, block="1m")
    assert (blocked.allowed, blocked.blocked, blocked.block_after) == (False, True, 5)
    window = tollgate.count("api", key, window="1m")
    assert (window.allowed, window.used) == (None, 2**40 - 1)
    assert tollgate.count("api", key, quotas=quotas, operation="get").allowed
    tollgate.deny("api", used=6, limit=5)
    denied = tollgate.count("api", key, quotas=quotas)
    assert (denied.allowed, denied.used, denied.limit) == (False, 6, 5)
    assert tollgate.failures == {}


def test_a_fake_fails_like_a_service_that_is_down() -> None:
    tollgate = FakeTollgate(names={"login": "closed"})
    tollgate.fail("login", "timeout", times=1)
    tollgate.fail("search", "connection")
    assert tollgate.check("login").status == 503
    assert tollgate.check("login").allowed
    assert tollgate.check("search").allowed
    assert tollgate.failures == {"timeout": 1, "connection": 1}
    with pytest.raises(ValueError, match="tiemout"):
        tollgate.fail("search", "tiemout")


def test_waiting_takes_no_time() -> None:
    tollgate = FakeTollgate()
    tollgate.deny("crm", retry_after=20, times=2)
    assert tollgate.wait("crm", timeout=60).allowed
    assert tollgate.slept == [20, 20]


def test_waiting_ends_when_its_time_would_be_over() -> None:
    tollgate = FakeTollgate()
    tollgate.deny("crm", retry_after=0.5)
    assert not tollgate.wait("crm", timeout=5).allowed
    assert 8 <= len(tollgate.slept) <= 10
    assert len(tollgate.calls) == len(tollgate.slept) + 1
    tollgate.deny("api", retry_after=0)
    assert not tollgate.wait("api", timeout=0.1).allowed
    assert len(tollgate.calls) < 150


def test_a_fake_checks_arguments() -> None:
    with pytest.raises(TypeError, match="user"):
        FakeTollgate().check("search", user=5)  # type: ignore[arg-type]


def test_the_fake_of_asyncio_is_the_same() -> None:
    async def run() -> None:
        tollgate = FakeAsyncTollgate()
        assert isinstance(tollgate, AsyncTollgate)
        tollgate.deny("crm", retry_after=20, times=1)
        assert (await tollgate.wait("crm", timeout=30)).allowed
        assert tollgate.slept == [20]
        async with tollgate.hold("render", cost=9) as hold:
            await hold.settle(7)
        assert [call.operation for call in tollgate.calls] == [
            "check",
            "check",
            "reserve",
            "settle",
        ]
        await tollgate.close()

    asyncio.run(run())
