"""Every route of the product."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("tenants.api.urls")),
]

handler404 = "webapi.problems.not_found"
handler500 = "webapi.problems.server_error"
