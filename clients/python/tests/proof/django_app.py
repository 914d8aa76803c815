"""The app of `cargo xtask prove clients` on Django; xtask/src/prove_clients/apps.rs says what it answers."""

import os

import django
from bare import BareClient
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, JsonResponse
from django.urls import path

settings.configure(
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a test",
    TOLLGATE_HEADERS=True,
    TOLLGATE_TIMEOUT=float(os.environ["TIMEOUT"]),
    CACHES={
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": os.environ["REDIS_URL"],
        }
    },
)
django.setup()

# Both read the settings.
from django_ratelimit.decorators import ratelimit  # noqa: E402
from tollgate_client import django as tollgate  # noqa: E402

bare_client = BareClient(os.environ["TOLLGATE_URL"])


def user_of(request: HttpRequest) -> str:
    return request.headers["x-user"]


def free(_: HttpRequest) -> JsonResponse:
    return JsonResponse({"ok": True})


@tollgate.rate_limit("search", by=lambda request: {"user": user_of(request)})
def limited(_: HttpRequest) -> JsonResponse:
    return JsonResponse({"ok": True})


def bare(request: HttpRequest) -> JsonResponse:
    bare_client.check(user_of(request))
    return JsonResponse({"ok": True})


@ratelimit(key="header:x-user", rate="1000000000/h")
def usual(_: HttpRequest) -> JsonResponse:
    return JsonResponse({"ok": True})


def failures(_: HttpRequest) -> JsonResponse:
    counts = tollgate._client().failures
    return JsonResponse({str(kind): count for kind, count in counts.items()})


urlpatterns = [
    path("free", free),
    path("limited", limited),
    path("bare", bare),
    path("usual", usual),
    path("failures", failures),
]

app = WSGIHandler()
