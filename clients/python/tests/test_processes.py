"""Apps of each framework in processes of their own, under load, and while the service fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from apps import App, Load, in_parallel, uvicorn
from conftest import StartPeer
from servers import Redis, Relay, Service, until

Start = Callable[..., Service]
StartApp = Callable[[Callable[[], App]], App]
ALICE = {"x-user": "alice"}


def gunicorn(app: str, environment: Mapping[str, str], workers: int) -> App:
    """Starts an app with gunicorn, which forks its workers after it has loaded the app."""
    options = ["--workers", str(workers), "--threads", "25", "--preload", "--bind", "127.0.0.1:0"]
    return App(["-m", "gunicorn", app, *options], environment)


# The app, and how many processes one start of it makes.
APPS: dict[str, tuple[str, int]] = {
    "flask": ("flask_app:app", 2),
    "django": ("django_app:wsgi", 2),
    "django-asgi": ("django_app:asgi", 1),
    "flask-limiter": ("flask_limiter_app:app", 2),
    "slowapi": ("slowapi_app:app", 1),
}


def start(apps: StartApp, name: str, url: str, workers: int, **more: str) -> App:
    module, processes = APPS[name]
    storage = url.replace("http://", "tollgate://")
    environment = {"TOLLGATE_URL": url, "APP_STORAGE": storage, "APP_MIDDLEWARE": "", **more}
    if processes == 1:
        return apps(lambda: uvicorn(module, environment))
    return apps(lambda: gunicorn(module, environment, workers))


@pytest.mark.parametrize("name", APPS)
def test_two_processes_admit_exactly_the_limit(
    service: Start, redis: Redis, apps: StartApp, name: str
) -> None:
    slow = ("--store", redis.url, "--store-timeout", "10s")
    running = service("--limit", "20/1h", "--caller-quotas", *slow)
    both = [start(apps, name, running.url, 2, APP_TIMEOUT="20")]
    if APPS[name][1] == 1:
        both.append(start(apps, name, running.url, 2, APP_TIMEOUT="20"))
    responses = in_parallel(both, 50, "/search", ALICE)
    assert sorted(each.status for each in responses) == [200] * 20 + [429] * 30
    assert [each.ask("/failures").json() for each in both] == [{}] * len(both)
    assert both[0].ask("/search", {"x-user": "bob"}).status == 200


@pytest.mark.parametrize("strategy", ["moving-window", "sliding-window-counter"])
@pytest.mark.parametrize("name", ["flask-limiter", "slowapi"])
def test_the_other_strategies_are_exact_as_well(
    service: Start, redis: Redis, apps: StartApp, name: str, strategy: str
) -> None:
    slow = ("--store", redis.url, "--store-timeout", "10s")
    running = service("--limit", "20/1h", "--caller-quotas", *slow)
    app = start(apps, name, running.url, 2, APP_TIMEOUT="20", APP_STRATEGY=strategy)
    responses = in_parallel([app], 50, "/search", ALICE)
    assert sorted(each.status for each in responses) == [200] * 20 + [429] * 30


@pytest.mark.parametrize("fault", ["killed", "stopped", "slow"])
@pytest.mark.parametrize("name", APPS)
def test_the_app_stays_up_without_the_service(
    service: Start, peer: StartPeer, apps: StartApp, name: str, fault: str
) -> None:
    running = service("--limit", "20/1h", "--caller-quotas")
    relay = Relay(running.url, peer)
    app = start(apps, name, relay.url if fault == "slow" else running.url, 1, APP_TIMEOUT="0.25")

    with Load(app, 8, "/search", ALICE) as load:
        load.go_on_for(50)
        if fault == "killed":
            running.kill()
        elif fault == "stopped":
            running.pause()
        else:
            relay.delay = 1.0
        load.go_on_for(50)

    assert load.errors == []
    statuses = [each.status for each in load.responses]
    assert set(statuses) == {200, 429}
    passed = app.ask("/failures").json()
    assert set(passed) <= {"timeout", "connection"}
    # What passed without an answer may have been counted before the service failed.
    assert 0 <= statuses.count(200) - sum(passed.values()) <= 20
    slowest = max(each.seconds for each in load.responses)
    # slowapi waits in the event loop or in its threads, one request after another.
    assert slowest < 0.25 + 3, f"a request took {slowest:.3f} s"

    running.go_on()
    relay.delay = 0.0
    if fault != "killed":
        until(lambda: app.ask("/search", ALICE).status == 429, "the limit")


@pytest.mark.parametrize("name", ["flask", "django", "django-asgi"])
def test_a_closed_name_is_denied_without_the_service(
    service: Start, apps: StartApp, name: str
) -> None:
    running = service("--limit", "20/1h")
    app = start(apps, name, running.url, 1)
    assert app.ask("/login", ALICE, "POST").status == 200
    running.kill()
    assert app.ask("/login", ALICE, "POST").status == 503
    assert app.ask("/search", ALICE).status == 200
