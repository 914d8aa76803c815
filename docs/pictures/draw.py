#!/usr/bin/env python3
"""Draws the pictures of the README and the manual.

    cargo build --release
    python3 docs/pictures/draw.py target/release/tollgate

The terminal and the report show what the given binary really answers, and the kinds of quotas show what the example
`kinds` prints. Every picture is for light and dark pages. The report is opened in chromium-headless-shell.
"""

import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
SANS = "-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
THEMES = {
    "light": dict(text="#1f2328", faint="#59636e", line="#8c959f", box="#f6f8fa", edge="#d1d9e0",
                  mark="#0969da", fill="#ddf4ff", good="#1a7f37", bad="#cf222e", back="#ffffff"),
    "dark": dict(text="#f0f6fc", faint="#9198a1", line="#6e7681", box="#151b23", edge="#3d444d",
                 mark="#4493f8", fill="#0c2d52", good="#3fb950", bad="#f85149", back="#0d1117"),
}


class Picture:
    """Shapes on a transparent ground."""

    def __init__(self, width, height, title, theme, font=SANS):
        self.theme = theme
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="{font}" font-size="14">',
            f"<title>{escape(title)}</title>",
        ]

    def box(self, x, y, width, height, fill="box", edge="edge"):
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" '
            f'fill="{self.theme[fill]}" stroke="{self.theme[edge]}"/>'
        )

    def text(self, x, y, words, color="text", size=14, anchor="middle", weight=400):
        self.parts.append(
            f'<text x="{x}" y="{y}" fill="{self.theme[color]}" font-size="{size}" text-anchor="{anchor}" '
            f'font-weight="{weight}" xml:space="preserve">{escape(words)}</text>'
        )

    def line(self, x1, y1, x2, y2, color="line", width=1.5, dash=""):
        self.parts.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{self.theme[color]}" '
            f'stroke-width="{width}" stroke-dasharray="{dash}"/>'
        )

    def arrow(self, x1, y1, x2, y2, color="line"):
        """A horizontal or vertical arrow."""
        self.line(x1, y1, x2, y2, color)
        dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
        back = f"{x2 - 8 * dx - 4 * dy},{y2 - 8 * dy - 4 * dx} {x2 - 8 * dx + 4 * dy},{y2 - 8 * dy + 4 * dx}"
        self.parts.append(f'<polygon points="{x2},{y2} {back}" fill="{self.theme[color]}"/>')

    def __str__(self):
        return "\n".join([*self.parts, "</svg>\n"])


def architecture(theme):
    """Four ways in, one engine, two stores."""
    title = "Proxies, the HTTP service, the middleware and the library share one engine and two stores"
    picture = Picture(800, 322, title, theme)
    ways = [
        ("Behind a proxy", "Envoy, nginx, Caddy, ..."),
        ("HTTP service", "any language"),
        ("Middleware", "axum, hyper, tonic"),
        ("Library", "your own code"),
    ]
    for row, (name, for_whom) in enumerate(ways):
        y = 19 + 74 * row
        picture.box(10, y, 190, 62)
        picture.text(105, y + 27, name, weight=600)
        picture.text(105, y + 47, for_whom, "faint", 13)
        picture.line(200, y + 31, 236, y + 31)
    picture.line(236, 50, 236, 272)
    picture.arrow(236, 161, 268, 161)
    picture.box(268, 19, 266, 284, "fill", "mark")
    picture.text(401, 57, "May this key do this now?", weight=600)
    steps = ["1  Which policies match?", "2  Which counters, at which cost?", "3  One step: count and decide"]
    for row, step in enumerate(steps):
        picture.text(284, 104 + 40 * row, step, "text", 13, "start")
    picture.line(284, 212, 518, 212, "mark", 1, "4 4")
    picture.text(284, 246, "allowed", "good", 13, "start", 600)
    picture.text(348, 246, "with the remaining units", "faint", 13, "start")
    picture.text(284, 274, "denied", "bad", 13, "start", 600)
    picture.text(348, 274, "with the time to wait", "faint", 13, "start")
    picture.line(534, 161, 562, 161)
    picture.line(562, 106, 562, 216)
    stores = [("Memory", "33 bytes a key"), ("Redis or Valkey", "Sentinel, Cluster, TLS")]
    for row, (name, what) in enumerate(stores):
        y = 75 + 110 * row
        picture.arrow(562, y + 31, 590, y + 31)
        picture.box(590, y, 200, 62)
        picture.text(690, y + 27, name, weight=600)
        picture.text(690, y + 47, what, "faint", 13)
    return picture


def burst(theme):
    """Five at the end of one minute and five at the start of the next."""
    picture = Picture(800, 190, "A fixed window of five a minute admits ten requests around a boundary", theme)
    for x, name in [(60, "12:00"), (400, "12:01"), (740, "12:02")]:
        picture.line(x, 74, x, 130, "line", 1, "4 4")
        picture.text(x, 152, name, "faint", 13)
    picture.text(230, 28, "window 1: 5 of 5 used", "faint", 13)
    picture.text(570, 28, "window 2: 5 of 5 used", "faint", 13)
    for first in (330, 412):
        for number in range(5):
            x = first + 13 * number
            picture.parts.append(
                f'<rect x="{x}" y="86" width="8" height="42" rx="2" fill="{theme["mark"]}"/>'
            )
    picture.arrow(40, 130, 770, 130)
    picture.line(324, 66, 476, 66, "bad", 2)
    picture.line(324, 60, 324, 72, "bad", 2)
    picture.line(476, 60, 476, 72, "bad", 2)
    picture.text(400, 56, "10 admitted within seconds", "bad", 13, weight=600)
    picture.text(400, 180, "Limit: 5 a minute. Never more than twice the limit within one window's length.", "faint", 13)
    return picture


def verdicts():
    """What the example answers to its requests, one a second: `+` or `-`, by quota."""
    command = ["cargo", "run", "--quiet", "--package", "tollgate", "--example", "kinds"]
    printed = subprocess.run(command, cwd=HERE / "../..", check=True, capture_output=True, text=True).stdout
    return dict(re.findall(r"^(\d\S+) +([+-]+) ", printed, re.MULTILINE))


# What each kind of the example does, in a few words.
KINDS = {
    "10/1m": "starts over each minute",
    "10/1m~sliding": "estimates the last minute",
    "10/1m~burst": "one back every 6 seconds",
    "10/1m~burst:3": "the same, three at once",
    "10/1m~log": "counts the last minute",
}


def kinds(theme, verdicts):
    """One request a second under each kind of quota."""
    row, second, left, top = 48, 5, 190, 54
    bottom = top + row * len(verdicts)
    picture = Picture(800, bottom + 56, "The same requests under each kind of quota: which are admitted", theme)
    right = left + second * len(next(iter(verdicts.values())))
    # The example begins twelve seconds before a minute.
    for number, name in enumerate(["12:01", "12:02"]):
        x = left + second * (12 + 60 * number)
        picture.line(x, top - 12, x, bottom, "line", 1, "4 4")
        picture.text(x, bottom + 20, name, "faint", 13)
    picture.text(right + 60, 22, "most in any", "faint", 13)
    picture.text(right + 60, 39, "60 seconds", "faint", 13)
    picture.text(left, 30, "one request a second", "faint", 13, "start")
    for number, (quota, answers) in enumerate(verdicts.items()):
        y = top + row * number
        picture.text(16, y + 17, quota, "text", 14, "start", 600)
        picture.text(16, y + 35, KINDS[quota], "faint", 12, "start")
        picture.parts.append(f'<g data-quota="{quota}" data-verdicts="{answers}">')
        for verdict, height, color in [("+", 28, "mark"), ("-", 6, "line")]:
            places = [left + second * at for at, answer in enumerate(answers) if answer == verdict]
            bars = "".join(f"M{x} {y + 34}v-{height}h3v{height}z" for x in places)
            picture.parts.append(f'<path d="{bars}" fill="{theme[color]}"/>')
        picture.parts.append("</g>")
        most = max(answers[start:start + 60].count("+") for start in range(len(answers) - 59))
        picture.text(right + 60, y + 28, str(most), "bad" if most > 19 else "good" if most < 11 else "text", 18, weight=600)
    for x, height, color, meaning in [(left, 12, "mark", "admitted"), (left + 90, 5, "line", "denied")]:
        picture.parts.append(
            f'<rect x="{x}" y="{bottom + 50 - height}" width="3" height="{height}" rx="1" fill="{theme[color]}"/>'
        )
        picture.text(x + 10, bottom + 50, meaning, "faint", 13, "start")
    return picture


def request(theme):
    """The stages of a request, each with its place, and the crate that they belong to."""
    picture = Picture(1000, 218, "How a request flows, from bytes to reply", theme)
    stages = [
        [("protocol", "bytes", "http/connection.rs"), ("operation", "a row of a table", "http/operations.rs"),
         ("attributes", "what callers send", "attributes.rs")],
        [("policies", "which match", "index/"), ("charges", "counter and cost", "matched.rs")],
        [("store", "one atomic step", "store/"), ("decision", "a pure function", "decision.rs")],
        [("reply", "status and body", "http/reply.rs")],
    ]
    crates = ["tollgate-server", "tollgate-policy", "tollgate", "tollgate-server"]
    x = 10
    for group, crate in zip(stages, crates):
        width = 124 * len(group) - 10
        picture.line(x, 40, x + width, 40, "mark", 2)
        picture.text(x + width / 2, 28, crate, "mark", 13, weight=600)
        for name, what, place in group:
            picture.box(x, 58, 114, 92, "fill" if name == "store" else "box", "mark" if name == "store" else "edge")
            picture.text(x + 57, 84, name, weight=600)
            picture.text(x + 57, 108, what, "faint", 11)
            picture.text(x + 57, 134, place, "faint", 10)
            if x > 10:
                picture.arrow(x - 10, 104, x, 104)
            x += 124
    picture.text(500, 184, "The library begins at the charges and ends at the decision. Only the store reads the time.", "faint", 13)
    picture.text(500, 206, "The middleware starts at the policies or the charges, and sends the reply itself.", "faint", 13)
    return picture


def ask(path):
    """What the service answers: status, headers that say the limit, and the body."""
    try:
        reply = urllib.request.urlopen(f"http://127.0.0.1:18080{path}", timeout=5)
    except urllib.error.HTTPError as error:
        reply = error
    return reply.status, reply.reason, reply.headers, reply.read().decode()


def session(binary):
    """Three requests in one minute under a limit of two, as lines with the color of each."""
    if time.time() % 60 > 45:
        time.sleep(60 - time.time() % 60)
    listen = ["--listen", "127.0.0.1:18080", "--admin-listen", "127.0.0.1:18090"]
    service = subprocess.Popen(
        [binary, "serve", "--limit", "2/1m", *listen],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        banner = service.stdout.readline().rstrip()
        if not banner:
            sys.exit(f"{binary} did not start: is something else on port 18080 or 18090?")
        lines = [("$ cargo run --release -- serve --limit 2/1m &", "text"), (banner, "faint")]
        for _ in range(100):
            try:
                if ask("/readyz")[0] == 200:
                    break
            except OSError:
                time.sleep(0.05)
        for _ in range(3):
            status, reason, headers, body = ask("/v1/check?user=alice")
            lines.append(("", "text"))
            lines.append(("$ curl -i 'http://127.0.0.1:8080/v1/check?user=alice'", "text"))
            lines.append((f"HTTP/1.1 {status} {reason}", "good" if status == 200 else "bad"))
            for name in ("retry-after", "ratelimit"):
                if headers[name]:
                    lines.append((f"{name}: {headers[name]}", "faint"))
            shown = re.findall(r'"(?:allowed|used|remaining|retry_after_ms)":[^,}]+', body.split('"quotas"')[0])
            lines.append(("{" + ", ".join(shown) + ", ...}", "faint"))
        return lines
    finally:
        service.terminate()
        service.wait()


def terminal(theme, lines):
    height = 20 + 20 * len(lines) + 36
    picture = Picture(800, height, "Two requests are allowed, the third is denied", theme, MONO)
    picture.box(1, 1, 798, height - 2)
    for number, color in enumerate(["bad", "line", "good"]):
        picture.parts.append(f'<circle cx="{22 + 18 * number}" cy="20" r="5" fill="{theme[color]}"/>')
    for number, (words, color) in enumerate(lines):
        picture.text(20, 54 + 20 * number, words, color, 13, "start")
    return picture


def report(binary):
    """The page of the example in examples/simulate, as a browser shows its top."""
    root = HERE / "../.."
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        files = ["examples/simulate/policies.yaml", "examples/simulate/access.log"]
        command = [Path(binary).resolve(), "simulate", *files, "--report", page]
        subprocess.run(command, cwd=root, check=True, capture_output=True)
        for scheme, theme in enumerate(["dark", "light"]):
            command = ["chromium-headless-shell", "--no-sandbox", "--hide-scrollbars", "--window-size=1120,690"]
            command += [f"--blink-settings=preferredColorScheme={scheme}"]
            command += [f"--screenshot={HERE / f'report-{theme}.png'}", page.as_uri()]
            subprocess.run(command, check=True, capture_output=True)


def badge(label, value):
    """Two words on grounds of their own, so that it is the same on light and dark pages."""
    # As wide as a wide letter of the fonts, because no font is measured here.
    left, right = (round(7 * len(words) + 12) for words in (label, value))
    theme = {"text": "#ffffff", "left": "#444c56", "right": "#0969da"}
    picture = Picture(left + right, 20, f"{label}: {value}", theme)
    for x, width, fill, words in [(0, left, "left", label), (left, right, "right", value)]:
        picture.parts.append(f'<rect x="{x}" width="{width}" height="20" fill="{theme[fill]}"/>')
        picture.text(x + width / 2, 14, words, "text", 11)
    return picture


def badges():
    """What Cargo.toml says of the whole workspace."""
    manifest = (HERE / "../../Cargo.toml").read_text()
    field = lambda name: re.search(rf'^{name} = "(.*)"$', manifest, re.MULTILINE)[1]
    named = {f"license-{name.lower()}": ("license", name) for name in field("license").split(" OR ")}
    named["rust"] = ("rust", field("rust-version") + "+")
    return {f"badge-{name}": badge(*words) for name, words in named.items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for what, picture in badges().items():
        (HERE / f"{what}.svg").write_text(str(picture))
    report(sys.argv[1])
    lines = session(sys.argv[1])
    answers = verdicts()
    for name, theme in THEMES.items():
        pictures = {
            "architecture": architecture(theme),
            "burst": burst(theme),
            "kinds": kinds(theme, answers),
            "request": request(theme),
            "terminal": terminal(theme, lines),
        }
        for what, picture in pictures.items():
            (HERE / f"{what}-{name}.svg").write_text(str(picture))


if __name__ == "__main__":
    main()
