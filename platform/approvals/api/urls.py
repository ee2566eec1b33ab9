"""Routes under /api/v1/ for requests."""

from __future__ import annotations

from django.urls import URLPattern, path

from approvals.api.views import (
    ChangeRequestApproval,
    ChangeRequestComments,
    ChangeRequestCounter,
    ChangeRequestCounts,
    ChangeRequestDetail,
    ChangeRequestList,
    ChangeRequestOverride,
    ChangeRequestRejection,
    ChangeRequestWithdrawal,
    CounterOfferAcceptance,
    CounterOfferRefusal,
)

urlpatterns: list[URLPattern] = [
    path("requests", ChangeRequestList.as_view()),
    path("requests/counts", ChangeRequestCounts.as_view()),
    path("requests/<uuid:request_id>", ChangeRequestDetail.as_view()),
    path("requests/<uuid:request_id>/approve", ChangeRequestApproval.as_view()),
    path("requests/<uuid:request_id>/override", ChangeRequestOverride.as_view()),
    path("requests/<uuid:request_id>/counter", ChangeRequestCounter.as_view()),
    path("requests/<uuid:request_id>/reject", ChangeRequestRejection.as_view()),
    path("requests/<uuid:request_id>/withdraw", ChangeRequestWithdrawal.as_view()),
    path("requests/<uuid:request_id>/comments", ChangeRequestComments.as_view()),
    path("requests/<uuid:request_id>/offers/<int:number>/accept", CounterOfferAcceptance.as_view()),
    path("requests/<uuid:request_id>/offers/<int:number>/decline", CounterOfferRefusal.as_view()),
]
