"""Routes under /api/v1/ for prices and reconciliations."""

from __future__ import annotations

from django.urls import URLPattern, path

from billing.api.price_views import (
    PoolTermsDetail,
    PoolTermsList,
    RateCardList,
    RateLineDetail,
    RateLineList,
)
from billing.api.reconciliation_views import (
    ReconciliationAcknowledgement,
    ReconciliationDetail,
    ReconciliationList,
)

urlpatterns: list[URLPattern] = [
    path("reconciliations", ReconciliationList.as_view()),
    path("reconciliations/<uuid:reconciliation_id>", ReconciliationDetail.as_view()),
    path(
        "reconciliations/<uuid:reconciliation_id>/acknowledgement",
        ReconciliationAcknowledgement.as_view(),
    ),
    path("rate-cards", RateCardList.as_view()),
    path("rate-cards/<uuid:card_id>/lines", RateLineList.as_view()),
    path("rate-cards/<uuid:card_id>/lines/<uuid:line_id>", RateLineDetail.as_view()),
    path("rate-cards/<uuid:card_id>/terms", PoolTermsList.as_view()),
    path("rate-cards/<uuid:card_id>/terms/<uuid:terms_id>", PoolTermsDetail.as_view()),
]
