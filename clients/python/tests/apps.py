"""Processes that serve an app of the tests, and requests to them."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers import until


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    def json(self) -> Any:
        return json.loads(self.body)


class App:
    """A process that serves an app, on a port that it prints."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(__file__).parent,
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            # Workers of a server outlive it unless they are killed as well.
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.output: list[str] = []
        for line in self._process.stdout:
            self.output.append(line)
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self.port = int(found[1])
                # A full pipe would stop the app.
                self._drain = threading.Thread(target=self._read_output)
                self._drain.start()
                return
        self._process.wait()
        self._process.stdout.close()
        raise AssertionError("".join(self.output))

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            self.output.extend(output)

    def ask(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> Response:
        """Sends a request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began = time.monotonic()
        try:
            connection.request(method, path, headers=dict(headers or {}))
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        names = {name.lower(): value for name, value in reply.getheaders()}
        return Response(reply.status, names, body, time.monotonic() - began)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drain.join()


def uvicorn(app: str, environment: Mapping[str, str]) -> App:
    """Starts an app with uvicorn."""
    serve = ["-m", "uvicorn", app, "--host", "127.0.0.1", "--port", "0", "--no-access-log"]
    return App(serve, environment)


def in_parallel(
    apps: list[App],
    count: int,
    path: str,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
) -> list[Response]:
    """Sends so many requests at once, to one app after the other."""
    with ThreadPoolExecutor(count) as threads:
        sent = [
            threads.submit(apps[index % len(apps)].ask, path, headers, method)
            for index in range(count)
        ]
        return [each.result() for each in sent]


class Load:
    """Threads that send requests to an app one after another, until the block ends."""

    def __init__(self, app: App, threads: int, path: str, headers: Mapping[str, str]) -> None:
        self._app = app
        self._request = (path, headers)
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        self._stop = threading.Event()
        self.responses: list[Response] = []
        self.errors: list[Exception] = []

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.responses.append(self._app.ask(*self._request))
        except Exception as error:
            self.errors.append(error)

    def go_on_for(self, count: int) -> None:
        """Waits until the app has answered so many more requests."""
        wanted = len(self.responses) + count
        until(lambda: bool(self.errors) or len(self.responses) >= wanted, f"{count} answers")

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
