"""What limiters add to an app, all over one Redis: their own storage, and Tollgate.

    TOLLGATE_BINARY=../../target/release/tollgate python bench/limiters.py [ROUNDS]

Each round sends one request to each app in turn, over a connection that is kept alive, so
that whatever else the machine does meets all of them alike. Then eight connections at once
ask each app for two seconds. No request is denied.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from apps import App, uvicorn
from servers import Redis, Service

LIMIT = "1000000000/hour"
FLASK = ["flask", "flask + Flask-Limiter, Redis", "flask + Flask-Limiter, Tollgate"]
FLASK.append("flask + FlaskTollgate")
FASTAPI = ["fastapi", "fastapi + slowapi, Redis", "fastapi + slowapi, Tollgate"]
FASTAPI.append("fastapi + rate_limit")


def storage_uri(kind: str) -> str:
    import tollgate_client.limits  # noqa: F401

    tollgate = os.environ["TOLLGATE_URL"].replace("http://", "tollgate://")
    return os.environ["APP_REDIS"] if kind.endswith("Redis") else tollgate


def flask_app(kind: str) -> Any:
    import flask
    import flask_limiter

    from tollgate_client.flask import FlaskTollgate

    app = flask.Flask(__name__)

    def search() -> str:
        return "found"

    if "Flask-Limiter" in kind:
        uri = storage_uri(kind)
        limiter = flask_limiter.Limiter(lambda: "alice", app=app, storage_uri=uri)
        app.add_url_rule("/search", view_func=limiter.limit(LIMIT)(search))
    elif "FlaskTollgate" in kind:
        limited = FlaskTollgate(app).limit("search", by=lambda: "alice")(search)
        app.add_url_rule("/search", view_func=limited)
    else:
        app.add_url_rule("/search", view_func=search)
    return app


def fastapi_app(kind: str) -> Any:
    import slowapi

    from tollgate_client import AsyncTollgate
    from tollgate_client.fastapi import install, rate_limit

    app = FastAPI()

    async def search(request: Request) -> str:
        return "found"

    if "slowapi" in kind:
        app.state.limiter = slowapi.Limiter(lambda: "alice", storage_uri=storage_uri(kind))
        app.get("/search")(app.state.limiter.limit(LIMIT)(search))
    elif "rate_limit" in kind:
        install(app, AsyncTollgate())
        limits = [Depends(rate_limit("search", by=lambda: "alice"))]
        app.get("/search", dependencies=limits)(search)
    else:
        app.get("/search")(search)
    return app


def connect(app: App) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", app.port, timeout=30)
    connection.connect()
    return connection


def ask(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/search")
    reply = connection.getresponse()
    reply.read()
    assert reply.status == 200, reply.status


def throughput(app: App, connections: int = 8, seconds: float = 2.0) -> float:
    counts: list[int] = []
    ends = time.perf_counter() + seconds

    def run() -> None:
        connection, count = connect(app), 0
        while time.perf_counter() < ends:
            ask(connection)
            count += 1
        counts.append(count)
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == connections, "a connection failed"
    return sum(counts) / seconds


def measure(apps: dict[str, App], rounds: int) -> None:
    connections = {name: connect(app) for name, app in apps.items()}
    times: dict[str, list[float]] = {name: [] for name in apps}
    for turn in range(rounds + rounds // 10):
        for name, connection in connections.items():
            began = time.perf_counter()
            ask(connection)
            if turn >= rounds // 10:
                times[name].append(time.perf_counter() - began)
    base = None
    for name, seconds in times.items():
        seconds.sort()
        middle, late = seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]
        base = middle if base is None else base
        figures = f"p50 {middle * 1e6:6.0f} us  p99 {late * 1e6:6.0f} us"
        added = f"adds {(middle - base) * 1e6:5.0f} us"
        print(f"{name:34} {figures}  {added}  {throughput(apps[name]):6.0f}/s", flush=True)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    with contextlib.ExitStack() as running:
        redis = Redis(Path(running.enter_context(tempfile.TemporaryDirectory())))
        running.callback(redis.kill)
        service = Service("--limit", "1000000000/1h", "--caller-quotas", "--store", redis.url)
        running.callback(service.kill)
        environment = {
            "TOLLGATE_URL": service.url,
            "APP_REDIS": redis.url.replace("unix://", "redis+unix://"),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        for kinds in (FLASK, FASTAPI):
            with contextlib.ExitStack() as serving:
                apps: dict[str, App] = {}
                for kind in kinds:
                    apps[kind] = started(kind, environment)
                    serving.callback(apps[kind].kill)
                measure(apps, rounds)


def started(kind: str, environment: dict[str, str]) -> App:
    environment = {**environment, "APP_KIND": kind}
    if kind in FASTAPI:
        return uvicorn("limiters:app", environment)
    options = ["--threads", "9", "--keep-alive", "60", "--bind", "127.0.0.1:0"]
    return App(["-m", "gunicorn", "limiters:app", *options], environment)


if "APP_KIND" in os.environ:
    app = (fastapi_app if os.environ["APP_KIND"] in FASTAPI else flask_app)(os.environ["APP_KIND"])

if __name__ == "__main__":
    main()
