"""Routes under /api/v1/ for credits."""

from __future__ import annotations

from django.urls import URLPattern, path

from bank.api.transfer_views import TransferApproval, TransferList, TransferRejection
from bank.api.views import CreditBankDetail, CreditHistory, CreditsDetail, CreditStatement

urlpatterns: list[URLPattern] = [
    path("credits", CreditsDetail.as_view()),
    path("credits/history", CreditHistory.as_view()),
    path("credits/statement", CreditStatement.as_view()),
    path("credits/transfers", TransferList.as_view()),
    path("credits/transfers/<uuid:transfer_id>/approve", TransferApproval.as_view()),
    path("credits/transfers/<uuid:transfer_id>/reject", TransferRejection.as_view()),
    path("organizations/<uuid:organization_id>/credit-bank", CreditBankDetail.as_view()),
]
