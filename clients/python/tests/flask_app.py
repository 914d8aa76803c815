"""An app of Flask with limits, which the tests run in several processes."""

from __future__ import annotations

import os

from flask import Flask, request

from tollgate_client.flask import FlaskTollgate

app = Flask(__name__)
app.config.update(
    TOLLGATE_TIMEOUT=float(os.environ.get("APP_TIMEOUT", "0.25")),
    TOLLGATE_NAMES={"login": "closed"},
)
tollgate = FlaskTollgate(app, by=lambda: {"user": request.headers["X-User"]}, headers=True)


@app.get("/search")
@tollgate.limit("search")
def search() -> str:
    return "found"


@app.post("/login")
@tollgate.limit("login")
def login() -> str:
    return "hello"


@app.get("/failures")
def failures() -> dict[str, int]:
    return tollgate.failures
