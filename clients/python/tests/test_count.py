"""Counts under limits of the caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from both import Clients
from servers import Service

from tollgate_client import Count

Start = Callable[..., Service]


def test_a_count_goes_on_past_its_limit(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1h", "--caller-quotas").url)
    key = {"key": "alice"}
    first = tollgate.count("api", key, quotas=["5/1h@first_hit"], cost=4)
    assert (first.allowed, first.used, first.limit, first.remaining) == (True, 4, 5, 1)
    assert (first.policy, first.source) == ("api:caller", "store")
    assert first.window_end - first.window_start == 3600
    assert 0 < first.reset_after <= 3600

    past = tollgate.count("api", key, quotas=["5/1h@first_hit"], cost=4)
    assert (past.allowed, past.used, past.remaining) == (False, 8, 0)
    assert past.window_end == first.window_end
    assert tollgate.count("api", {"key": "bob"}, quotas=["5/1h@first_hit"]).used == 1
    assert tollgate.count("other", key, quotas=["5/1h@first_hit"]).used == 1


def test_a_window_needs_no_limit_and_shares_the_counter(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1h", "--caller-quotas").url)
    counted = tollgate.count("api", key="alice", window="1h@first_hit")
    assert (counted.allowed, counted.limit, counted.used) == (None, None, 1)
    assert counted.series == "1h@first_hit"
    under = tollgate.count("api", key="alice", quotas=["5/1h@first_hit"])
    assert (under.allowed, under.used) == (True, 2)


def test_counts_can_be_read_and_changed(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1h", "--caller-quotas").url)

    def used(operation: str, **settings: int) -> int | None:
        counted = tollgate.count(
            "api", key="alice", window="1h@first_hit", operation=operation, **settings
        )
        assert counted.failure is None
        return int(counted.used)

    assert [used("add", cost=5), used("get"), used("subtract", cost=2)] == [5, 5, 3]
    assert used("subtract", cost=9) == 0
    assert [used("set", used=7), used("get"), used("reset"), used("get")] == [7, 7, 0, 0]


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_count_says_what_an_outage_means(clients: Clients, service: Start, mode: str) -> None:
    store = ("--store", "redis://127.0.0.1:1")
    tollgate = clients(service("--limit", "1/1h", "--caller-quotas", *store).url)
    under = tollgate.count("api", key="alice", quotas=["5/1h"], on_store_failure=mode)
    assert (under.allowed, under.used) == (mode == "open", None)
    bare = tollgate.count("api", key="alice", window="1h", on_store_failure=mode)
    assert (bare.allowed, bare.used) == (None, None)
    if mode == "open":
        assert (under.source, bare.source) == ("fallback", "fallback")
        assert tollgate.failures == {}
    else:
        assert (under.source, bare.source) == ("client", "client")
        assert tollgate.failures == {"unavailable": 2}
    assert (
        tollgate.count("api", key="alice", window="1h", operation="reset").failure == "unavailable"
    )


@pytest.mark.parametrize("mode", ["open", "closed"])
def test_a_count_without_a_service_says_the_same(clients: Clients, mode: str) -> None:
    tollgate = clients("http://127.0.0.1:1")
    under = tollgate.count("api", key="alice", quotas=["5/1h"], on_store_failure=mode)
    assert (under.allowed, under.source, under.failure) == (mode == "open", "client", "connection")
    assert tollgate.count("api", key="alice", window="1h", on_store_failure=mode).allowed is None
    changed = tollgate.count(
        "api", key="alice", quotas=["5/1h"], operation="reset", on_store_failure=mode
    )
    assert changed.allowed is None


@pytest.mark.parametrize("serves", [True, False])
def test_an_outage_means_for_a_count_what_it_means_for_its_name(
    clients: Clients, service: Start, serves: bool
) -> None:
    url = "http://127.0.0.1:1"
    if serves:
        flags = ("--limit", "1/1h", "--caller-quotas", "--store", "redis://127.0.0.1:1")
        url = service(*flags).url
    tollgate = clients(url, on_failure="closed", names={"api": "open"})

    def allowed(policy: str, **settings: str) -> bool | None:
        return bool(tollgate.count(policy, key="alice", quotas=["5/1h"], **settings).allowed)

    assert [allowed("login"), allowed("api")] == [False, True]
    assert allowed("login", operation="get") is False
    assert allowed("login", on_store_failure="open") is True
    assert allowed("api", on_store_failure="closed") is False


def test_a_client_that_is_closed_changes_counts(clients: Clients, service: Start) -> None:
    url = service("--limit", "1/1h", "--caller-quotas").url
    tollgate = clients(url, on_failure="closed")
    changed = tollgate.count("api", key="alice", window="1h", operation="set", used=7)
    assert (changed.used, changed.failure) == (7, None)
    assert tollgate.count("api", key="alice", window="1h", operation="reset").used == 0
    assert tollgate.failures == {}


def test_a_service_without_caller_quotas_refuses(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1h").url)
    assert tollgate.count("api", key="alice", window="1h").failure == "refused"


def test_a_key_above_its_limit_is_blocked(clients: Clients, service: Start) -> None:
    tollgate = clients(service("--limit", "1/1h", "--caller-quotas").url)

    def count(operation: str = "add") -> Count:
        return tollgate.count(
            "api", key="alice", quotas=["1/1h@first_hit"], block="1m", operation=operation
        )

    first = count()
    assert (first.allowed, first.blocked, first.block_after) == (True, False, None)
    past = count()
    assert (past.allowed, past.blocked, past.used, past.block_after) == (False, True, 2, 60)
    assert count().used == 2
    assert count("get").blocked is True
    assert count("reset").blocked is False
    assert count().allowed is True
    for wrong in ({"window": "1h"}, {"quotas": ["5/1h", "9/1d"]}):
        with pytest.raises(ValueError, match="block"):
            tollgate.count("api", key="alice", block="1m", **wrong)
    with pytest.raises(TypeError, match="block"):
        tollgate.count("api", key="alice", quotas=["5/1h"], block=60)
