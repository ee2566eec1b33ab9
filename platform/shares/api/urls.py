"""Routes under /api/v1/ for entitlements, fair-share and capacity."""

from __future__ import annotations

from django.urls import URLPattern, path

from shares.api.views import CapacityView, EntitlementView, FairShareView, NodeSummaries

urlpatterns: list[URLPattern] = [
    path("entitlement", EntitlementView.as_view()),
    path("fair-share", FairShareView.as_view()),
    path("node-summaries", NodeSummaries.as_view()),
    path("capacity", CapacityView.as_view()),
]
