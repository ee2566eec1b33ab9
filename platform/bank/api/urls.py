"""Routes under /api/v1/ for credits."""

from __future__ import annotations

from django.urls import URLPattern, path

from bank.api.views import CreditBankDetail, CreditsDetail, CreditStatement

urlpatterns: list[URLPattern] = [
    path("credits", CreditsDetail.as_view()),
    path("credits/statement", CreditStatement.as_view()),
    path("organizations/<uuid:organization_id>/credit-bank", CreditBankDetail.as_view()),
]
