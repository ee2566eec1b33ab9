"""Routes under /api/v1/ for months."""

from __future__ import annotations

from django.urls import URLPattern, path

from periods.api.code_views import AccountingCodeDetail, AccountingCodeList
from periods.api.statement_views import (
    StatementCredit,
    StatementDetail,
    StatementHtml,
    StatementList,
    StatementPdf,
)
from periods.api.views import PeriodClosing, PeriodDetail, PeriodList

urlpatterns: list[URLPattern] = [
    path("organizations/<uuid:organization_id>/accounting-codes", AccountingCodeList.as_view()),
    path("accounting-codes/<uuid:code_id>", AccountingCodeDetail.as_view()),
    path("organizations/<uuid:organization_id>/periods", PeriodList.as_view()),
    path("organizations/<uuid:organization_id>/periods/<str:month>", PeriodDetail.as_view()),
    path("organizations/<uuid:organization_id>/periods/<str:month>/close", PeriodClosing.as_view()),
    path(
        "organizations/<uuid:organization_id>/periods/<str:month>/statements",
        StatementList.as_view(),
    ),
    path("statements/<uuid:statement_id>", StatementDetail.as_view()),
    path("statements/<uuid:statement_id>/credit", StatementCredit.as_view()),
    path("statements/<uuid:statement_id>/html", StatementHtml.as_view()),
    path("statements/<uuid:statement_id>/pdf", StatementPdf.as_view()),
]
