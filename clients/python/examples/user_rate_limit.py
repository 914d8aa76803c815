"""user-rate-limit, an API server on Valkey, with its limit in three lines.

    RATE_LIMIT_REQUESTS=3 tollgate serve --import valkey-env
    KEYCLOAK_SERVER_URL=http://localhost:8080 KEYCLOAK_REALM=myrealm uvicorn user_rate_limit:app

The service reads the server's variables and uses its counters in Valkey,
`rate_limit:{user}:{window}`, so both can run side by side. It needs PyJWT with `crypto`.
"""

import math
import os
from typing import Annotated

import jwt
from fastapi import Depends, FastAPI, Header, HTTPException
from fastapi.responses import JSONResponse
from starlette.requests import Request

from tollgate_client import AsyncTollgate, RateLimited
from tollgate_client.fastapi import install, rate_limit  # the first line

SERVER = os.environ.get("KEYCLOAK_SERVER_URL", "http://localhost:8080")
REALM = os.environ.get("KEYCLOAK_REALM", "master")
CLIENT = os.environ.get("KEYCLOAK_CLIENT_ID", "fastapi-client")
SECONDS = os.environ.get("RATE_LIMIT_WINDOW_SECONDS", "60")

keys = jwt.PyJWKClient(f"{SERVER}/realms/{REALM}/protocol/openid-connect/certs", timeout=5)
app = FastAPI()
install(app, AsyncTollgate())  # the second line


def user_of(authorization: Annotated[str | None, Header()] = None) -> str:
    """Verifies the token, and returns its subject."""
    if authorization is None:
        raise HTTPException(401, "Missing Authorization header")
    words = authorization.split()
    if len(words) != 2 or words[0].lower() != "bearer":
        raise HTTPException(401, "Invalid Authorization header format")
    try:
        key = keys.get_signing_key_from_jwt(words[1])
        claims = jwt.decode(words[1], key, algorithms=["RS256"], audience=[CLIENT, "account"])
    except jwt.PyJWTError as error:
        raise HTTPException(401, f"Invalid token or authentication failed: {error}") from error
    subject: str = claims.get("sub", "")
    if not subject:
        raise HTTPException(401, "Invalid token payload: missing sub claim")
    return subject


User = Annotated[str, Depends(user_of)]


def by_user(user: User) -> dict[str, str]:
    return {"user": user}


@app.get("/")
def root() -> dict[str, str]:
    return {"message": "Welcome to the API"}


@app.get("/api/data", dependencies=[Depends(rate_limit("data", by=by_user))])  # the third line
def data(user: User) -> dict[str, str]:
    return {"message": "Here is your rate-limited data!", "user_id": user}


@app.exception_handler(RateLimited)
def too_many(request: Request, error: RateLimited) -> JSONResponse:
    """The text of the original, and the time to wait, which it lacks."""
    limit = error.decision.limit
    text = f"Rate limit exceeded. Maximum {limit} requests per {SECONDS} seconds."
    headers = {"Cache-Control": "no-store", "Retry-After": str(math.ceil(error.retry_after or 0))}
    return JSONResponse({"detail": text}, 429, headers)
