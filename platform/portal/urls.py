"""Every route of the product."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []

handler404 = "webapi.problems.not_found"
handler500 = "webapi.problems.server_error"
