"""Routes under /api/v1/ for maintenance windows."""

from __future__ import annotations

from django.urls import URLPattern, path

from maintenance.api.views import MaintenanceCancel, MaintenanceDetail

urlpatterns: list[URLPattern] = [
    path("maintenance-windows/<uuid:maintenance_id>", MaintenanceDetail.as_view()),
    path("maintenance-windows/<uuid:maintenance_id>/cancel", MaintenanceCancel.as_view()),
]
