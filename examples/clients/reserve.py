"""python3 examples/clients/reserve.py http://127.0.0.1:8080 alice: reserves 1,000 tokens, streams, and settles 400.

The service runs with examples/tokens.yaml, or with any policies for the attributes `user`, `tenant` and `path`.
"""

import json
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request

# Seconds, for the service to answer.
TIMEOUT = 5


def call(server, path, body):
    """Returns the service's answer. A call about a hold may be repeated, so a lost reply is no problem."""
    request = urllib.request.Request(
        f"{server}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    for attempt in range(3):
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            answer = json.load(error)
            # A denial is a decision, whatever its status.
            if "allowed" in answer:
                return answer
            if error.code != 503 or attempt == 2:
                raise RuntimeError(answer["detail"]) from error
        except OSError:
            if attempt == 2:
                raise
        time.sleep(0.2 * 2**attempt)


class Hold:
    """A hold that is renewed until it is settled: `with Hold(...) as hold: ... hold.settle(cost)`."""

    def __init__(self, server, attributes, cost):
        self.server, self.lost, self._done = server, False, threading.Event()
        # The same id in each attempt, so that a lost reply charges nothing twice.
        asked = {"id": secrets.token_hex(16), "attributes": attributes, "cost": cost}
        self.answer = call(server, "/v1/reserve", asked)
        self.is_allowed = self.answer["allowed"]
        self._sealed = self.answer.get("hold")
        self._thread = threading.Thread(target=self._renew, daemon=True)
        if self._sealed:
            self._thread.start()

    def _renew(self):
        """Renews at a third of the length."""
        while not self._done.wait(self.answer["expires_after_ms"] / 3000):
            try:
                renewed = call(self.server, "/v1/renew", {"hold": self._sealed})
            except (OSError, RuntimeError):
                # The next attempt may be in time. If none is, the hold expires, and says so then.
                continue
            if renewed["status"] != "renewed":
                # `gone` is counted nowhere, so nobody else takes its place.
                self.lost = renewed["status"] != "gone"
                return

    def settle(self, cost):
        """Ends the hold at its actual cost."""
        self._done.set()
        sealed, self._sealed = self._sealed, None
        return call(self.server, "/v1/settle", {"hold": sealed, "cost": cost}) if sealed else None

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        # Work that failed costs nothing.
        self.settle(0)


def main():
    server, user = sys.argv[1:]
    attributes = {"user": user, "tenant": user, "path": "/v1/chat"}
    with Hold(server, attributes, 1000) as hold:
        if not hold.is_allowed:
            # In flight, a place may be free at once or never: ask again after a second.
            wait = hold.answer.get("retry_after_ms", 1000)
            sys.exit(f"denied ({hold.answer['reason']}): ask again in {wait} ms")
        print(f"reserved: {hold.answer.get('remaining', 'any number')} left", flush=True)
        # Here the answer streams. A long one checks `hold.lost` between its parts.
        settled = hold.settle(400)
    for quota in settled["quotas"] if settled else []:
        print(f"settled: {quota['given']} given back of {quota['quota']}")


if __name__ == "__main__":
    main()
