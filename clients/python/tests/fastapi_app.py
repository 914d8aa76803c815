"""An app of FastAPI with limits, which the tests run in several processes."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Depends, FastAPI, HTTPException, Request

from tollgate_client import AsyncTollgate
from tollgate_client.fastapi import install, rate_limit

tollgate = AsyncTollgate(
    timeout=float(os.environ.get("APP_TIMEOUT", "0.25")), names={"login": "closed"}
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with tollgate:
        yield


app = FastAPI(lifespan=lifespan)
install(app, tollgate, headers=True)


def user(request: Request) -> dict[str, str]:
    name = request.headers.get("x-user")
    if name is None:
        raise HTTPException(401)
    return {"user": name}


@app.get("/search", dependencies=[Depends(rate_limit("search", by=user))])
async def search() -> dict[str, str]:
    return {"found": "it"}


@app.post("/login", dependencies=[Depends(rate_limit("login", by=user))])
def login() -> dict[str, str]:
    return {"hello": "you"}


@app.get("/failures")
async def failures() -> dict[str, int]:
    return tollgate.failures
