"""Routes under /api/v1/ for reports by groups and the comparison of prices."""

from __future__ import annotations

from django.urls import URLPattern, path

from chargeback.api.comparison_views import RateCardComparison
from chargeback.api.job_views import ChargebackJobs
from chargeback.api.views import Chargeback, ChargebackIdle, ChargebackMoves, ClosedMonths

urlpatterns: list[URLPattern] = [
    path("reports/chargeback", Chargeback.as_view()),
    path("reports/chargeback/closed-months", ClosedMonths.as_view()),
    path("reports/chargeback/jobs", ChargebackJobs.as_view()),
    path("reports/chargeback/moves", ChargebackMoves.as_view()),
    path("reports/chargeback/idle", ChargebackIdle.as_view()),
    path("rate-cards/<uuid:card_id>/comparison", RateCardComparison.as_view()),
]
