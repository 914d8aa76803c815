"""The storages of `limits`, below its strategies, Flask-Limiter and slowapi."""

from __future__ import annotations

import asyncio
import concurrent.futures
import tempfile
import time
from collections.abc import Callable

import flask
import flask_limiter
import flask_limiter.util
import pytest
import slowapi
import slowapi.util
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from limits import RateLimitItemPerMinute, aio, parse
from limits.errors import ConfigurationError, StorageError
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES, FixedWindowRateLimiter, MovingWindowRateLimiter
from servers import Redis, Service

from tollgate_client.limits import AsyncTollgateStorage, TollgateStorage, Unanswered

FIVE = RateLimitItemPerMinute(5)


Start = Callable[..., Service]
CALLER_QUOTAS = ("--limit", "5/1m", "--caller-quotas")
# Tests that need an answer get it also if the machine is busy.
PATIENT = {"timeout": 20.0}


@pytest.fixture
def shared(redis: Redis, service: Start) -> Service:
    """A service on Redis, which also answers in time if the machine is busy."""
    return service(*CALLER_QUOTAS, "--store", redis.url, "--store-timeout", "10s")


@pytest.fixture
def storage(shared: Service) -> TollgateStorage:
    return storage_of(shared, **PATIENT)


def address(served: Service) -> str:
    return served.url.removeprefix("http://")


def storage_of(served: Service, **options: object) -> TollgateStorage:
    storage = storage_from_string(f"tollgate://{address(served)}", **options)  # type: ignore[arg-type]
    assert isinstance(storage, TollgateStorage)
    return storage


def key(test: str) -> str:
    return f"{test}-{time.monotonic_ns()}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_admits_the_limit_and_no_more(storage: TollgateStorage, strategy: str) -> None:
    limiter, user = STRATEGIES[strategy](storage), key(strategy)
    assert limiter.get_window_stats(FIVE, user).remaining == 5
    assert [limiter.hit(FIVE, user) for _ in range(6)] == [True] * 5 + [False]
    assert not limiter.test(FIVE, user)
    assert limiter.get_window_stats(FIVE, user).remaining == 0
    assert limiter.test(FIVE, key(strategy))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_admits_the_limit_and_no_more_for_asyncio(shared: Service, strategy: str) -> None:
    async def play() -> None:
        storage = storage_from_string(f"async+tollgate://{address(shared)}", **PATIENT)
        assert isinstance(storage, AsyncTollgateStorage)
        limiter, user = aio.strategies.STRATEGIES[strategy](storage), key(strategy)
        assert await storage.check()
        assert (await limiter.get_window_stats(FIVE, user)).remaining == 5
        answers = await asyncio.gather(*(limiter.hit(FIVE, user) for _ in range(20)))
        assert sorted(answers) == [False] * 15 + [True] * 5
        assert not await limiter.test(FIVE, user)
        await limiter.clear(FIVE, user)
        assert await limiter.hit(FIVE, user)
        await storage._client.close()

    asyncio.run(play())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_parallel_hits_pass_no_limit(storage: TollgateStorage, strategy: str) -> None:
    limiter, user, limit = STRATEGIES[strategy](storage), key(strategy), RateLimitItemPerMinute(20)
    with concurrent.futures.ThreadPoolExecutor(50) as threads:
        admitted = list(threads.map(lambda _: limiter.hit(limit, user), range(50)))
    assert admitted.count(True) == 20


def test_a_unix_socket_is_an_address(service: Start) -> None:
    async def play(uri: str) -> None:
        storage = storage_from_string(f"async+{uri}", **PATIENT)
        assert isinstance(storage, AsyncTollgateStorage)
        assert await storage.get(FIVE.key_for("a")) == 1
        await storage._client.close()

    # Paths of sockets are short; those of `tmp_path` may not be.
    with tempfile.TemporaryDirectory() as folder:
        service(*CALLER_QUOTAS, listen=f"unix:{folder}/tollgate.sock")
        uri = f"tollgate+unix://{folder}/tollgate.sock"
        assert FixedWindowRateLimiter(storage_from_string(uri, **PATIENT)).hit(FIVE, "a")
        asyncio.run(play(uri))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_cost_fits_or_does_not(storage: TollgateStorage, strategy: str) -> None:
    limiter, user = STRATEGIES[strategy](storage), key(strategy)
    assert not limiter.hit(FIVE, key(strategy), cost=6)
    assert limiter.hit(FIVE, user, cost=3)
    assert limiter.get_window_stats(FIVE, user).remaining == 2
    assert limiter.test(FIVE, user, cost=2)
    assert not limiter.test(FIVE, user, cost=3)
    assert not limiter.hit(FIVE, user, cost=3)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_cleared_key_starts_over(storage: TollgateStorage, strategy: str) -> None:
    limiter, user, other = STRATEGIES[strategy](storage), key(strategy), key("other")
    assert limiter.hit(FIVE, user, cost=5)
    assert limiter.hit(FIVE, other, cost=5)
    limiter.clear(FIVE, user)
    assert limiter.hit(FIVE, user, cost=5)
    assert not limiter.hit(FIVE, other)


def test_the_window_starts_with_the_first_request_and_is_not_extended(
    storage: TollgateStorage,
) -> None:
    limiter, user = FixedWindowRateLimiter(storage), key("window")
    limit = parse("9 per 2 second")
    started = time.time()
    assert limiter.hit(limit, user)
    time.sleep(0.8)
    assert limiter.hit(limit, user)
    assert limiter.get_window_stats(limit, user).reset_time == pytest.approx(started + 2, abs=0.3)
    time.sleep(max(0.0, started + 2.3 - time.time()))
    assert storage.get(limit.key_for(user)) == 0
    assert storage.get_expiry(limit.key_for(user)) == pytest.approx(time.time(), abs=0.3)


def test_the_moving_window_frees_each_unit_after_its_own_time(storage: TollgateStorage) -> None:
    limiter, user = MovingWindowRateLimiter(storage), key("log")
    limit = parse("2 per 2 second")
    first = time.time()
    assert limiter.hit(limit, user)
    time.sleep(1)
    assert limiter.hit(limit, user)
    assert not limiter.hit(limit, user)
    assert limiter.get_window_stats(limit, user).reset_time == pytest.approx(first + 2, abs=0.3)
    time.sleep(max(0.0, first + 2.2 - time.time()))
    assert limiter.hit(limit, user)
    assert not limiter.hit(limit, user)


def test_a_large_moving_window_never_admits_more(storage: TollgateStorage) -> None:
    limiter, user = MovingWindowRateLimiter(storage), key("log")
    limit = parse("5000 per 1 minute")
    assert limiter.hit(limit, user, cost=4999)
    assert limiter.hit(limit, user)
    assert not limiter.hit(limit, user)


def test_units_of_a_large_moving_window_come_back_in_time(storage: TollgateStorage) -> None:
    limiter, limit, user = MovingWindowRateLimiter(storage), parse("300 per 2 second"), key("log")
    first = time.time()
    assert limiter.hit(limit, user, cost=300)
    taken = time.time()
    assert not limiter.hit(limit, user)
    time.sleep(max(0.0, first + 1.9 - time.time()))
    early = limiter.hit(limit, user)
    # A busy machine may have slept for too long.
    assert not early or time.time() > first + 2
    time.sleep(max(0.0, taken + 2.1 - time.time()))
    assert limiter.hit(limit, user, cost=298)


def test_months_and_years_have_the_lengths_of_limits(storage: TollgateStorage) -> None:
    for text, days in (("5/month", 30), ("5/year", 360), ("5 per 2 day", 2)):
        limit, user = parse(text), key(text)
        assert FixedWindowRateLimiter(storage).hit(limit, user)
        ends = storage.get_expiry(limit.key_for(user))
        assert ends == pytest.approx(time.time() + days * 86_400, abs=5)


def test_keys_that_the_service_cannot_take_are_still_counted(storage: TollgateStorage) -> None:
    limiter = FixedWindowRateLimiter(storage)
    for user in ("x" * 3000, "\udcff", "a\nb\0c", "ä" * 900):
        user += key("long")
        assert limiter.hit(FIVE, user, cost=5)
        assert not limiter.hit(FIVE, user)
        assert limiter.hit(FIVE, user + "x")


def test_a_key_that_tells_no_window_is_refused(storage: TollgateStorage) -> None:
    for wrong in ("secret", "secret/5/1/fortnight", "secret/5/0/minute", "secret/x/1/minute"):
        with pytest.raises(ValueError, match="AMOUNT/MULTIPLES/GRANULARITY") as error:
            storage.get(wrong)
        assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match="10 s, but the key is of 60 s"):
        storage.incr(FIVE.key_for("a"), 10)
    with pytest.raises(ValueError, match="6, but the key is of 5"):
        storage.acquire_entry(FIVE.key_for("a"), 6, 60)


def test_resetting_everything_is_unsupported(storage: TollgateStorage) -> None:
    with pytest.raises(NotImplementedError):
        storage.reset()


@pytest.mark.parametrize(
    ("uri", "options"),
    [
        ("tollgate://user:secret@127.0.0.1:8080", {}),
        ("tollgate://127.0.0.1", {}),
        ("tollgate://127.0.0.1:8080/0", {}),
        ("tollgate+unix://relative", {}),
        ("async+tollgate://127.0.0.1:8080?secret", {}),
        ("tollgate://127.0.0.1:8080", {"on_failure": "panic"}),
        ("tollgate://127.0.0.1:8080", {"timeout": 0}),
        ("tollgate://127.0.0.1:8080", {"prefix": "a"}),
    ],
)
def test_a_wrong_configuration_is_refused(uri: str, options: dict[str, str | float]) -> None:
    with pytest.raises(ConfigurationError) as error:
        storage_from_string(uri, **options)
    assert "secret" not in str(error.value)


def test_a_wrong_address_is_told_the_forms_of_a_storage() -> None:
    forms = r"expected tollgate://HOST:PORT, tollgates://HOST:PORT \(TLS\) or"
    for uri in ("tollgate://127.0.0.1", "tollgate://127.0.0.1:8080/1"):
        with pytest.raises(ConfigurationError, match=forms):
            storage_from_string(uri)


def test_names_separate_counters(shared: Service) -> None:
    user = key("names")
    for name in ("first", "second"):
        limiter = FixedWindowRateLimiter(storage_of(shared, name=name, **PATIENT))
        assert limiter.hit(FIVE, user, cost=5)
        assert not limiter.hit(FIVE, user)


CALLS = {
    "incr": lambda storage: storage.incr(FIVE.key_for("a"), 60),
    "get": lambda storage: storage.get(FIVE.key_for("a")),
    "get_expiry": lambda storage: storage.get_expiry(FIVE.key_for("a")),
    "acquire_entry": lambda storage: storage.acquire_entry(FIVE.key_for("a"), 5, 60),
    "get_moving_window": lambda storage: storage.get_moving_window(FIVE.key_for("a"), 5, 60),
    "acquire_sliding_window_entry": lambda storage: storage.acquire_sliding_window_entry(
        FIVE.key_for("a"), 5, 60
    ),
    "get_sliding_window": lambda storage: storage.get_sliding_window(FIVE.key_for("a"), 60),
    "clear": lambda storage: storage.clear(FIVE.key_for("a")),
    "clear_sliding_window": lambda storage: storage.clear_sliding_window(FIVE.key_for("a"), 60),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrapped", [True, False])
def test_without_the_service_a_call_raises(shared: Service, call: str, wrapped: bool) -> None:
    storage = storage_of(shared, wrap_exceptions=wrapped)
    shared.kill()
    assert not storage.check()
    with pytest.raises(StorageError) as error:
        CALLS[call](storage)
    assert isinstance(error.value.storage_error, Unanswered)
    assert error.value.storage_error.failure == "connection"


@pytest.mark.parametrize("call", CALLS)
def test_without_the_store_a_call_raises(redis: Redis, shared: Service, call: str) -> None:
    storage = storage_of(shared, **PATIENT)
    assert storage.check()
    redis.kill()
    assert not storage.check()
    with pytest.raises(StorageError) as error:
        CALLS[call](storage)
    assert error.value.storage_error.failure == "unavailable"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("on_failure", ["open", "closed"])
@pytest.mark.parametrize("cause", ["service", "store"])
def test_a_failure_admits_or_denies_as_configured(
    redis: Redis, shared: Service, strategy: str, on_failure: str, cause: str
) -> None:
    limiter = STRATEGIES[strategy](storage_of(shared, **PATIENT, on_failure=on_failure))
    shared.kill() if cause == "service" else redis.kill()
    is_open = on_failure == "open"
    assert limiter.hit(FIVE, "a") == is_open
    assert limiter.test(FIVE, "a") == is_open
    assert limiter.get_window_stats(FIVE, "a").remaining == (5 if is_open else 0)


def test_a_service_without_caller_quotas_says_so(service: Start) -> None:
    limiter = FixedWindowRateLimiter(storage_of(service("--limit", "5/1m"), **PATIENT))
    with pytest.raises(StorageError, match="--caller-quotas"):
        limiter.hit(FIVE, "a")


def flask_app(uri: str, **options: object) -> flask.Flask:
    app = flask.Flask(__name__)
    limiter = flask_limiter.Limiter(
        flask_limiter.util.get_remote_address,
        app=app,
        storage_uri=uri,
        **options,  # type: ignore[arg-type]
    )

    @app.get("/search")
    @limiter.limit("5/minute")
    def search() -> str:
        return "found"

    return app


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_flask_limiter_counts_in_tollgate(service: Start, strategy: str) -> None:
    uri = f"tollgate://{address(service(*CALLER_QUOTAS))}"
    app = flask_app(uri, strategy=strategy, headers_enabled=True, storage_options=PATIENT)
    answers = [app.test_client().get("/search") for _ in range(6)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429]
    assert [answer.headers["X-RateLimit-Remaining"] for answer in answers] == list("432100")
    if strategy == "fixed-window":
        assert 55 < int(answers[-1].headers["Retry-After"]) <= 61


def test_flask_limiter_without_the_service(service: Start) -> None:
    served = service(*CALLER_QUOTAS)
    served.kill()
    uri = f"tollgate://{address(served)}"
    plain = flask_app(uri).test_client()
    assert plain.get("/search").status_code == 500
    swallowing = flask_app(uri, swallow_errors=True).test_client()
    assert [swallowing.get("/search").status_code for _ in range(6)] == [200] * 6
    in_memory = flask_app(uri, in_memory_fallback_enabled=True).test_client()
    assert [in_memory.get("/search").status_code for _ in range(6)] == [200] * 5 + [429]
    is_open = flask_app(uri, storage_options={"on_failure": "open"}).test_client()
    assert [is_open.get("/search").status_code for _ in range(6)] == [200] * 6
    closed = flask_app(uri, storage_options={"on_failure": "closed"}).test_client()
    assert closed.get("/search").status_code == 429


def test_flask_limiter_returns_to_the_service(service: Start) -> None:
    served = service(*CALLER_QUOTAS)
    uri = f"tollgate://{address(served)}"
    client = flask_app(uri, in_memory_fallback_enabled=True, storage_options=PATIENT).test_client()
    served.kill()
    assert [client.get("/search").status_code for _ in range(6)] == [200] * 5 + [429]
    service(*CALLER_QUOTAS, listen=address(served))
    # Flask-Limiter asks a storage that failed again after a second, and then less often.
    time.sleep(1.5)
    assert client.get("/search").status_code == 200


def slowapi_app(uri: str, **options: object) -> FastAPI:
    limiter = slowapi.Limiter(slowapi.util.get_remote_address, storage_uri=uri, **options)
    app = FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(
        slowapi.errors.RateLimitExceeded, slowapi._rate_limit_exceeded_handler
    )

    @app.get("/search")
    @limiter.limit("5/minute")
    def search(request: Request) -> dict[str, str]:
        return {"found": "it"}

    return app


def statuses(app: FastAPI, count: int) -> list[int]:
    with TestClient(app, raise_server_exceptions=False) as client:
        return [client.get("/search").status_code for _ in range(count)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_slowapi_counts_in_tollgate(service: Start, strategy: str) -> None:
    app = slowapi_app(
        f"tollgate://{address(service(*CALLER_QUOTAS))}", strategy=strategy, storage_options=PATIENT
    )
    assert statuses(app, 6) == [200] * 5 + [429]


def test_slowapi_without_the_service(service: Start) -> None:
    served = service(*CALLER_QUOTAS)
    served.kill()
    uri = f"tollgate://{address(served)}"
    assert statuses(slowapi_app(uri), 1) == [500]
    assert statuses(slowapi_app(uri, in_memory_fallback_enabled=True), 6) == [200] * 5 + [429]
    assert statuses(slowapi_app(uri, storage_options={"on_failure": "open"}), 6) == [200] * 6
    assert statuses(slowapi_app(uri, storage_options={"on_failure": "closed"}), 1) == [429]
