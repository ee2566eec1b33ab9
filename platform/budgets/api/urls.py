"""Routes under /api/v1/ for budgets."""

from __future__ import annotations

from django.urls import URLPattern, path

from budgets.api.default_views import BudgetDefaultDetail, BudgetDefaultList
from budgets.api.views import BudgetAlertList, BudgetDetail, BudgetList

urlpatterns: list[URLPattern] = [
    path("budgets", BudgetList.as_view()),
    path("budgets/<uuid:budget_id>", BudgetDetail.as_view()),
    path("budget-alerts", BudgetAlertList.as_view()),
    path("budget-defaults", BudgetDefaultList.as_view()),
    path("budget-defaults/<uuid:default_id>", BudgetDefaultDetail.as_view()),
]
