"""Django application."""

from django.apps import AppConfig


class LedgerConfig(AppConfig):
    """`ledger`."""

    name = "ledger"
    default_auto_field = "django.db.models.BigAutoField"
