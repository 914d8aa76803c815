#!/usr/bin/env python3
"""Takes the pictures of the live page, `live-light.png` and `live-dark.png`.

    cargo build --release
    python3 docs/pictures/live.py target/release/tollgate

They show a real service with a real Redis after ten minutes of requests, so the script takes that long. Many users search
and buy. In the fifth minute, the file changes, and in the seventh, one address tries passwords. Needs Linux, as root or
with namespaces of users (the service is called `web-1` in the pictures), redis-server and chromium-headless-shell.
"""

import contextlib
import http.client
import itertools
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
PUBLIC, ADMIN, REDIS = 18080, 18090, 16379
SECONDS = 620
POLICIES = """\
policies:
  - { name: search, match: { path: /search }, key: [user], quotas: [SEARCH], candidate: [40/1m] }
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m~log], on_store_failure: closed }
  - { name: checkout, match: { path: /checkout }, key: [user], quotas: [10/1m~burst:20] }
  - { name: images, match: { path: /images }, key: { first_of: [user, ip] }, quotas: [300/1m~sliding] }
  - { name: reports, match: { path: /reports }, key: [tenant], quotas: [9000/1d] }
  - { name: graphql, match: { path: /graphql }, key: [tenant], quotas: [200/1m], mode: shadow }
  - { name: everyone, key: global, quotas: [30000/1m] }
"""


def requests_of(second):
    """What is asked in a second, as attributes."""
    wave = 1 + 0.2 * math.sin(second / 70) + random.gauss(0, 0.05)
    for _ in range(int(60 * wave)):
        number = random.randrange(120)
        path = random.choices(["/search", "/images", "/checkout", "/graphql", "/reports"], [9, 9, 2, 5, 0.4])[0]
        yield {"user": f"user-{number}", "tenant": f"tenant-{number % 4}", "path": path}
    # One client that searches as fast as the limit lets it, and people who log in.
    yield from [{"user": "user-7", "path": "/search"}] * random.randrange(1, 4)
    yield from [{"ip": f"192.0.2.{random.randrange(200)}", "path": "/login"}] * random.randrange(2)
    if 375 <= second < 435:
        yield from [{"ip": "198.51.100.7", "path": "/login"}] * random.randrange(40, 60)


def ask(connection, attributes):
    body = json.dumps({"attributes": attributes})
    connection.request("POST", "/v1/check", body, {"Content-Type": "application/json"})
    connection.getresponse().read()


def load(policies):
    """Asks until the script ends."""
    connection = http.client.HTTPConnection("127.0.0.1", PUBLIC)
    begin = time.monotonic()
    # The end of the service ends the connection.
    with contextlib.suppress(OSError, http.client.HTTPException):
        for second in itertools.count():
            if second == 270:
                policies.write_text(POLICIES.replace("SEARCH", "60/1m"))
            for attributes in requests_of(second):
                ask(connection, attributes)
            time.sleep(max(0, begin + second + 1 - time.monotonic()))


def wait(port, path):
    for _ in range(200):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"nothing answers on port {port}")


def shoot():
    """Takes the pictures: the page asks once and draws."""
    for scheme, theme in enumerate(["dark", "light"]):
        command = ["chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", "--window-size=1120,740"]
        command += [f"--blink-settings=preferredColorScheme={scheme},primaryHoverType=2", "--virtual-time-budget=2500"]
        command += [f"--screenshot={HERE / f'live-{theme}.png'}", f"http://127.0.0.1:{ADMIN}/"]
        subprocess.run(command, check=True, capture_output=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        policies = Path(folder) / "tollgate.yaml"
        policies.write_text(POLICIES.replace("SEARCH", "100/1m"))
        redis = ["redis-server", "--port", str(REDIS), "--save", "", "--appendonly", "no", "--dir", folder]
        serve = [Path(sys.argv[1]).resolve(), "serve", "--config", policies, "--store", f"redis://127.0.0.1:{REDIS}"]
        serve += ["--listen", f"127.0.0.1:{PUBLIC}", "--admin-listen", f"127.0.0.1:{ADMIN}"]
        named = ["unshare", "--map-root-user", "--uts", "sh", "-c", 'hostname web-1 && exec "$@"', "sh"]
        with subprocess.Popen(redis, stdout=subprocess.DEVNULL) as store:
            try:
                with subprocess.Popen(named + serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
                    try:
                        wait(ADMIN, "/readyz")
                        threading.Thread(target=load, args=[policies], daemon=True).start()
                        time.sleep(SECONDS)
                        shoot()
                    finally:
                        service.terminate()
            finally:
                store.terminate()


if __name__ == "__main__":
    if not shutil.which("redis-server"):
        sys.exit("redis-server is missing")
    main()
