"""An app of Django in one file, for its tests and for gunicorn."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path, re_path
from django.utils.decorators import method_decorator
from django.views import View

if not settings.configured:
    settings.configure(
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=os.environ.get(
            "APP_MIDDLEWARE", "tollgate_client.django.TollgateMiddleware"
        ).split(),
        TOLLGATE_TIMEOUT=float(os.environ.get("APP_TIMEOUT", "20")),
        TOLLGATE_NAMES={"login": "closed"},
    )
    django.setup()

import tollgate_client.django
from tollgate_client.django import rate_limit


def user(request: HttpRequest) -> str:
    return request.headers["X-User"]


async def user_async(request: HttpRequest) -> dict[str, str]:
    await asyncio.sleep(0)
    return {"key": request.headers["X-User"]}


@rate_limit("search", by=user)
def search(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"admitted {request.tollgate.remaining}")  # type: ignore[attr-defined]


@rate_limit("search", by=user_async, cost=2)
async def search_async(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"admitted {request.tollgate.remaining}")  # type: ignore[attr-defined]


@method_decorator(rate_limit("search", by=user), name="dispatch")
class Search(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("admitted")


class AsyncSearch(View):
    @method_decorator(rate_limit("search", by=user_async))
    async def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("admitted")


@method_decorator(rate_limit("search", by=user), name="dispatch")
class BlockingSearch(View):
    async def get(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse("admitted")


def shown(request: HttpRequest, **_: Any) -> HttpResponse:
    return HttpResponse("shown")


def failures(request: HttpRequest) -> HttpResponse:
    clients = (tollgate_client.django._client(), tollgate_client.django._async_client())
    return JsonResponse({kind: count for each in clients for kind, count in each.failures.items()})


urlpatterns = [
    path("login", rate_limit("login", by=user)(shown)),
    path("failures", failures),
    path("search", search),
    path("async", search_async),
    path("class", Search.as_view()),
    path("async-class", AsyncSearch.as_view()),
    path("blocking-class", BlockingSearch.as_view()),
    path("ip", rate_limit("ip")(shown)),
    path("users/<int:pk>/", shown),
    re_path(r"^items/(?P<item>[a-z]+)$", shown),
    path("", shown),
]

wsgi = get_wsgi_application()
asgi = get_asgi_application()
