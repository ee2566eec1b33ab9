"""Django application."""

from importlib import import_module

from django.apps import AppConfig


class BudgetsConfig(AppConfig):
    """`budgets`."""

    name = "budgets"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the default budgets of new teams."""
        import_module("budgets.defaults").register()
