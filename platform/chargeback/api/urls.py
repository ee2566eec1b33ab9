"""Routes under /api/v1/ for reports by groups."""

from __future__ import annotations

from django.urls import URLPattern, path

from chargeback.api.job_views import ChargebackJobs
from chargeback.api.views import ChargebackGroups, ChargebackIdle, ChargebackMoves

urlpatterns: list[URLPattern] = [
    path("reports/chargeback/groups", ChargebackGroups.as_view()),
    path("reports/chargeback/jobs", ChargebackJobs.as_view()),
    path("reports/chargeback/moves", ChargebackMoves.as_view()),
    path("reports/chargeback/idle", ChargebackIdle.as_view()),
]
