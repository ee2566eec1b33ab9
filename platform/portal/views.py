"""The frontend's page, the API's description, and health checks."""

from __future__ import annotations

from functools import cache

from django.conf import settings
from django.db.utils import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe

from jobs.reading.heartbeats import loop_health
from portal.openapi import openapi_document
from portal.page_addresses import has_page, looks_like_a_file
from primitives.clock import SystemClock
from webapi.problems import not_found


@require_safe
@ensure_csrf_cookie
def frontend(request: HttpRequest, path: str) -> HttpResponse:
    """Return the page with which every address of the frontend starts.

    The status is 404 where the frontend has no such page; the page then shows that itself. A path
    that looks like a file gets a plain 404, because a program asked for it.
    """
    if looks_like_a_file(path):
        return not_found(request)
    is_page = has_page(path, settings.FRONTEND_DIST / "routes.json")
    page = settings.FRONTEND_DIST / "index.html"
    if not page.is_file():
        return HttpResponse(
            "The frontend is not built; run `make frontend`.", status=503, content_type="text/plain"
        )
    response = HttpResponse(
        page.read_bytes(),
        content_type="text/html; charset=utf-8",
        status=404 if is_page is False else 200,
    )
    response["Cache-Control"] = "no-cache"
    return response


@cache
def _document() -> dict[str, object]:
    return openapi_document()


@require_safe
def openapi(request: HttpRequest) -> JsonResponse:
    """Return the OpenAPI document. It is public, as it reveals nothing about any user."""
    return JsonResponse(_document())


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Return that the process answers."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Return whether the process reaches the database, and which loops are late.

    A late loop leaves the status at 200: pages are still served, and show the delay themselves.
    """
    try:
        health = loop_health(SystemClock().now())
    except DatabaseError:
        return JsonResponse({"status": "waiting", "database": "unreachable"}, status=503)
    late = {
        role: f"no work since {loop.worked_at:%Y-%m-%dT%H:%M:%SZ}"
        if loop.worked_at
        else "no work yet"
        for role, loop in health.items()
        if loop.is_late
    }
    return JsonResponse({"status": "degraded" if late else "ok", **late})
