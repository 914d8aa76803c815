"""Drives a client by lines of JSON, as `docs/clients.md` says.

`cargo xtask conformance -- python tests/conformance.py` plays the cases against `Tollgate`,
and with `--asyncio` against `AsyncTollgate`.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from typing import Any

from tollgate_client import AsyncHold, AsyncTollgate, Count, Decision, Hold, OnFailure, Tollgate

Message = dict[str, Any]
_TIMES = ("reset_after", "retry_after", "block_after", "window_start", "window_end")


class Lines(logging.Handler):
    """Keeps the lines that a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Failed(Exception):
    """What a scope fails with if it is told to."""


class Driver:
    """Does what a line says. Its calls wait for a result, whichever client it drives."""

    def __init__(self, kind: type[Tollgate] | type[AsyncTollgate]) -> None:
        self._kind = kind
        self._loop = asyncio.new_event_loop() if kind is AsyncTollgate else None
        self._client: Any = None
        self._hold: Hold | AsyncHold | None = None
        self._lines = Lines()

    def answer(self, message: Message) -> Message:
        try:
            return self._answer(message)
        except (TypeError, ValueError, RuntimeError) as error:
            return {"error": str(error)}

    def close(self) -> None:
        if self._client is not None:
            self._result(self._client.close())
        if self._loop is not None:
            self._loop.close()

    def _answer(self, message: Message) -> Message:
        match message.pop("do"):
            case "start":
                return self._start(message)
            case "failures":
                return dict(self._client.failures)
            case "logs":
                return {"lines": list(self._lines.lines)}
            case "parallel":
                return {"answers": self._parallel(message["calls"])}
            case "hold":
                return self._scope(message)
            case "reserve":
                self._hold = self._result(self._client.reserve(*_named(message), **message))
                return decision_fields(self._hold.decision)
            case "renew" | "settle" | "release" as do:
                method = getattr(self._hold, do)
                return answer_fields(self._result(method(**message)))
            case "count":
                policy = message.pop("policy")
                attributes = message.pop("attributes", None)
                return answer_fields(
                    self._result(self._client.count(policy, attributes, **message))
                )
            case "check" | "peek" | "wait" as do:
                if do == "wait":
                    message["timeout"] = message.pop("timeout_ms") / 1000
                # The client has no checks with limits of their own.
                for name in ("quotas", "on_store_failure"):
                    message.pop(name, None)
                method = getattr(self._client, do)
                return decision_fields(self._result(method(*_named(message), **message)))
            case do:
                raise ValueError(f"do: {do!r} is unknown")

    def _start(self, message: Message) -> Message:
        if self._client is not None:
            self._result(self._client.close())
            self._client = None
        logger = logging.Logger("tollgate_client")
        self._lines = Lines()
        logger.addHandler(self._lines)
        closed = message.pop("closed", [])
        if "timeout_ms" in message:
            message["timeout"] = message.pop("timeout_ms") / 1000
        names: dict[str, OnFailure] = dict.fromkeys(closed, "closed")
        self._client = self._kind(logger=logger, names=names, **message)
        return {}

    def _parallel(self, calls: list[Message]) -> list[Message]:
        if self._loop is None:
            with ThreadPoolExecutor(max_workers=len(calls)) as threads:
                return list(threads.map(self.answer, calls))
        return self._loop.run_until_complete(self._gather(calls))

    async def _gather(self, calls: list[Message]) -> list[Message]:
        async def one(message: Message) -> Message:
            do = message.pop("do")
            read: Callable[[Any], Message] = answer_fields if do == "count" else decision_fields
            first = (message.pop("policy"),) if do == "count" else (message.pop("name"),)
            attributes = message.pop("attributes", None)
            try:
                return read(await getattr(self._client, do)(*first, attributes, **message))
            except (TypeError, ValueError) as error:
                return {"error": str(error)}

        return list(await asyncio.gather(*map(one, calls)))

    def _scope(self, message: Message) -> Message:
        seconds = message.pop("sleep_ms", 0) / 1000
        cost, fails = message.pop("settle", None), message.pop("fail", False)
        scope = self._client.hold(*_named(message), **message)
        if self._loop is not None:
            return self._loop.run_until_complete(_async_scope(scope, seconds, cost, fails))
        with contextlib.suppress(Failed), scope as hold:
            time.sleep(seconds)
            if cost is not None:
                hold.settle(cost)
            if fails:
                raise Failed
        return {**decision_fields(hold.decision), "lost": hold.lost}

    def _result(self, value: Any) -> Any:
        if inspect.isawaitable(value):
            assert self._loop is not None
            return self._loop.run_until_complete(value)
        return value


async def _async_scope(scope: Any, seconds: float, cost: int | None, fails: bool) -> Message:
    with contextlib.suppress(Failed):
        async with scope as hold:
            await asyncio.sleep(seconds)
            if cost is not None:
                await hold.settle(cost)
            if fails:
                raise Failed
    return {**decision_fields(hold.decision), "lost": hold.lost}


def _named(message: Message) -> tuple[Any, Any]:
    if "expires_after_ms" in message:
        message["expires_after"] = message.pop("expires_after_ms") / 1000
    return message.pop("name"), message.pop("attributes", None)


def decision_fields(decision: Decision) -> Message:
    return dict(_written(decision))


def answer_fields(answer: Any) -> Message:
    answered = dict(_written(answer))
    if isinstance(answer, Count):
        window = {
            edge: answered.pop(f"window_{edge}_ms")
            for edge in ("start", "end")
            if f"window_{edge}_ms" in answered
        }
        if window:
            answered["window"] = window
    return answered


def _written(answer: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(answer):
        value = getattr(answer, field.name)
        if value is None:
            continue
        if field.name in _TIMES:
            yield f"{field.name}_ms", round(value * 1000)
        else:
            yield field.name, value


def main() -> None:
    driver = Driver(AsyncTollgate if "--asyncio" in sys.argv[1:] else Tollgate)
    for line in sys.stdin:
        print(json.dumps(driver.answer(json.loads(line))), flush=True)
    driver.close()


if __name__ == "__main__":
    main()
