"""Django application."""

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """`budgets`."""

    name = "budgets"
    default_auto_field = "django.db.models.BigAutoField"
