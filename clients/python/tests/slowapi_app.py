"""An app with slowapi, which the tests run in several processes."""

from __future__ import annotations

import os

from fastapi import FastAPI, Request
from slowapi import Limiter, _rate_limit_exceeded_handler
from slowapi.errors import RateLimitExceeded

# Registers the scheme.
import tollgate_client.limits  # noqa: F401

limiter = Limiter(
    lambda request: request.headers["x-user"],
    storage_uri=os.environ["APP_STORAGE"],
    storage_options={
        "timeout": float(os.environ.get("APP_TIMEOUT", "0.25")),
        "on_failure": "open",
    },
    strategy=os.environ.get("APP_STRATEGY", "fixed-window"),
)
app = FastAPI()
app.state.limiter = limiter
app.add_exception_handler(RateLimitExceeded, _rate_limit_exceeded_handler)  # type: ignore[arg-type]


@app.get("/search")
@limiter.limit("20/hour")
def search(request: Request) -> dict[str, str]:
    return {"found": "it"}


@app.get("/failures")
def failures() -> dict[str, int]:
    return limiter._storage._client.failures  # type: ignore[union-attr, no-any-return]
