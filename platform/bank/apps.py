"""Django application."""

from django.apps import AppConfig


class BankConfig(AppConfig):
    """`bank`."""

    name = "bank"
    default_auto_field = "django.db.models.BigAutoField"
