"""The app of `cargo xtask prove clients` on Flask; xtask/src/prove_clients/apps.rs says what it answers."""

import os

import tollgate_client.limits  # noqa: F401, registers the storage
from bare import BareClient
from flask import Flask, request
from flask_limiter import Limiter
from tollgate_client import Tollgate
from tollgate_client.flask import FlaskTollgate

app = Flask(__name__)
timeout = float(os.environ["TIMEOUT"])
client = Tollgate(timeout=timeout)
bare_client = BareClient(os.environ["TOLLGATE_URL"])


def user_of() -> str:
    return request.headers["X-User"]


tollgate = FlaskTollgate(app, client, headers=True)
limiter = Limiter(user_of, app=app, storage_uri=os.environ["REDIS_URL"])
adapter = Limiter(
    user_of, app=app, storage_uri="tollgate://", storage_options={"timeout": timeout}
)


@app.get("/free")
def free() -> dict[str, bool]:
    return {"ok": True}


@app.get("/limited")
@tollgate.limit("search", by=lambda: {"user": user_of()})
def limited() -> dict[str, bool]:
    return {"ok": True}


@app.get("/bare")
def bare() -> dict[str, bool]:
    bare_client.check(user_of())
    return {"ok": True}


@app.get("/usual")
@limiter.limit("1000000000/hour")
def usual() -> dict[str, bool]:
    return {"ok": True}


@app.get("/adapter")
@adapter.limit(f"{os.environ['LIMIT']}/hour")
def adapted() -> dict[str, bool]:
    return {"ok": True}


@app.get("/failures")
def failures() -> dict[str, int]:
    return {str(kind): count for kind, count in client.failures.items()}
