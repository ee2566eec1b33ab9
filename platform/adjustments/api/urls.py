"""Routes under /api/v1/ for adjustments and disputes."""

from __future__ import annotations

from django.urls import URLPattern, path

from adjustments.api.views import (
    AdjustmentApproval,
    AdjustmentList,
    AdjustmentPolicyDetail,
    AdjustmentRejection,
    DisputeAcceptance,
    DisputeList,
    DisputeRefusal,
)

urlpatterns: list[URLPattern] = [
    path("adjustments", AdjustmentList.as_view()),
    path("adjustments/<uuid:adjustment_id>/approve", AdjustmentApproval.as_view()),
    path("adjustments/<uuid:adjustment_id>/reject", AdjustmentRejection.as_view()),
    path("disputes", DisputeList.as_view()),
    path("disputes/<uuid:dispute_id>/accept", DisputeAcceptance.as_view()),
    path("disputes/<uuid:dispute_id>/decline", DisputeRefusal.as_view()),
    path(
        "organizations/<uuid:organization_id>/adjustment-policy", AdjustmentPolicyDetail.as_view()
    ),
]
