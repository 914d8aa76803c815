"""python3 examples/clients/check.py http://127.0.0.1:8080 alice: asks for a unit, and waits if it is denied."""

import json
import sys
import time
import urllib.error
import urllib.request

# Seconds, for the service to answer.
TIMEOUT = 5


def check(server, attributes, cost=1):
    """Returns the service's decision. Raises an error if there is none; you choose what that means."""
    body = json.dumps({"attributes": attributes, "cost": cost}).encode()
    request = urllib.request.Request(f"{server}/v1/check", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        answer = json.load(error)
        # A denial is a decision, whatever its status. Anything else is a problem.
        if "allowed" not in answer:
            raise RuntimeError(answer["detail"]) from error
        return answer


def main():
    server, user = sys.argv[1:]
    while not (answer := check(server, {"user": user}))["allowed"]:
        if "retry_after_ms" not in answer:
            sys.exit(f"denied for good: {answer['detail']}")
        print(f"denied: waiting {answer['retry_after_ms']} ms", flush=True)
        time.sleep(answer["retry_after_ms"] / 1000)
    print(f"allowed: {answer.get('remaining', 'any number')} left")


if __name__ == "__main__":
    main()
