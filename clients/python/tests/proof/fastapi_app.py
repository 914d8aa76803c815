"""The app of `cargo xtask prove clients` on FastAPI; xtask/src/prove_clients/apps.rs says what it answers."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import tollgate_client.limits  # noqa: F401, registers the storage
from bare import AsyncBareClient
from fastapi import Depends, FastAPI, Request, Response
from slowapi import Limiter
from slowapi.errors import RateLimitExceeded
from tollgate_client import AsyncTollgate
from tollgate_client.fastapi import install, rate_limit

timeout = float(os.environ["TIMEOUT"])
tollgate = AsyncTollgate(timeout=timeout)
bare_client = AsyncBareClient(os.environ["TOLLGATE_URL"])


def user_of(request: Request) -> str:
    return request.headers["x-user"]


def attributes(request: Request) -> dict[str, str]:
    return {"user": user_of(request)}


async def bare_check(key: Annotated[dict[str, str], Depends(attributes)]) -> None:
    """A plain request in the place where `rate_limit` makes its own."""
    await bare_client.check(key["user"])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with tollgate:
        yield


app = FastAPI(lifespan=lifespan)
install(app, tollgate, headers=True)
app.state.limiter = slow = Limiter(key_func=user_of, storage_uri=os.environ["REDIS_URL"])
adapter = Limiter(
    key_func=user_of, storage_uri="tollgate://", storage_options={"timeout": timeout}
)


@app.exception_handler(RateLimitExceeded)
async def denied(_: Request, __: RateLimitExceeded) -> Response:
    return Response(status_code=429)


@app.get("/free")
async def free() -> dict[str, bool]:
    return {"ok": True}


@app.get("/limited", dependencies=[Depends(rate_limit("search", by=attributes))])
async def limited() -> dict[str, bool]:
    return {"ok": True}


@app.get("/bare", dependencies=[Depends(bare_check)])
async def bare() -> dict[str, bool]:
    return {"ok": True}


@app.get("/usual")
@slow.limit("1000000000/hour")
async def usual(request: Request) -> dict[str, bool]:
    return {"ok": True}


@app.get("/adapter")
@adapter.limit(f"{os.environ['LIMIT']}/hour")
async def adapted(request: Request) -> dict[str, bool]:
    return {"ok": True}


@app.get("/failures")
async def failures() -> dict[str, int]:
    return {str(kind): count for kind, count in tollgate.failures.items()}
