"""An app with Flask-Limiter, which the tests run in several processes."""

from __future__ import annotations

import os

from flask import Flask, request
from flask_limiter import Limiter

# Registers the scheme.
import tollgate_client.limits  # noqa: F401

app = Flask(__name__)
limiter = Limiter(
    lambda: request.headers["X-User"],
    app=app,
    storage_uri=os.environ["APP_STORAGE"],
    storage_options={
        "timeout": float(os.environ.get("APP_TIMEOUT", "0.25")),
        "on_failure": "open",
    },
    strategy=os.environ.get("APP_STRATEGY", "fixed-window"),
)


@app.get("/search")
@limiter.limit("20/hour")
def search() -> str:
    return "found"


@app.get("/failures")
def failures() -> dict[str, int]:
    return limiter.storage._client.failures  # type: ignore[attr-defined, no-any-return]
