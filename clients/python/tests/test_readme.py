"""The recipe of the README, as a newcomer plays it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from apps import App, uvicorn
from servers import Service

_README = Path(__file__).parents[1] / "README.md"
_TESTING = Path(__file__).parents[3] / "docs/test-your-app.md"


def test_the_first_429_comes_as_the_readme_says(
    service: Callable[..., Service], apps: Callable[[Callable[[], App]], App], tmp_path: Path
) -> None:
    section = _README.read_text().partition("## Your first 429")[2].partition("\n## ")[0]
    flags = re.search(r"tollgate serve (.*)", section)
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    shown = re.search(r"```text\n(.*?)\n\n(.*?)\n```", section, re.DOTALL)
    assert flags is not None
    assert program is not None
    assert shown is not None
    assert len(program[1].splitlines()) <= 13
    (tmp_path / "app.py").write_text(program[1])

    running = service(*flags[1].split())
    environment = {"TOLLGATE_URL": running.url, "PYTHONPATH": str(tmp_path)}
    app = apps(lambda: uvicorn("app:app", environment))
    answers = [app.ask("/search") for _ in range(6)]
    assert [answer.status for answer in answers] == [200] * 5 + [429]

    for line in shown[1].splitlines()[1:]:
        name, value = line.split(": ", 1)
        assert of_a_full_minute(answers[-1].headers[name]) == value
    assert of_a_full_minute(answers[-1].body.decode()) == shown[2]


@pytest.mark.parametrize(
    ("section", "server"),
    [("Flask", "flask"), ("Flask-Limiter and slowapi", "flask"), ("slowapi", "uvicorn")],
)
def test_each_program_of_a_framework_admits_five(
    service: Callable[..., Service],
    apps: Callable[[Callable[[], App]], App],
    tmp_path: Path,
    section: str,
    server: str,
) -> None:
    text = _README.read_text().replace("With slowapi:", "## slowapi\n")
    programs = re.findall(r"```python\n(.*?)```", text.partition(f"\n## {section}\n")[2], re.DOTALL)
    running = service("--limit", "5/1m@first_hit", "--key", "ip", "--caller-quotas")
    address = running.url.removeprefix("http://")
    (tmp_path / "app.py").write_text(programs[0].replace("127.0.0.1:8080", address))
    environment = {"TOLLGATE_URL": running.url, "PYTHONPATH": str(tmp_path)}
    flask = ["-m", "flask", "--app", "app", "run", "--port", "0"]
    app = apps(
        lambda: App(flask, environment) if server == "flask" else uvicorn("app:app", environment)
    )
    assert [app.ask("/search").status for _ in range(6)] == [200] * 5 + [429]


def of_a_full_minute(text: str) -> str:
    """Some seconds of the minute may have passed."""
    return re.sub(r"\b[1-5]?[0-9] s\b|(?<=[=])[1-5][0-9]$|^[1-5][0-9]$", as_sixty, text)


def as_sixty(found: re.Match[str]) -> str:
    return "60 s" if found[0].endswith(" s") else "60"


def test_the_tests_in_the_manual_pass(tmp_path: Path) -> None:
    section = _TESTING.read_text().partition("## Python")[2].partition("\n## ")[0]
    programs = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert len(programs) == 2
    for number, program in enumerate(programs):
        (tmp_path / f"test_app_{number}.py").write_text(program)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
